"""The runtime: the only layer with tasks, a clock, processes and open files."""

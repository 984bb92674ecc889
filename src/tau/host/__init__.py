"""Where it runs: tasks, clock and processes. The only floor that waits for anything."""

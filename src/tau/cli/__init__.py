"""The command line: print mode and the tasks of the `pi` and `tau` programs."""

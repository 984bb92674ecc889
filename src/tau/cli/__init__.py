"""The command line: chat, print mode and the tasks of the `pi` and `tau` programs."""

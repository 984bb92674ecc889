"""The door for people: the command line."""

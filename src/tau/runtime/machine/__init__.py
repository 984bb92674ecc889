"""The local machine: processes under a supervisor, files, the environment of commands."""

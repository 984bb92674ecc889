"""The door for programs: JSON lines on stdin and stdout."""

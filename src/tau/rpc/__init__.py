"""RPC front end: JSON lines on stdin and stdout, and JSON mode."""

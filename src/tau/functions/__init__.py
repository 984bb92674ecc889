"""Python functions as tools: for agents in the caller's process, and for clients of agents in other processes."""

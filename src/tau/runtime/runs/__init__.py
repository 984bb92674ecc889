"""Runs: the driver of the agent loop, the run queue, tools, model calls, compaction, permissions."""

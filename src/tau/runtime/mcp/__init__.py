"""MCP servers of a session: processes and HTTP connections, their life cycle, and their tools for the model.

Loaded only when a server is configured.
"""

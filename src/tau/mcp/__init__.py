"""MCP (Model Context Protocol), pure: configuration, messages, names, tool search, results, elicitation forms.

Connections and processes are in `runtime/mcp`.
"""

"""tau as an MCP server: `tau mcp serve`, on stdin and stdout, for clients of both protocol eras."""

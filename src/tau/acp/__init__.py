"""Agent Client Protocol front end (`tau acp`): JSON-RPC over stdin and stdout, for editors; many sessions."""

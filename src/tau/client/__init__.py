"""RPC client: starts an agent, tau or pi, in another process and drives it over stdin and stdout."""

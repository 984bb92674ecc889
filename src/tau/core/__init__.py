"""Pure decisions of the agent: no asyncio, no clock, no I/O."""

"""Building blocks for asyncio that every layer with an event loop may use."""

"""The Python library: an agent in the caller's process, `async with tau.open(...) as agent`."""

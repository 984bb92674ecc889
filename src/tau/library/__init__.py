"""An agent in the caller's own process: `async with tau.open(...) as agent`."""

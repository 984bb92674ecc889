"""For programs without an event loop: `tau.sync.open` is `tau.open`, and `tau.sync.RpcClient` is `tau.RpcClient`, with
methods that wait.
"""

from __future__ import annotations

from tau.client.blocking import Events, RpcClient
from tau.library.blocking import Agent, open

__all__ = ["Agent", "Events", "RpcClient", "open"]

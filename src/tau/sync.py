"""The synchronous API, for programs without an event loop: `tau.open` and `tau.RpcClient` with blocking methods."""

from __future__ import annotations

from tau.client.sync import Events, RpcClient
from tau.library.sync import Agent, open

__all__ = ["Agent", "Events", "RpcClient", "open"]

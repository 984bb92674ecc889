"""The synchronous API, for programs without an event loop: `tau.open`, `tau.RpcClient` and `tau.connect` with blocking
methods.
"""

from __future__ import annotations

from tau.client.sync import Events, RpcClient
from tau.client.sync_host import HostClient, connect
from tau.library.sync import Agent, open

__all__ = ["Agent", "Events", "HostClient", "RpcClient", "connect", "open"]

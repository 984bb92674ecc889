"""Servers that sessions of one process share: same entry, folder and variables, in the same event loop.

A shared server tells all its sessions about changes. It ends with the last of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from tau.runtime.mcp.server import McpServer


class Owner(Protocol):
    """The servers of a session."""

    def changed(self, server: McpServer) -> None: ...

    def names_changed(self, server: McpServer, names: list[str]) -> None: ...


class Owners:
    """The sessions that use a server. Implements Owner for its environment."""

    def __init__(self) -> None:
        self._owners: list[Owner] = []

    def __len__(self) -> int:
        return len(self._owners)

    def add(self, owner: Owner) -> None:
        self._owners.append(owner)

    def remove(self, owner: Owner) -> None:
        self._owners = [one for one in self._owners if one is not owner]

    def changed(self, server: McpServer) -> None:
        for owner in list(self._owners):
            owner.changed(server)

    def names_changed(self, server: McpServer, names: list[str]) -> None:
        for owner in list(self._owners):
            owner.names_changed(server, names)


class _Shared:
    def __init__(self, server: McpServer, owners: Owners) -> None:
        self.server = server
        self.owners = owners


_shared: dict[tuple[int, str], _Shared] = {}  # by event loop and what identifies a server


def acquire(key: str, owner: Owner, make: Callable[[Owners], McpServer]) -> McpServer:
    """The server for a key, shared with other sessions of this event loop; `make` creates it."""
    place = (id(asyncio.get_running_loop()), key)
    found = _shared.get(place)
    if found is None or found.server.is_closed:
        owners = Owners()
        found = _shared[place] = _Shared(make(owners), owners)
    found.owners.add(owner)
    return found.server


def release(server: McpServer, owner: Owner) -> bool:
    """A session no longer uses a server. True if it was the last one: then the caller ends the server."""
    for place, one in list(_shared.items()):
        if one.server is server:
            one.owners.remove(owner)
            if len(one.owners):
                return False
            del _shared[place]
    return True

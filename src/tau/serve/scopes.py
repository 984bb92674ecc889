"""The scope that each command needs."""

from __future__ import annotations

from tau.records import commands as c
from tau.records import host_commands as h
from tau.records.base import Record
from tau.records.host_commands import Scope

# All other commands of a session need `drive`.
WATCHED: frozenset[type[Record]] = frozenset(
    {
        c.GetState,
        c.GetMessages,
        c.GetAvailableModels,
        c.GetAvailableThinkingLevels,
        c.GetSessionStats,
        c.GetForkMessages,
        c.GetEntries,
        c.GetTree,
        c.GetLastAssistantText,
        c.GetCommands,
        c.GetTools,
        c.GetMcpServers,
        c.GetProtocol,
        c.ListSessions,
    }
)
HOST_SCOPES: dict[type[Record], Scope] = {h.OpenSession: "admin", h.CloseSession: "admin"}


def scope_of(kind: type[Record]) -> Scope:
    """The scope that a command needs."""
    if issubclass(kind, h.HostCommand):
        return HOST_SCOPES.get(kind, "watch")
    return "watch" if kind in WATCHED else "drive"

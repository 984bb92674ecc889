"""The commands of the protocol: which there are, what they need, and one on its way from its line to its response."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from long.protocol_queues import Queue
from long.protocol_rules import Json
from long.protocol_sessions import Session
from long.protocol_setup import LEVELS

MOVES = ("new_session", "switch_session", "fork", "clone", "navigate")
STOPS = (*MOVES, "abort", "compact")
# What changes the session, and so waits behind a move.
CHANGES = (
    *("prompt", "steer", "follow_up", "clear_queue", "compact", "bash", "set_session_name"),
    *("set_model", "cycle_model", "set_thinking_level", "cycle_thinking_level"),
)
QUEUED_BY: dict[str, Queue] = {"steer": "steering", "follow_up": "followUp"}
BEHAVIORS: dict[str, Queue] = {"steer": "steering", "followUp": "followUp"}
MODES = ("all", "one-at-a-time")
# Commands that never fail if their fields are right.
CERTAIN = {
    *("steer", "follow_up", "abort", "clear_queue", "new_session", "get_state", "get_messages", "cycle_model"),
    *("get_available_models", "set_thinking_level", "cycle_thinking_level", "get_available_thinking_levels"),
    *("set_steering_mode", "set_follow_up_mode", "set_auto_compaction", "set_auto_retry", "abort_retry"),
    *("set_budget", "bash", "abort_bash", "get_session_stats", "list_sessions", "clone"),
    *("get_fork_messages", "get_tree", "get_last_assistant_text", "get_commands", "get_protocol", "get_mcp_servers"),
}
REQUIRED = {
    "prompt": ("message",),
    "steer": ("message",),
    "follow_up": ("message",),
    "set_model": ("provider", "modelId"),
    "set_thinking_level": ("level",),
    "set_steering_mode": ("mode",),
    "set_follow_up_mode": ("mode",),
    "set_auto_compaction": ("enabled",),
    "set_auto_retry": ("enabled",),
    "bash": ("command",),
    "switch_session": ("sessionPath",),
    "navigate": ("entryId",),
    "fork": ("entryId",),
    "set_session_name": ("name",),
}
OPTIONAL = ("compact", "get_entries", "export_html")
COMMANDS = {*CERTAIN, *REQUIRED, *OPTIONAL}


def malformed(command: Json) -> bool:
    """Whether it is no command, lacks a field, or has a wrong value in one."""
    kind = command["type"]
    if kind not in COMMANDS or any(not isinstance(command.get(name), str | bool) for name in REQUIRED.get(kind, ())):
        return True
    if any(isinstance(command.get(name), bool) != (name == "enabled") for name in REQUIRED.get(kind, ())):
        return True
    return (
        ("level" in command and command["level"] not in LEVELS)
        or ("mode" in command and command["mode"] not in MODES)
        or command.get("streamingBehavior", "steer") not in BEHAVIORS
        or any(image.get("mimeType") != "image/png" for image in command.get("images", ()))
        or command.get("maxTurns", 1) < 1
    )


def content_of(command: Json) -> list[Json]:
    return [{"type": "text", "text": command["message"]}, *command.get("images", ())]


@dataclass
class Sent:
    """A command, from its line to its response."""

    command: Json
    place: int
    moves_ahead: bool = False  # it stands behind a command that goes to another session
    session: Session | None = None  # in which a bash command was started
    predicted: Any = None
    refused: bool = False  # it must be
    answered: int | None = None
    success: bool = False
    error: str = ""

    @property
    def kind(self) -> str:
        return str(self.command["type"])

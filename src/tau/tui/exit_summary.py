"""What stands at the terminal after the program has ended: time, turns, tokens, cost, changed files, how to resume."""

from __future__ import annotations

from tau.core.agent.draft import Update
from tau.core.text.terminal_text import escape_for_display
from tau.records.dialogs import UiRequest
from tau.records.events import Event, ToolEnd, ToolStart
from tau.runtime.app.handle import SessionHandle

CHANGING_TOOLS = ("write", "edit")
SHOWN_FILES = 3


class ExitSummary:
    """Collects the files that tools changed in this run of the program. `started` is a time in seconds."""

    def __init__(self, started: float) -> None:
        self._started = started
        self._paths: dict[str, str] = {}  # by tool call that is running
        self._changed: dict[str, None] = {}

    def on_event(self, event: Event | Update | UiRequest) -> None:
        if isinstance(event, ToolStart):
            if event.tool_name in CHANGING_TOOLS and isinstance(event.args, dict):
                path = event.args.get("path")
                if isinstance(path, str):
                    self._paths[event.tool_call_id] = path
        elif isinstance(event, ToolEnd):
            path = self._paths.pop(event.tool_call_id, None)
            if path is not None and not event.is_error:
                self._changed[path] = None

    def lines(self, handle: SessionHandle, now: float) -> list[str]:
        """Nothing for a session without a message, or if the setting `quietExit` is on."""
        if handle.settings.quiet_exit or not handle.log.tree.of_kind("message"):
            return []
        stats = handle.stats()
        turns, tokens = stats.user_messages, stats.tokens
        facts = [
            duration(now - self._started),
            f"{turns} turn{'' if turns == 1 else 's'}",
            f"{tokens.input + tokens.cache_read + tokens.cache_write:,} tokens in, {tokens.output:,} out",
        ]
        if stats.cost:
            facts.append(f"${stats.cost:.4f}" if stats.cost < 1 else f"${stats.cost:.2f}")
        lines = [" · ".join(facts)]
        if self._changed:
            lines.append(_changed_text(list(self._changed)))
        if (command := handle.resume_command) is not None:
            lines.append(f"Continue: {command}")
        return [escape_for_display(line) for line in lines]


def render(lines: list[str]) -> bytes:
    """The lines below a free one, for a terminal in raw mode whose cursor is at the start of a line."""
    return "".join(f"{line}\r\n" for line in ["", *lines]).encode("utf-8", "replace") if lines else b""


def duration(seconds: float) -> str:
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"


def _changed_text(paths: list[str]) -> str:
    shown, more = paths[:SHOWN_FILES], len(paths) - SHOWN_FILES
    return f"Changed: {', '.join(shown)}" + (f" and {more} more" if more > 0 else "")

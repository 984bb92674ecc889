"""System messages of a conversation, replayed: the system prompt, in sections, and the tools that they declare.

Each message declares only what has changed since the one before. A compaction keeps the sum of them as one message,
as pi does since 0.86, because it removes the messages themselves.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tau.records.base import UNSET, BadRecord, parse, wire_json
from tau.records.messages import Other, System


class SystemState:
    """What the messages that were applied declare together."""

    def __init__(self, messages: Iterable[Other | System] = ()) -> None:
        self.sections: dict[str, str] = {}
        self.tools: dict[str, Any] = {}
        self._texts: list[str] = []
        for message in messages:
            self.apply(message)

    def apply(self, message: Other | System) -> None:
        try:
            content = parse(wire_json(message))
        except BadRecord:
            return
        if text := _text(content.get("content")):
            self._texts.append(text)
        for name, section in _mapping(content.get("sections")).items():
            if isinstance(section, str):
                self.sections[name] = section
            else:
                self.sections.pop(name, None)
        for tool in _list(content.get("toolsAdded")):
            if isinstance(tool, dict) and isinstance(tool.get("name"), str):
                self.tools[tool["name"]] = tool
        for removed in _list(content.get("toolsRemoved")):
            self.tools.pop(removed if isinstance(removed, str) else "", None)

    def message(self, timestamp: int) -> System | None:
        """One message that declares all of it; None if there is nothing."""
        if not (self.sections or self.tools or self._texts):
            return None
        text = "\n\n".join(self._texts)
        return System(text, timestamp, {**self.sections} or UNSET, [*self.tools.values()] or UNSET)


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    blocks = (block.get("text") for block in _list(content) if isinstance(block, dict))
    return "\n".join(text for text in blocks if isinstance(text, str))


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []

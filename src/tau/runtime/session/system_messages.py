"""System messages: the system prompt and the tools as part of the conversation, in dialects that have them.

pi records since 0.86 which system prompt, in sections, and which tools a model had, as messages with the role
`system`: all of it before the first prompt, later only what has changed. They are for clients and readers of the
session file. The model gets its prompt and tools as in any other dialect, and never these messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tau.core.conversation.system_prompt import prompt_sections
from tau.records.base import UNSET, BadRecord, parse, wire_json
from tau.records.messages import Other, System
from tau.runtime.clock import now
from tau.runtime.history.conversation import Conversation
from tau.runtime.resources import Resources
from tau.tools import Tool


class SystemMessages:
    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._conversation: Conversation | None = None  # the one that declares the following
        self._sections: dict[str, str] = {}
        self._tools: dict[str, Any] = {}

    def due(self, conversation: Conversation, tools: Sequence[Tool]) -> System | None:
        """Return the message that declares what has changed since the last one; None if nothing has.

        Also None while the resources of the prompt are unknown.
        """
        found = self._resources.found
        if found is None:
            return None
        if conversation is not self._conversation:
            self._replay(conversation)
        sections = prompt_sections(tools, found.query.cwd, found.parts)
        declared = {tool.name: _declaration(tool) for tool in tools}
        changed = _changes(self._sections, sections)
        added = [tool for name, tool in declared.items() if self._tools.get(name) != tool]
        removed = [name for name in self._tools if name not in declared]
        if not (changed or added or removed):
            return None
        return System("", now(), changed or UNSET, added or UNSET, removed or UNSET)

    def _replay(self, conversation: Conversation) -> None:
        """Read what the messages of a conversation declare."""
        self._conversation, self._sections, self._tools = conversation, {}, {}
        for message in conversation:
            if isinstance(message, System) or (isinstance(message, Other) and message.role == "system"):
                self.apply(message)

    def apply(self, message: System | Other) -> None:
        """Take over what a message declares, which is now part of the conversation."""
        try:
            content = parse(wire_json(message))
        except BadRecord:
            return
        for name, text in _mapping(content.get("sections")).items():
            if isinstance(text, str):
                self._sections[name] = text
            else:
                self._sections.pop(name, None)
        for tool in _list(content.get("toolsAdded")):
            if isinstance(tool, dict) and isinstance(tool.get("name"), str):
                self._tools[tool["name"]] = tool
        for removed in _list(content.get("toolsRemoved")):
            self._tools.pop(removed if isinstance(removed, str) else "", None)


def _declaration(tool: Tool) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "parameters": tool.parameters}


def _changes(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str | None]:
    """The sections that are new or different; None for those that are gone."""
    changed: dict[str, str | None] = {name: text for name, text in after.items() if before.get(name) != text}
    return changed | {name: None for name in before if name not in after}


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []

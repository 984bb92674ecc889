"""System messages: the system prompt and the tools as part of the conversation, in dialects that have them.

pi records since 0.86 which system prompt, in sections, and which tools a model had, as messages with the role
`system`: all of it before the first prompt, later only what has changed. They are for clients and readers of the
session file. The model gets its prompt and tools as in any other dialect, and never these messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tau.core.conversation.entry_messages import is_system
from tau.core.conversation.system_prompt import prompt_sections
from tau.core.conversation.system_state import SystemState
from tau.records.base import UNSET
from tau.records.messages import System
from tau.runtime.clock import now
from tau.runtime.history.conversation import Conversation
from tau.runtime.resources import Resources
from tau.tools import Tool


class SystemMessages:
    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._conversation: Conversation | None = None  # the one that declares the following
        self._declared = SystemState()

    def due(self, conversation: Conversation, tools: Sequence[Tool]) -> System | None:
        """Return the message that declares what has changed since the last one; None if nothing has.

        Also None while the resources of the prompt are unknown.
        """
        found = self._resources.found
        if found is None:
            return None
        if conversation is not self._conversation:
            self._conversation, self._declared = conversation, SystemState(filter(is_system, conversation))
        sections = prompt_sections(tools, found.query.cwd, found.parts)
        declared = {tool.name: _declaration(tool) for tool in tools}
        changed = _changes(self._declared.sections, sections)
        added = [tool for name, tool in declared.items() if self._declared.tools.get(name) != tool]
        removed = [name for name in self._declared.tools if name not in declared]
        if not (changed or added or removed):
            return None
        return System("", now(), changed or UNSET, added or UNSET, removed or UNSET)

    def apply(self, message: System) -> None:
        """Take over what a message declares, which is now part of the conversation."""
        self._declared.apply(message)


def _declaration(tool: Tool) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "parameters": tool.parameters}


def _changes(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str | None]:
    """The sections that are new or different; None for those that are gone."""
    changed: dict[str, str | None] = {name: text for name, text in after.items() if before.get(name) != text}
    return changed | {name: None for name in before if name not in after}

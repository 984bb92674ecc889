"""What was said and set in one session, in order: the tree of entries and the conversation it holds.

Kept in memory. An entry is in the log before anybody is told of it.
"""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from typing import Any, TypeVar

from tau.core.tree import Tree, context, prompt_text
from tau.errors import CommandError
from tau.records.base import UNSET, replace
from tau.records.entries import (
    AnyEntry,
    Header,
    Label,
    MessageEntry,
    ModelChange,
    SessionInfo,
    ThinkingLevelChange,
)
from tau.records.messages import AnyMessage
from tau.records.models import Model, ThinkingLevel

E = TypeVar("E", bound=AnyEntry)


class Log:
    def __init__(self, cwd: str, parent: str | None = None) -> None:
        self.header = Header(session_id(), iso(), cwd, parent_session=UNSET if parent is None else parent)
        self.tree = Tree()
        self._messages: list[AnyMessage] | None = []

    @property
    def id(self) -> str:
        return self.header.id

    @property
    def messages(self) -> list[AnyMessage]:
        """The conversation on the current branch."""
        if self._messages is None:
            self._messages = context(self.tree.branch)
        return self._messages

    def say(self, message: AnyMessage) -> None:
        conversation = self.messages  # read, if need be, before the entry is in it
        self._add(MessageEntry, message)
        conversation.append(message)

    def forget(self, message: AnyMessage) -> None:
        """Leave a failed answer out of the conversation; its entry stays."""
        self.messages[:] = [kept for kept in self.messages if kept is not message]

    def set_model(self, model: Model) -> None:
        self._add(ModelChange, model.provider, model.id)

    def set_level(self, level: ThinkingLevel) -> None:
        self._add(ThinkingLevelChange, level)

    def set_name(self, name: str) -> None:
        self._add(SessionInfo, name)

    def forked(self, entry_id: str) -> tuple[Log, str]:
        """A new log with everything before a user's message, and that message's text."""
        entry = self.tree.get(entry_id)
        text = prompt_text(entry)
        if entry is None or text is None:
            raise CommandError("Invalid entry ID for forking")
        return self._copy(self.tree.path(entry.parent_id)), text

    def cloned(self) -> Log:
        return self._copy(self.tree.branch)

    def _copy(self, branch: list[AnyEntry]) -> Log:
        """Labels stay behind; what hung on one hangs on its parent."""
        copy = Log(self.header.cwd)
        moved: dict[str | None, str | None] = {}
        for entry in branch:
            parent = moved.get(entry.parent_id, entry.parent_id)
            if isinstance(entry, Label):
                moved[entry.id] = parent
            else:
                copy.tree.add(entry if parent == entry.parent_id else replace(entry, parent_id=parent))
        copy._messages = None
        return copy

    def _add(self, kind: Any, *values: Any) -> None:
        self.tree.add(kind(self._new_id(), self.tree.leaf, iso(), *values))

    def _new_id(self) -> str:
        while (id := os.urandom(4).hex()) in self.tree:
            pass
        return id


def now() -> int:
    return time.time_ns() // 1_000_000


def iso() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def session_id() -> str:
    """A UUID of version 7, so that ids sort by time."""
    digits = f"{now():012x}" + os.urandom(10).hex()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-7{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:32]}"

"""Entries of a session, written as one would tell them.

    talk = Talk()
    talk.user("hi")
    talk.says("hello", used=120)
    talk.branch                         # what functions of tau.core look at
    talk.tree                           # the same as a tree

Ids are e1, e2, …; each method returns the entry it made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tau.core.conversation.tree import Tree
from tau.records.base import UNSET, wire
from tau.records.entries import (
    AnyEntry,
    BranchSummaryEntry,
    CompactionEntry,
    CustomEntry,
    CustomMessageEntry,
    Label,
    MessageEntry,
    ThinkingLevelChange,
)
from tau.records.lines import OtherEntry
from tau.records.messages import (
    AnyMessage,
    Assistant,
    BashExecution,
    Image,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    User,
)
from tau.records.models import Model

MODEL = Model("m", "M", "scripted", "p", "", reasoning=True, context_window=200_000, max_tokens=8192)
TIME = "2026-01-02T03:04:05.678Z"


def words(tokens: int) -> str:
    """A text that is estimated to take that many tokens."""
    return "word" * tokens


def call(id: str, name: str = "bash", **arguments: Any) -> ToolCall:
    return ToolCall(id, name, arguments)


def answer(
    *content: str | Text | Thinking | ToolCall,
    used: int = 0,
    stop: StopReason | None = None,
    error: str | None = None,
    usage: Usage | None = None,
    provider: str = "p",
    model: str = "m",
) -> Assistant:
    blocks = [Text(block) if isinstance(block, str) else block for block in content]
    usual: StopReason = "toolUse" if any(isinstance(block, ToolCall) for block in blocks) else "stop"
    return Assistant(
        blocks,
        "scripted",
        provider,
        model,
        usage or Usage(total_tokens=used),
        stop or ("error" if error is not None else usual),
        0,
        error_message=UNSET if error is None else error,
    )


class Talk:
    def __init__(self) -> None:
        self.branch: list[AnyEntry | OtherEntry] = []

    @property
    def tree(self) -> Tree:
        tree = Tree()
        for entry in self.branch:
            kind = entry.type if isinstance(entry, OtherEntry) else str(entry.__struct_config__.tag)
            tree.add(wire(entry), entry.id, kind)
        return tree

    @property
    def messages(self) -> list[AnyMessage]:
        return [entry.message for entry in self.branch if isinstance(entry, MessageEntry)]

    def user(self, content: str | list[Text | Image]) -> MessageEntry:
        return self.message(User(content, 0))

    def says(self, *content: str | Text | Thinking | ToolCall, **other: Any) -> MessageEntry:
        return self.message(answer(*content, **other))

    def result(self, id: str, text: str, name: str = "bash") -> MessageEntry:
        return self.message(ToolResult(id, name, [Text(text)]))

    def bash(self, command: str, output: str = "", *, exclude: bool = False) -> MessageEntry:
        return self.message(BashExecution(command, output, 0, exclude_from_context=exclude or UNSET))

    def message(self, message: AnyMessage) -> MessageEntry:
        return self._add(MessageEntry, message)  # type: ignore[no-any-return]

    def custom(self, content: str) -> CustomMessageEntry:
        return self._add(CustomMessageEntry, "ext", content, True)  # type: ignore[no-any-return]

    def branch_summary(self, summary: str, **other: Any) -> BranchSummaryEntry:
        return self._add(BranchSummaryEntry, "e1", summary, **other)  # type: ignore[no-any-return]

    def compaction(self, summary: str, first_kept: str, before: int = 0, **other: Any) -> CompactionEntry:
        return self._add(CompactionEntry, summary, first_kept, before, **other)  # type: ignore[no-any-return]

    def level(self) -> ThinkingLevelChange:
        return self._add(ThinkingLevelChange, "high")  # type: ignore[no-any-return]

    def state(self) -> CustomEntry:
        return self._add(CustomEntry, "ext", {})  # type: ignore[no-any-return]

    def label(self) -> Label:
        return self._add(Label, "e1", "here")  # type: ignore[no-any-return]

    def other(self) -> OtherEntry:
        entry = OtherEntry("context_edit", self._id(), self._parent(), TIME)
        self.branch.append(entry)
        return entry

    def _add(self, kind: Any, *values: Any, **other: Any) -> Any:
        entry = kind(self._id(), self._parent(), TIME, *values, **other)
        self.branch.append(entry)
        return entry

    def _id(self) -> str:
        return f"e{len(self.branch) + 1}"

    def _parent(self) -> str | None:
        return self.branch[-1].id if self.branch else None


def ids(entries: Sequence[AnyEntry | OtherEntry]) -> list[str]:
    return [entry.id for entry in entries]

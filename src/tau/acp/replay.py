"""The entries of a session as updates: what session/load sends before its answer. Pure.

A tool call is sent once, with its result: when the result is read, or at the end of the calls of its message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tau.acp.open_calls import CallIds, OpenCalls
from tau.acp.tool_views import command_output, content_of, shown, stored_diffs
from tau.acp.translator import plan_of
from tau.acp.updates import (
    CompactionUpdate,
    Contained,
    MessageChunk,
    Status,
    TextContent,
    ThoughtChunk,
    ToolCall,
    ToolContent,
    Update,
    UserChunk,
)
from tau.records.base import UNSET, to_builtins
from tau.records.entries import CompactionEntry, CustomEntry, CustomMessageEntry, MessageEntry
from tau.records.messages import Assistant, BashExecution, Image, Text, Thinking, ToolResult, User
from tau.records.messages import ToolCall as Call


class Replay:
    """`compaction`: the client knows compaction updates. `calls` gives the views of tool calls."""

    def __init__(self, calls: OpenCalls, cwd: str, *, compaction: bool) -> None:
        self._calls = calls
        self._cwd = cwd
        self._compaction = compaction
        self.ids = CallIds()
        self._unanswered: dict[str, Call] = {}
        self._readers: dict[type, Callable[[Any, str], Iterable[Update]]] = {
            User: self._user,
            Assistant: self._assistant,
            ToolResult: self._result,
            BashExecution: self._bash,
        }

    def read(self, entry: object) -> Iterator[Update]:
        """The updates for the next entry of the branch."""
        match entry:
            case MessageEntry(id=id, message=message):
                reader = self._readers.get(type(message))
                if reader is not None:
                    yield from reader(message, id)
            case CompactionEntry(id=id, summary=summary):
                yield from self._compacted(id, summary)
            case CustomMessageEntry(id=id, content=content, display=True):
                yield from _chunks(MessageChunk, content, id)
            case CustomEntry(custom_type="plan"):
                plan = plan_of(to_builtins(entry))
                if plan is not None:
                    yield plan

    def end(self) -> Iterator[Update]:
        """The calls that never got a result."""
        for call in self._unanswered.values():
            yield self._call(call, None)
        self._unanswered.clear()

    def _user(self, message: User, id: str) -> Iterator[Update]:
        yield from self.end()
        yield from _chunks(UserChunk, message.content, id)

    def _assistant(self, message: Assistant, id: str) -> Iterator[Update]:
        yield from self.end()
        for block in message.content:
            match block:
                case Thinking(text) if text:
                    yield ThoughtChunk(content=TextContent(text), message_id=id)
                case Text(text) if text:
                    yield MessageChunk(content=TextContent(text), message_id=id)
                case Call():
                    self._unanswered[block.id] = block

    def _result(self, message: ToolResult, id: str) -> Iterator[Update]:
        call = self._unanswered.pop(message.tool_call_id, None)
        yield self._call(call or Call(message.tool_call_id, message.tool_name, {}), message)

    def _call(self, call: Call, result: ToolResult | None) -> ToolCall:
        view = self._calls.view(call.name, call.arguments)
        content: list[ToolContent] = []
        details: Any = UNSET
        if result is not None:
            details = UNSET if result.details is None else result.details
            content = [] if result.is_error else stored_diffs(call.name, call.arguments, details, self._cwd)
            if not content:
                content = (command_output if call.name == "bash" else content_of)(result.content)
        return ToolCall(
            tool_call_id=self.ids.new(call.id),
            name=call.name,
            title=view.title,
            kind=view.kind,
            status=self._status(call, result),
            content=content,
            locations=view.locations,
            raw_input=call.arguments,
            raw_output=details,
        )

    def _status(self, call: Call, result: ToolResult | None) -> Status:
        """A call without a result has failed, unless it runs now: the client may load a session that is at work."""
        if result is None:
            return self._calls.status_of(call.id) or "failed"
        return "failed" if result.is_error else "completed"

    def _bash(self, message: BashExecution, id: str) -> Iterator[Update]:
        failed = message.cancelled or message.exit_code not in (0, UNSET)
        yield ToolCall(
            tool_call_id=self.ids.new(f"bash-{id}"),
            title=shown(message.command),
            kind="execute",
            status="failed" if failed else "completed",
            content=command_output([Text(message.output)]),
            raw_input={"command": message.command},
        )

    def _compacted(self, id: str, summary: str) -> Iterator[Update]:
        yield from self.end()
        if self._compaction:
            yield CompactionUpdate(compaction_id=id, status="completed", summary=[TextContent(summary)])
        else:
            yield ThoughtChunk(content=TextContent(summary), message_id=id)


def _chunks(
    kind: type[UserChunk | MessageChunk], content: str | list[Text | Image], message_id: str
) -> Iterator[Update]:
    blocks: list[Text | Image] = [Text(content)] if isinstance(content, str) else content
    for one in content_of(blocks):
        if isinstance(one, Contained):
            yield kind(content=one.content, message_id=message_id)

"""The tool calls of a session that are announced and have not ended, and the updates about them. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tau.acp.diffs import diffs_of_change
from tau.acp.tool_views import View, absolute, command_output, content_of, tail_of, view_of
from tau.acp.updates import (
    Contained,
    Location,
    Status,
    Terminal,
    TextContent,
    ToolCall,
    ToolCallUpdate,
    ToolContent,
    ToolKind,
    Update,
)
from tau.records.base import UNSET
from tau.records.events import Outcome
from tau.records.messages import Text

_EXIT = re.compile(r"\n?\n?Command exited with code (\d+)$")
_SIGNAL = re.compile(r"\n?\n?Command was killed by signal (\w+)$")


class ToolInfo(NamedTuple):
    """What is known of a tool that is not built in."""

    label: str
    kind: ToolKind = "other"


class FileChange(NamedTuple):
    """What a call changed in a file. `before` is None for a new file."""

    path: str
    before: bytes | None
    after: bytes


class Call:
    """A call that has not ended. It is announced once its arguments are there, or when they take long."""

    def __init__(self, id: str, name: str) -> None:
        self.id = id
        self.name = name
        self.arguments: Mapping[str, Any] = {}
        self.announced = False
        self.started = False
        self.output = ""  # sent as output of a terminal


class CallIds:
    """Ids of calls for the client, unique in the session. They depend only on the order of the calls."""

    def __init__(self) -> None:
        self._used: dict[str, int] = {}  # how often an id of the model was used

    def new(self, model_id: str) -> str:
        times = self._used[model_id] = self._used.get(model_id, 0) + 1
        return model_id if times == 1 else f"{model_id}#{times}"

    def add(self, other: CallIds) -> None:
        """Count the calls of a replay as used."""
        for id, times in other._used.items():
            self._used[id] = max(times, self._used.get(id, 0))


class OpenCalls:
    """`info` describes tools that are not built in. `terminal`: the client takes output of commands in `_meta`."""

    def __init__(self, cwd: str, info: Callable[[str], ToolInfo], *, terminal: bool = False) -> None:
        self._cwd = cwd
        self._info = info
        self._terminal = terminal
        self._open: dict[str, Call] = {}  # by the id of the model
        self.ids = CallIds()
        self._changes: dict[str, list[FileChange]] = {}  # by the id of the model

    def __len__(self) -> int:
        return len(self._open)

    def id_of(self, model_id: str) -> str:
        """The id of an open call for the client."""
        call = self._open.get(model_id)
        return model_id if call is None else call.id

    def status_of(self, model_id: str) -> Status | None:
        """The status of an open call; None for one that is not open."""
        call = self._open.get(model_id)
        return None if call is None else "in_progress" if call.started else "pending"

    def view(self, name: str, arguments: Mapping[str, Any]) -> View:
        info = self._info(name)
        return view_of(name, arguments, self._cwd, info.label, info.kind)

    def record_change(self, model_id: str, change: FileChange) -> None:
        """A running call has written a file."""
        self._changes.setdefault(model_id, []).append(change)

    def open(self, model_id: str, name: str) -> Call:
        """The model begins to write a call."""
        return self._add(model_id, name)

    def announce(self, call: Call) -> ToolCall | None:
        """Announce a call whose arguments are not there yet; None if it is known already, or has ended."""
        if call.announced or call not in self._open.values():
            return None
        call.announced = True
        title = self._info(call.name).label or call.name
        return ToolCall(tool_call_id=call.id, name=call.name, title=title, kind=self.view(call.name, {}).kind)

    def complete_arguments(self, model_id: str, name: str, arguments: Mapping[str, Any]) -> list[Update]:
        """The model has written the whole call."""
        call = self._open.get(model_id)
        if call is None or call.started:
            return []
        call.arguments = arguments
        if not call.announced:
            return [self._whole(call)]
        view = self.view(name, arguments)
        return [ToolCallUpdate(tool_call_id=call.id, title=view.title, locations=view.locations, raw_input=arguments)]

    def start(self, model_id: str, name: str, arguments: Any) -> Update:
        given: Mapping[str, Any] = arguments if isinstance(arguments, Mapping) else {}
        call = self._open.get(model_id)
        meta: Any = UNSET
        content: Any = UNSET
        if call is None or call.started:  # a second call with the id of one that runs
            call = self._add(model_id, name)
        call.arguments, call.started = given, True
        if self._is_terminal(name):
            content = [Terminal(call.id)]
            meta = {"terminal_info": {"terminal_id": call.id, "cwd": self._cwd}}
        if call.announced:
            return ToolCallUpdate(tool_call_id=call.id, status="in_progress", content=content, meta=meta)
        return self._whole(call, "in_progress", content, meta)

    def progress(self, model_id: str, outcome: Outcome) -> ToolCallUpdate | None:
        """Output of a running call; None if there is nothing to show."""
        call = self._open.get(model_id)
        if call is None or not outcome.content:
            return None
        text = "".join(block.text for block in outcome.content if isinstance(block, Text))
        if self._is_terminal(call.name):
            new = _new_output(call.output, text)
            call.output = text
            return ToolCallUpdate(tool_call_id=call.id, meta=_terminal_output(call.id, new)) if new else None
        if call.name == "bash":
            content = command_output([Text(tail_of(text))])
        else:
            content = content_of([Text(tail_of(text))] if text else outcome.content)
        return ToolCallUpdate(tool_call_id=call.id, content=content)

    def end(self, model_id: str, name: str, outcome: Outcome, *, is_error: bool) -> ToolCallUpdate:
        call = self._open.pop(model_id, None) or self._add(model_id, name, keep=False)
        changes = self._changes.pop(model_id, [])
        status: Status = "failed" if is_error else "completed"
        meta: Any = UNSET
        locations: Any = UNSET
        content: list[ToolContent]
        if self._is_terminal(name) and call.started:
            content = [Terminal(call.id)]
            meta = self._terminal_end(call, outcome, is_error=is_error)
        elif changes and not is_error:
            content = [diff for change in changes for diff in diffs_of_change(*change)]
        elif name == "bash":
            content = command_output(outcome.content)
        else:
            content = content_of(outcome.content)
        first = outcome.details.get("firstChangedLine") if isinstance(outcome.details, dict) else None
        if name == "edit" and isinstance(first, int) and isinstance(path := call.arguments.get("path"), str):
            locations = [Location(absolute(path, self._cwd), first)]
        details = outcome.details if outcome.details is not None else UNSET
        return ToolCallUpdate(
            tool_call_id=call.id,
            status=status,
            content=content,
            locations=locations,
            raw_output=details,
            meta=meta,
        )

    def fail_all(self, reason: str) -> list[Update]:
        """No open call will run or end by itself."""
        calls, self._open = [call for call in self._open.values() if call.announced], {}
        self._changes.clear()
        content: list[ToolContent] = [Contained(TextContent(reason))]
        return [ToolCallUpdate(tool_call_id=call.id, status="failed", content=content) for call in calls]

    def _whole(self, call: Call, status: Status = "pending", content: Any = UNSET, meta: Any = UNSET) -> ToolCall:
        """Announce a call with its arguments."""
        call.announced = True
        view = self.view(call.name, call.arguments)
        return ToolCall(
            tool_call_id=call.id,
            name=call.name,
            title=view.title,
            kind=view.kind,
            status=status,
            locations=view.locations,
            raw_input=call.arguments,
            content=content,
            meta=meta,
        )

    def _add(self, model_id: str, name: str, *, keep: bool = True) -> Call:
        call = Call(self.ids.new(model_id), name)
        if keep:
            self._open[model_id] = call
        return call

    def _is_terminal(self, name: str) -> bool:
        return self._terminal and name == "bash"

    def _terminal_end(self, call: Call, outcome: Outcome, *, is_error: bool) -> dict[str, Any]:
        text = "".join(block.text for block in outcome.content if isinstance(block, Text))
        code, signal = _exit_of(text, is_error=is_error)
        exit = {"terminal_id": call.id, "exit_code": code, "signal": signal}
        new = _new_output(call.output, text)
        return {"terminal_exit": exit} | (_terminal_output(call.id, new) if new else {})


def _terminal_output(id: str, data: str) -> dict[str, Any]:
    return {"terminal_output": {"terminal_id": id, "data": data}}


def _exit_of(text: str, *, is_error: bool) -> tuple[int | None, str | None]:
    if not is_error:
        return 0, None
    if found := _EXIT.search(text):
        return int(found[1]), None
    if found := _SIGNAL.search(text):
        return None, found[1]
    return None, "SIGKILL"


def _new_output(sent: str, text: str) -> str:
    """The part of `text` that follows what was sent. The beginning of long output is cut off in both."""
    if text.startswith(sent):
        return text[len(sent) :]
    end = sent[-1024:]
    at = text.rfind(end)
    return text[at + len(end) :] if end and at >= 0 else text

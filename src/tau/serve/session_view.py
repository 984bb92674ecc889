"""What a client knows that has heard a stream from its beginning: the fold of all events, kept up to date."""

from __future__ import annotations

from typing import Any

from tau.core.agent.draft import Update
from tau.records.base import UNSET, Raw, UnsetType, wire_json
from tau.records.deltas import ToolCallDelta, ToolCallEnd, ToolCallStart
from tau.records.dialogs import Confirm, Editor, Input, Select, SetStatus, SetTitle, SetWidget, UiRequest
from tau.records.events import (
    AgentEnd,
    AgentSettled,
    Event,
    MessageEnd,
    MessageStart,
    QueueUpdate,
    ToolEnd,
    ToolStart,
    ToolUpdate,
)
from tau.records.host_events import DialogResolved, RunningTool, SessionChanged, Settled, ShownUi
from tau.records.messages import Assistant
from tau.records.replies import Queues

Question = Select | Confirm | Input | Editor


class SessionView:
    def __init__(self) -> None:
        self.partial: Update | Assistant | None = None  # the answer that is being streamed
        self._arguments: dict[int, list[str]] = {}  # of its calls that are not complete, by content index
        self.tools: dict[str, ToolStart | ToolUpdate] = {}
        self.queue = Queues([], [])
        self.dialogs: dict[str, Question] = {}
        self.title: str | None = None
        self.statuses: dict[str, str] = {}
        self.widgets: dict[str, SetWidget] = {}
        self.settled: Settled | None = None

    def apply(self, event: Event | Update | UiRequest, seq: int) -> None:
        if isinstance(event, Update):
            self.partial = event
            if isinstance(event.delta, ToolCallDelta | ToolCallStart | ToolCallEnd):
                self._follow_arguments(event.delta)
        elif isinstance(event, ToolUpdate):
            self.tools[event.tool_call_id] = event
        elif isinstance(event, UiRequest):
            self._show(event)
        else:
            self._apply(event, seq)

    def _apply(self, event: Event, seq: int) -> None:
        match event:
            case MessageStart(message=Assistant() as message):
                self._set_partial(message)
            case MessageEnd(message=Assistant()) | AgentEnd():
                self._set_partial(None)
            case ToolStart():
                self.tools[event.tool_call_id] = event
            case ToolEnd():
                self.tools.pop(event.tool_call_id, None)
            case QueueUpdate():
                self.queue = Queues(event.steering, event.follow_up)
            case AgentSettled():
                self.tools.clear()
                self.settled = Settled(seq, event.aborted)
            case DialogResolved():
                self.dialogs.pop(event.id, None)
            case SessionChanged():
                self._set_partial(None)
                self.settled = None
                self.tools.clear()

    def _set_partial(self, message: Assistant | None) -> None:
        self.partial = message
        self._arguments.clear()

    def _follow_arguments(self, delta: ToolCallStart | ToolCallDelta | ToolCallEnd) -> None:
        match delta:
            case ToolCallDelta():
                self._arguments.setdefault(delta.content_index, []).append(delta.delta)
            case ToolCallStart():
                self._arguments[delta.content_index] = []
            case ToolCallEnd():
                self._arguments.pop(delta.content_index, None)

    def _show(self, request: UiRequest) -> None:
        match request:
            case Select() | Confirm() | Input() | Editor():
                self.dialogs[request.id] = request
            case SetTitle():
                self.title = request.title
            case SetStatus(status_text=str() as text):
                self.statuses[request.status_key] = text
            case SetStatus():
                self.statuses.pop(request.status_key, None)
            case SetWidget(widget_lines=list()):
                self.widgets[request.widget_key] = request
            case SetWidget():
                self.widgets.pop(request.widget_key, None)

    def partial_json(self) -> Any:
        """The answer so far, as JSON."""
        match self.partial:
            case None:
                return None
            case Update() as update:
                return Raw(update.snapshot_json())
            case message:
                return Raw(wire_json(message))

    def partial_arguments(self) -> dict[str, str] | UnsetType:
        """The JSON text so far of the calls whose arguments are not complete, by content index."""
        texts = {str(index): "".join(pieces) for index, pieces in self._arguments.items()}
        return texts or UNSET

    def running_tools(self) -> list[RunningTool]:
        return [
            RunningTool(
                tool.tool_call_id,
                tool.tool_name,
                tool.args,
                tool.partial_result if isinstance(tool, ToolUpdate) else UNSET,
            )
            for tool in self.tools.values()
        ]

    def ui(self) -> ShownUi:
        title = UNSET if self.title is None else self.title
        return ShownUi(title, dict(self.statuses), {key: _shown_widget(one) for key, one in self.widgets.items()})


def _shown_widget(widget: SetWidget) -> dict[str, Any]:
    placement = {} if widget.widget_placement is UNSET else {"placement": widget.widget_placement}
    return {"lines": widget.widget_lines, **placement}

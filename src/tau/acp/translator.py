"""Events of a session as updates for the client. Pure: one object per session, events in, updates out.

It knows which tool calls are open. Their statuses never go back, and each of them ends as `completed` or `failed`
before the answer to its prompt. Ids of calls are unique in the session, although models repeat theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tau.acp.open_calls import OpenCalls
from tau.acp.requests import Capabilities
from tau.acp.tool_views import content_of
from tau.acp.updates import (
    CompactionUpdate,
    Contained,
    InfoUpdate,
    MessageChunk,
    Notice,
    Plan,
    PlanEntry,
    Severity,
    TextContent,
    ThoughtChunk,
    ToolCall,
    ToolCallUpdate,
    Update,
    UserChunk,
)
from tau.core.agent.budgets import limit_text
from tau.records.base import UNSET, BadRecord, convert
from tau.records.deltas import ToolCallEnd
from tau.records.events import (
    AgentSettled,
    AutoRetryEnd,
    AutoRetryStart,
    BudgetExceeded,
    CompactionEnd,
    CompactionStart,
    EntryAppended,
    Event,
    ExtensionError,
    McpServerUpdate,
    MessageEnd,
    MessageStart,
    QueueUpdate,
    SessionDamaged,
    SessionInfoChanged,
    SessionWriteFailed,
    SessionWriteRecovered,
    ToolEnd,
    ToolStart,
    ToolUpdate,
)
from tau.records.messages import Assistant, Custom, Image, Text, User

COMPACTION_TITLE = "Compact the conversation"


class Translator:
    """`answer_id` returns the id of the entry that an answer will be, `new_id` an id for other messages.

    `iso_now` is the time. `log` takes what the client cannot be shown. `readable` rewrites errors of model servers.
    """

    def __init__(
        self,
        calls: OpenCalls,
        capabilities: Capabilities,
        answer_id: Callable[[], str],
        new_id: Callable[[], str],
        iso_now: Callable[[], str],
        log: Callable[[str], None],
        readable: Callable[[str], str] = str,
    ) -> None:
        self.calls = calls
        self._capabilities = capabilities
        self._answer_id = answer_id
        self._new_id = new_id
        self._iso_now = iso_now
        self._log = log
        self._readable = readable
        self.message_id = new_id()  # of the answer that is streamed
        self._compaction_id = ""
        self._handlers: dict[type[Event], Callable[[Any], list[Update]]] = {
            MessageStart: self._message_start,
            MessageEnd: self._message_end,
            ToolStart: self._tool_start,
            ToolUpdate: self._tool_update,
            ToolEnd: self._tool_end,
            AgentSettled: lambda event: self.calls.fail_all("Not run."),
            QueueUpdate: self._queue_update,
            CompactionStart: self._compaction_start,
            CompactionEnd: self._compaction_end,
            AutoRetryStart: self._retry_start,
            AutoRetryEnd: self._retry_end,
            EntryAppended: self._entry_appended,
            SessionInfoChanged: self._info_changed,
            BudgetExceeded: lambda event: self.notice("warning", limit_text(event)),
            SessionDamaged: self._damaged,
            SessionWriteFailed: self._write_failed,
            SessionWriteRecovered: self._write_recovered,
            ExtensionError: self._extension_error,
            McpServerUpdate: self._mcp_server,
        }

    def translate(self, event: Event) -> list[Update]:
        """The updates for an event; none for most of them."""
        handler = self._handlers.get(type(event))
        return [] if handler is None else handler(event)

    def translate_delta(self, delta: object) -> list[Update]:
        """The updates for a streamed piece of an answer, other than text."""
        if isinstance(delta, ToolCallEnd):
            call = delta.tool_call
            return self.calls.complete_arguments(call.id, call.name, call.arguments)
        return []

    def notice(self, severity: Severity, title: str, description: str = "") -> list[Update]:
        """A message about the session. Clients that do not know notices are not shown it; it is logged instead."""
        if not self._capabilities.notices:
            self._log(f"{title} {description}".strip())
            return []
        return [Notice(severity=severity, title=title or "(empty)", description=description or UNSET)]

    # Messages.

    def _message_start(self, event: MessageStart) -> list[Update]:
        if isinstance(event.message, Assistant):
            self.message_id = self._answer_id()
        return []

    def _message_end(self, event: MessageEnd) -> list[Update]:
        match event.message:
            case Assistant() as answer if answer.failed:
                return self.calls.fail_all(self._readable(answer.error_message or "The answer was not completed."))
            case Custom(_, content, True):
                return _chunks(MessageChunk, content, self._new_id())
        return []

    def user_message(self, message: User) -> list[Update]:
        """A message of the user that this client did not send."""
        return _chunks(UserChunk, message.content, self._new_id())

    # Tool calls.

    def _tool_start(self, event: ToolStart) -> list[Update]:
        return [self.calls.start(event.tool_call_id, event.tool_name, event.args)]

    def _tool_update(self, event: ToolUpdate) -> list[Update]:
        update = self.calls.progress(event.tool_call_id, event.partial_result)
        return [] if update is None else [update]

    def _tool_end(self, event: ToolEnd) -> list[Update]:
        return [self.calls.end(event.tool_call_id, event.tool_name, event.result, is_error=event.is_error)]

    # Retries and compaction.

    def _retry_start(self, event: AutoRetryStart) -> list[Update]:
        seconds = event.delay_ms / 1000
        text = f"Retry {event.attempt} of {event.max_attempts} in {seconds:g} s"
        return self._aside("warning", text, self._readable(event.error_message))

    def _retry_end(self, event: AutoRetryEnd) -> list[Update]:
        if event.success:
            return []
        return self._aside("error", f"Gave up after {event.attempt} retries", self._readable(event.final_error or ""))

    def _aside(self, severity: Severity, title: str, description: str) -> list[Update]:
        """A notice, or a thought for clients without notices; never a part of the answer."""
        if self._capabilities.notices:
            return [Notice(severity=severity, title=title, description=description or UNSET)]
        text = f"{title}: {description}" if description else title
        return [ThoughtChunk(content=TextContent(text), message_id=self._new_id())]

    def _compaction_start(self, event: CompactionStart) -> list[Update]:
        self._compaction_id = self._new_id()
        if self._capabilities.compaction:
            return [CompactionUpdate(compaction_id=self._compaction_id, status="in_progress")]
        return [
            ToolCall(
                tool_call_id=f"compaction-{self._compaction_id}",
                title=COMPACTION_TITLE,
                kind="think",
                status="in_progress",
            )
        ]

    def _compaction_end(self, event: CompactionEnd) -> list[Update]:
        id = self._compaction_id or self._new_id()
        summary = None if event.result is None else event.result.summary
        problem = self._readable(event.error_message or "Nothing was compacted.")
        if self._capabilities.compaction:
            if summary is not None:
                return [CompactionUpdate(compaction_id=id, status="completed", summary=[TextContent(summary)])]
            if event.aborted:
                return [CompactionUpdate(compaction_id=id, status="cancelled")]
            return [CompactionUpdate(compaction_id=id, status="failed", error=problem)]
        done = summary is not None
        return [
            ToolCallUpdate(
                tool_call_id=f"compaction-{id}",
                status="completed" if done else "failed",
                content=[Contained(TextContent(summary if summary is not None else problem))],
            )
        ]

    # The session.

    def _queue_update(self, event: QueueUpdate) -> list[Update]:
        return [InfoUpdate(meta={"tau": {"queue": {"steering": event.steering, "followUp": event.follow_up}}})]

    def _info_changed(self, event: SessionInfoChanged) -> list[Update]:
        return [InfoUpdate(title=event.name, updated_at=self._iso_now())]

    def _entry_appended(self, event: EntryAppended) -> list[Update]:
        plan = plan_of(event.entry)
        return [] if plan is None else [plan]

    def _damaged(self, event: SessionDamaged) -> list[Update]:
        return self.notice("warning", f"Parts of {event.session_file} cannot be read.", "\n".join(event.problems))

    def _write_failed(self, event: SessionWriteFailed) -> list[Update]:
        return self.notice("error", f"{event.session_file} cannot be written: {event.error}")

    def _write_recovered(self, event: SessionWriteRecovered) -> list[Update]:
        return self.notice("info", f"{event.session_file} can be written again.")

    def _mcp_server(self, event: McpServerUpdate) -> list[Update]:
        if event.state == "failed":
            return self.notice("error", f"The MCP server {event.server} failed.", event.error or "")
        if event.state == "needs_login":
            return self.notice("warning", f"The MCP server {event.server} needs a login: tau mcp login {event.server}")
        return []

    def _extension_error(self, event: ExtensionError) -> list[Update]:
        return self.notice("error", f"The extension {event.extension_path} failed.", event.error)


def plan_of(entry: Any) -> Plan | None:
    """The plan that an extension stored as a custom entry of type `plan`; None for other entries."""
    if not isinstance(entry, Mapping) or entry.get("type") != "custom" or entry.get("customType") != "plan":
        return None
    data = entry.get("data")
    try:
        return Plan(entries=convert(data.get("entries") if isinstance(data, Mapping) else None, list[PlanEntry]))
    except BadRecord:
        return None


def _chunks(kind: type[UserChunk | MessageChunk], content: str | list[Text | Image], message_id: str) -> list[Update]:
    blocks: list[Text | Image] = [Text(content)] if isinstance(content, str) else content
    return [
        kind(content=one.content, message_id=message_id) for one in content_of(blocks) if isinstance(one, Contained)
    ]

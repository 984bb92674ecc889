"""Telemetry of one session: its runs, requests to models, tool calls and compactions as spans and metrics.

It is told what happens (SessionObserver) and changes nothing. A span gets its parent from the run that it belongs to,
so sessions of one process cannot mix. What is sent is the closed list in names.py; content only if it is asked for.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal, get_args

from tau.core.agent.draft import Draft
from tau.core.models.pricing import price_unknown
from tau.records.events import (
    AgentEnd,
    AgentSettled,
    AutoRetryStart,
    BudgetExceeded,
    CompactionEnd,
    CompactionStart,
    Event,
    MessageEnd,
    Outcome,
    ToolEnd,
    ToolStart,
)
from tau.records.messages import Assistant, Text, ToolCall, Usage, User
from tau.records.models import Model
from tau.records.permissions import DeniedBy
from tau.runtime.telemetry import names
from tau.runtime.telemetry.error_types import type_of_text
from tau.runtime.telemetry.log_records import RUN_SPAN
from tau.runtime.telemetry.model_call import CallTelemetry
from tau.runtime.telemetry.observer import ObservedSession
from tau.runtime.telemetry.setup import Setup, harmless, logger

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from tau.runtime.telemetry.sdk import Sdk

EXIT_CODE = re.compile(r"Command exited with code (\d+)\s*\Z")
IDLE, RUNNING, RETRYING = ({names.STATE: state} for state in ("idle", "running", "retrying"))


class _Run:
    """The span of a run and what adds up in it."""

    def __init__(self, span: Span, started: float) -> None:
        self.span = span
        self.started = started
        self.turns = self.retries = 0
        self.usage = {name: 0 for name in ("input", "output", "cache_read", "cache_write")}
        self.cost = 0.0
        self.cost_unknown = False
        self.exceeded: Literal["budget", "stuck"] | None = None
        self.last: Assistant | None = None
        self.prompts = 0
        self.state: Mapping[str, str] = RUNNING


class _Tool:
    def __init__(self, span: Span, started: float, name: str, kind: str) -> None:
        self.span = span
        self.started = started
        self.name = name
        self.kind = kind


class SessionTelemetry:
    """Implements SessionObserver."""

    def __init__(self, session: ObservedSession, setup: Setup, on_close: Callable[[], None], flush: Callable[[], None]):
        self._session = session
        self._setup = setup
        self._sdk: Sdk = setup.sdk
        self._on_close = on_close
        self._flush = flush
        self._parents: deque[Any] = deque()  # of accepted prompts whose runs have not started, in their order
        self._run: _Run | None = None
        self._compaction: Span | None = None
        self._tools: dict[str, _Tool] = {}
        self._sdk.instruments.sessions.add(1, IDLE)

    @property
    def span(self) -> Span | None:
        """The span of the run, if there is one."""
        return None if self._run is None else self._run.span

    def common(self, operation: str) -> dict[str, Any]:
        return {
            names.OPERATION: operation,
            names.CONVERSATION: self._session.log.id,
            names.AGENT_NAME: "tau",
            names.AGENT_VERSION: self._setup.version,
        }

    # Runs.

    def accepted(self, parent: str | None) -> None:
        found = None
        try:
            if parent is not None:
                found = self._sdk.parent_of(parent)
            elif self._setup.from_caller:
                found = self._sdk.current()
        except Exception:
            logger.debug("telemetry failed", exc_info=True)
        self._parents.append(found)

    @harmless
    def run_started(self) -> None:
        parent = self._parents.popleft() if self._parents else None
        parent = self._setup.parent if parent is None else parent
        attributes = self.common(names.INVOKE_AGENT) | {
            names.MODE: self._setup.mode,
            names.DIALECT: self._setup.dialect,
        }
        if (model := self._session.models.current) is not None:
            attributes |= {names.PROVIDER: names.provider_name(model.provider), names.REQUEST_MODEL: model.id}
        span = self._sdk.start(f"{names.INVOKE_AGENT} tau", parent, attributes)
        if self._setup.sandbox is not None:
            span.add_event(names.EVENT_SANDBOX, {names.SANDBOX_LEVEL: self._setup.sandbox})
        self._run = run = _Run(span, perf_counter())
        RUN_SPAN.set(span)
        instruments = self._sdk.instruments
        instruments.sessions.add(-1, IDLE)
        instruments.sessions.add(1, RUNNING)
        instruments.runs.add(1, run.state)

    def _end_run(self, *, aborted: bool) -> None:
        run, self._run = self._run, None
        if run is None:
            return
        for tool in self._tools.values():  # left behind by an abort
            tool.span.end()
        self._tools.clear()
        error: str | None = run.exceeded or ("aborted" if aborted else None)
        if run.last is not None:
            run.span.set_attribute(names.STOP_REASON, run.last.stop_reason)
            if error is None and run.last.stop_reason == "error":
                error = type_of_text(str(run.last.error_message or ""))
        usage = run.usage
        run.span.set_attributes(
            {
                names.INPUT_TOKENS: usage["input"] + usage["cache_read"] + usage["cache_write"],
                names.OUTPUT_TOKENS: usage["output"],
                names.CACHE_READ_TOKENS: usage["cache_read"],
                names.CACHE_WRITE_TOKENS: usage["cache_write"],
                names.TURNS: run.turns,
                names.RETRIES: run.retries,
                names.COST: run.cost,
                names.COST_UNKNOWN: run.cost_unknown,
                names.ABORTED: aborted,
            }
        )
        if error is not None:
            self._sdk.fail(run.span, error)
        run.span.end()
        instruments = self._sdk.instruments
        instruments.sessions.add(-1, RUNNING)
        instruments.sessions.add(1, IDLE)
        instruments.runs.add(-1, run.state)
        about = {names.AGENT_NAME: "tau"} | ({} if error is None else {names.ERROR_TYPE: error})
        instruments.run.record(perf_counter() - run.started, about)

    # Events.

    @harmless
    def on_event(self, event: Event) -> None:
        if (handler := HANDLERS.get(type(event))) is not None:
            handler(self, event)

    def _message(self, event: MessageEnd) -> None:
        run = self._run
        if run is None:
            return
        if isinstance(event.message, User):
            run.prompts += 1
            if run.prompts > 1 and run.turns:
                run.span.add_event(names.EVENT_STEERED)
        elif isinstance(event.message, Assistant):
            run.last = event.message
            run.turns += not event.message.failed

    def _retry(self, event: AutoRetryStart) -> None:
        kind = type_of_text(event.error_message)
        if self._run is not None:
            self._run.retries += 1
            self._set_state(RETRYING)
            self._run.span.add_event(
                names.EVENT_RETRY, {names.RETRY_DELAY: event.delay_ms / 1000, names.RETRY_CLASS: kind}
            )
        self._sdk.instruments.retries.add(1, {names.RETRY_CLASS: kind})

    def _set_state(self, state: Mapping[str, str]) -> None:
        run = self._run
        if run is not None and run.state is not state:
            self._sdk.instruments.runs.add(-1, run.state)
            self._sdk.instruments.runs.add(1, state)
            run.state = state

    def _exceeded(self, event: BudgetExceeded) -> None:
        if self._run is not None:
            self._run.exceeded = "stuck" if event.limit == "stuck" else "budget"
            self._run.span.set_attribute(names.BUDGET_LIMIT, event.limit)
        self._sdk.instruments.exceeded.add(1, {names.BUDGET_LIMIT: event.limit})

    def _settled(self, event: AgentSettled) -> None:
        self._end_run(aborted=event.aborted)

    def _ended(self, event: AgentEnd) -> None:
        answers = [message for message in event.messages if isinstance(message, Assistant)]
        if self._run is not None and answers:
            self._run.last = answers[-1]

    # Tools.

    def _tool_started(self, event: ToolStart) -> None:
        source = self._session.tool_runner.source_of(event.tool_name)
        name = names.OTHER if source is None else event.tool_name  # a model may call a tool by any text
        kind = "extension" if source in ("extension", "mcp") else "function"
        attributes = self.common(names.EXECUTE_TOOL) | {
            names.TOOL_NAME: name,
            names.TOOL_TYPE: kind,
            names.TOOL_CALL_ID: self._setup.mask.name(event.tool_call_id),
        }
        span = self._sdk.start(f"{names.EXECUTE_TOOL} {name}", self.span, attributes)
        self._setup.content.tool_arguments(span, event.args)
        limited = name if source == "builtin" else self._setup.tool_names(name)
        self._tools[event.tool_call_id] = _Tool(span, perf_counter(), limited, kind)

    def _tool_ended(self, event: ToolEnd) -> None:
        tool = self._tools.pop(event.tool_call_id, None)
        if tool is None:
            return
        details = event.result.details if isinstance(event.result.details, dict) else {}
        denied = _denied_by(details)
        text = [block.text for block in event.result.content if isinstance(block, Text)]
        tool.span.set_attributes(
            {
                names.TOOL_IS_ERROR: event.is_error,
                names.TOOL_OUTPUT_BYTES: sum(len(part.encode(errors="replace")) for part in text),
            }
        )
        about = {names.TOOL_NAME: tool.name, names.TOOL_TYPE: tool.kind}
        if denied is not None:
            tool.span.set_attribute(names.TOOL_DENIED_BY, denied)
            self._sdk.instruments.denials.add(1, {names.TOOL_DENIED_BY: denied})
        elif event.is_error and (code := _exit_code(text)) is not None:
            tool.span.set_attribute(names.TOOL_EXIT_CODE, code)
        elif event.is_error:
            self._sdk.fail(tool.span, "tool")
            about[names.ERROR_TYPE] = "tool"
        self._setup.content.tool_result(tool.span, text)
        tool.span.end()
        self._sdk.instruments.tool.record(perf_counter() - tool.started, about)

    @harmless
    def permission_checked(self, call: ToolCall, refusal: Outcome | None, *, asked: bool, seconds: float) -> None:
        if (tool := self._tools.get(call.id)) is not None:
            answer = {
                names.PERMISSION_ASKED: asked,
                names.PERMISSION_ANSWER: "allowed" if refusal is None else "denied",
            }
            tool.span.add_event(names.EVENT_PERMISSION, answer | {names.PERMISSION_WAITED: seconds if asked else 0.0})

    def command_environment(self) -> Mapping[str, str | None]:
        if not self._setup.to_commands:
            return {"TRACEPARENT": None, "TRACESTATE": None} if self._setup.hides_parent else {}
        span = self.span
        return {} if span is None else {name.upper(): value for name, value in self._sdk.carrier(span).items()}

    # Compactions.

    def _compaction_started(self, event: CompactionStart) -> None:
        attributes = self.common(names.INVOKE_WORKFLOW) | {names.WORKFLOW_NAME: "compaction"}
        self._compaction = self._sdk.start(f"{names.INVOKE_WORKFLOW} compaction", self.span, attributes)

    def _compaction_ended(self, event: CompactionEnd) -> None:
        span, self._compaction = self._compaction, None
        if span is None:
            return
        if event.aborted:
            self._sdk.fail(span, "aborted")
        elif message := event.error_message:
            self._sdk.fail(span, type_of_text(str(message)))
        span.end()

    # Requests to models.

    def model_call(self, draft: Draft) -> CallTelemetry | None:
        try:
            self._set_state(RUNNING)
            return CallTelemetry(self, self._setup, self._compaction or self.span, draft)
        except Exception:
            logger.debug("telemetry failed", exc_info=True)
            return None

    def add_usage(self, usage: Usage, model: Model) -> None:
        if self._run is None:
            return
        for name in self._run.usage:
            self._run.usage[name] += getattr(usage, name)
        self._run.cost += usage.cost.total
        self._run.cost_unknown |= price_unknown(model)

    @property
    def attempt(self) -> int:
        return 1 if self._run is None else self._run.retries + 1

    # The end.

    @harmless
    def close(self) -> None:
        self._end_run(aborted=True)
        if self._compaction is not None:
            self._compaction.end()
        self._sdk.instruments.sessions.add(-1, IDLE)
        self._on_close()

    def flush(self) -> None:
        self._flush()


HANDLERS: Mapping[type[Event], Callable[[SessionTelemetry, Any], None]] = {
    MessageEnd: SessionTelemetry._message,
    AutoRetryStart: SessionTelemetry._retry,
    BudgetExceeded: SessionTelemetry._exceeded,
    AgentEnd: SessionTelemetry._ended,
    AgentSettled: SessionTelemetry._settled,
    ToolStart: SessionTelemetry._tool_started,
    ToolEnd: SessionTelemetry._tool_ended,
    CompactionStart: SessionTelemetry._compaction_started,
    CompactionEnd: SessionTelemetry._compaction_ended,
}


def _denied_by(details: Mapping[str, Any]) -> str | None:
    """Who denied the call. Details of other tools may have any text in this place, which is not for telemetry."""
    denied = details.get("denied")
    by = denied.get("by") if isinstance(denied, dict) else getattr(denied, "by", None)
    return by if isinstance(by, str) and by in get_args(DeniedBy) else None


def _exit_code(text: list[str]) -> int | None:
    """The code of a command that ended by itself, which is no failure of the tool."""
    found = EXIT_CODE.search("".join(text)[-200:])
    return None if found is None else int(found[1])

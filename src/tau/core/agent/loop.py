"""The agent loop as a generator, without I/O.

`agent_run` yields requests (publish this event, ask the model, start this tool, wait for the next result) and is sent
the results. It never awaits, reads a clock or touches a file, so a test can play any run step by step, with results
in any order. runtime/runs/driver.py executes the requests with real tasks, tools and model calls.

The loop has no code for abort: an aborted answer arrives as MessageFailed, an aborted tool as a ToolDone with
`is_error`, and the driver of an aborted run returns empty queues. So a client receives turn_end and agent_end after
an abort as after any other end.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any

from tau.core.agent.draft import MessageBegun, MessageDone, MessageFailed, ResponseStarted, Update
from tau.core.agent.queues import QueuedMessage, QueueName
from tau.core.agent.tool_results import ToolDone, ToolProgress, error_outcome, invalid_call
from tau.core.text.truncate import MAX_BYTES, MAX_LINES, byte_length, truncate_text
from tau.records.base import UNSET, Value, replace
from tau.records.deltas import Failure
from tau.records.events import (
    AgentEnd,
    AgentStart,
    Event,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    Outcome,
    ToolEnd,
    ToolStart,
    ToolUpdate,
    TurnEnd,
    TurnStart,
)
from tau.records.messages import AnyMessage, Assistant, StoredMessage, Text, ToolCall, ToolResult

# Requests: what the loop asks of its driver. The comment is what `send` returns.


class Publish(Value):  # nothing
    event: Event | Update


class PublishQueues(Value):  # nothing; the driver publishes the messages that are still queued
    taken: Sequence[QueuedMessage] = ()  # messages taken from `queue` that the loop has not announced yet
    queue: QueueName = "steer"


class CompactIfNeeded(Value):  # the conversation to continue with if it was compacted, else None
    pass


class AskModel(Value):  # nothing; MessageBegun, ResponseStarted, Update and MessageDone or MessageFailed results follow
    history: Iterable[StoredMessage]
    new: Sequence[AnyMessage]


class CheckToolCall(Value):  # the arguments to run with, or an Outcome that rejects the call
    call: ToolCall


class StartTool(Value):  # nothing; ToolProgress results and one ToolDone follow
    call: ToolCall
    arguments: dict[str, Any]


class TakeQueued(Value):  # a list of messages
    queue: QueueName


class CheckBudget(Value):  # bool: another turn may start after these results
    done: Sequence[ToolDone]


class CheckRetry(Value):  # bool: the session will retry after this failure; asked once for each
    failure: MessageFailed


class ReadClock(Value):  # int, Unix milliseconds
    pass


class WaitForResult(Value):  # the next result
    relays_updates: bool = False  # the driver may publish an Update itself instead: the loop would do nothing else


# Results, which the driver reports, are in core/agent/draft.py and core/agent/tool_results.py.

LoopRequest = (
    Publish
    | PublishQueues
    | CompactIfNeeded
    | AskModel
    | CheckToolCall
    | StartTool
    | TakeQueued
    | CheckBudget
    | CheckRetry
    | ReadClock
    | WaitForResult
)
Ending = MessageDone | MessageFailed
Conversation = tuple[Iterable[StoredMessage], list[AnyMessage]]


class RunEnd(Value):
    """The end of a run: every message it produced, and how the last answer ended."""

    messages: list[AnyMessage]
    ending: Ending


# Allowance above the limits for the notice that a tool appends to a result it has truncated itself.
NOTICE_LINES = 50
NOTICE_BYTES = 4096
SKIPPED = error_outcome("Skipped due to queued user message.")
CALL_CUT_OFF = (
    'The call of "{name}" was not run: the response was cut off at its length limit, '
    "so the arguments may be incomplete. Call it again, with smaller arguments if necessary."
)


def agent_run(
    prompts: Sequence[AnyMessage],
    history: Iterable[StoredMessage] = (),
    *,
    parallel: bool = False,
    skip: bool = True,
    early: bool = True,
    steered: bool = True,
    sequential: Callable[[str], bool] = lambda tool: False,
) -> Generator[LoopRequest, Any, RunEnd]:
    """Run the agent, from the prompts until it has nothing left to do.

    `parallel`: the tool calls of one answer run at once, unless one of the tools is `sequential`. `skip`: steering is
    delivered after the running tool call, and later calls are skipped. `early`: message_start is published when the
    model is asked. `steered`: queued steering follows the prompts; off for prompts from a queue.
    """
    new: list[AnyMessage] = list(prompts)
    since: list[AnyMessage] = list(prompts)  # messages that are not in `history`
    yield Publish(AgentStart())
    yield Publish(TurnStart())
    for prompt in prompts:
        yield from announce(prompt)
    queue: QueueName = "steer"
    pending: list[QueuedMessage] = (yield TakeQueued(queue)) if steered else []
    while True:
        for at, message in enumerate(pending, 1):
            yield PublishQueues(pending[at:], queue)
            yield from announce(message)
        new += pending
        since += pending
        ending, again = yield from stream_answer(history, [*since], early)
        reply = ending.message
        new.append(reply)
        if isinstance(ending, MessageFailed):
            yield Publish(TurnEnd(reply, []))
            break
        at_once = parallel and not any(sequential(call.name) for call in reply.tool_calls)
        tools_done = yield from run_tools(ending, at_once, skip)
        results, pending = tools_done.results, tools_done.steering
        new += results
        since += [reply, *results]
        yield Publish(TurnEnd(reply, results))
        if results and not pending and not (yield CheckBudget(tools_done.done)):
            break
        goes_on = bool(results) and not tools_done.is_final  # otherwise only for queued messages
        if goes_on:
            history, since = yield from _compact_if_needed(history, since)
        queue, pending = yield from _take_queued(pending, goes_on)
        if not (goes_on or pending):
            break
        if not goes_on:
            history, since = yield from _compact_if_needed(history, since)
        yield Publish(TurnStart())

    yield Publish(AgentEnd(list(new), will_retry=again))
    return RunEnd(new, ending)


def _take_queued(
    pending: list[QueuedMessage], goes_on: bool
) -> Generator[LoopRequest, Any, tuple[QueueName, list[QueuedMessage]]]:
    """The messages that come next: steering, and at the end of the run follow-ups."""
    pending = pending or (yield TakeQueued("steer"))
    return ("steer", pending) if pending or goes_on else ("follow_up", (yield TakeQueued("follow_up")))


def announce(message: AnyMessage) -> Generator[LoopRequest, Any, None]:
    yield Publish(MessageStart(message))
    yield Publish(MessageEnd(message))


def _compact_if_needed(
    history: Iterable[StoredMessage], since: list[AnyMessage]
) -> Generator[LoopRequest, Any, Conversation]:
    """The conversation for the next model call: unchanged, or compacted if it became too long."""
    compacted = yield CompactIfNeeded()
    return (history, since) if compacted is None else (compacted, [])


def stream_answer(
    history: Iterable[StoredMessage], new: Sequence[AnyMessage], early: bool
) -> Generator[LoopRequest, Any, tuple[Ending, bool]]:
    """Ask the model and publish its answer as it streams. The bool says that a failed answer will be retried."""
    yield AskModel(history, new)
    draft_message: Assistant | None = None
    announced = False
    while True:
        match (yield WaitForResult(relays_updates=announced)):
            case (Update() | ResponseStarted()) as update:
                if not announced and draft_message is not None:
                    announced = True
                    yield Publish(MessageStart(draft_message))
                if isinstance(update, Update):
                    yield Publish(update)
            case MessageBegun(draft_message):
                if early:
                    announced = True
                    yield Publish(MessageStart(draft_message))
            case (MessageDone() | MessageFailed()) as ending:
                if not announced:
                    yield Publish(MessageStart(ending.message))
                again = False
                if isinstance(ending, MessageFailed):
                    for update in ending.closing:
                        yield Publish(update)
                    again = yield CheckRetry(ending)
                    if not again:
                        yield Publish(_failure_event(ending.message))
                yield Publish(MessageEnd(ending.message))
                return ending, again


def _failure_event(message: Assistant) -> MessageUpdate:
    failure = Failure("aborted" if message.stop_reason == "aborted" else "error", message)
    return MessageUpdate(failure, message=message, usage=message.usage)


class ToolRound(Value):
    """The results of the calls of an answer, the steering messages that cut them short, and whether they end the run.

    They do if every result says so: the model is not asked again.
    """

    done: list[ToolDone]
    results: list[ToolResult]
    steering: list[QueuedMessage]

    @property
    def is_final(self) -> bool:
        return bool(self.done) and not self.steering and all(one.outcome.terminate is True for one in self.done)


def run_tools(ending: MessageDone, parallel: bool, skip: bool) -> Generator[LoopRequest, Any, ToolRound]:
    """Run the tool calls of an answer."""
    calls = ending.message.tool_calls
    if parallel and len(calls) > 1:
        return (yield from _run_in_parallel(calls, ending))
    return (yield from _run_sequentially(calls, ending, skip))


def _run_sequentially(calls: list[ToolCall], ending: MessageDone, skip: bool) -> Generator[LoopRequest, Any, ToolRound]:
    all_done: list[ToolDone] = []
    results: list[ToolResult] = []
    for at, call in enumerate(calls):
        yield Publish(ToolStart(call.id, call.name, call.arguments))
        verdict = yield from _check(at, call, ending)
        if isinstance(verdict, Outcome):
            done = _bound_error_text(ToolDone(call, verdict, is_error=True))
        else:
            yield StartTool(call, verdict)
            done = yield from _wait_for_tool()
        yield Publish(ToolEnd(call.id, call.name, done.outcome, done.is_error, done.duration_ms))
        all_done.append(done)
        results.append((yield from _announce_result(done)))

        steering = (yield TakeQueued("steer")) if skip else []
        if steering:
            for skipped in calls[at + 1 :]:
                yield Publish(ToolStart(skipped.id, skipped.name, skipped.arguments))
                yield Publish(ToolEnd(skipped.id, skipped.name, SKIPPED, True))
                results.append((yield from _announce_result(ToolDone(skipped, SKIPPED, is_error=True))))
            return ToolRound(all_done, results, steering)
    return ToolRound(all_done, results, [])


def _run_in_parallel(calls: list[ToolCall], ending: MessageDone) -> Generator[LoopRequest, Any, ToolRound]:
    """Run all calls at the same time: start events in call order, end events as tools finish, results in call order.

    Calls are identified by their position, not by their id: models repeat ids.
    """
    done: dict[int, ToolDone] = {}
    running: dict[int, int] = {}
    for at, call in enumerate(calls):
        yield Publish(ToolStart(call.id, call.name, call.arguments))
        verdict = yield from _check(at, call, ending)
        if isinstance(verdict, Outcome):
            done[at] = _bound_error_text(ToolDone(call, verdict, is_error=True))
            yield Publish(ToolEnd(call.id, call.name, done[at].outcome, True))
        else:
            running[id(call)] = at
            yield StartTool(call, verdict)
    while running:
        result = yield from _wait_for_tool()
        done[running.pop(id(result.call))] = result
        yield Publish(ToolEnd(result.call.id, result.call.name, result.outcome, result.is_error, result.duration_ms))
    in_order = [done[at] for at in range(len(calls))]
    results = []
    for one in in_order:
        results.append((yield from _announce_result(one)))
    return ToolRound(in_order, results, [])


def _check(at: int, call: ToolCall, ending: MessageDone) -> Generator[LoopRequest, Any, dict[str, Any] | Outcome]:
    if ending.message.stop_reason == "length":
        return invalid_call(CALL_CUT_OFF.format(name=call.name))
    if (raw := ending.unreadable.get(at)) is not None:
        from tau.core.checks.schema import validation_error_text

        return invalid_call(
            validation_error_text(call.name, "  - root: the arguments are not a complete JSON object", raw)
        )
    verdict: dict[str, Any] | Outcome = yield CheckToolCall(call)
    return verdict


def _wait_for_tool() -> Generator[LoopRequest, Any, ToolDone]:
    """Publish tool progress until one tool is done."""
    while True:
        match (yield WaitForResult()):
            case ToolProgress(call, outcome):
                yield Publish(ToolUpdate(call.id, call.name, call.arguments, outcome))
            case ToolDone() as done:
                return _bound_error_text(done)


def _bound_error_text(done: ToolDone) -> ToolDone:
    """Truncate the error text of a result, which may repeat long names, arguments or reasons of an extension.

    Tools truncate their own output and append a line or two that says what is missing: hence the NOTICE allowance.
    """
    if not done.is_error or not any(
        isinstance(block, Text) and _too_long(block.text) for block in done.outcome.content
    ):
        return done
    content = [
        replace(block, text=truncate_text(block.text)) if isinstance(block, Text) else block
        for block in done.outcome.content
    ]
    return replace(done, outcome=replace(done.outcome, content=content))


def _too_long(text: str) -> bool:
    if len(text) <= MAX_BYTES // 4:  # the usual case: no need to count bytes
        return text.count("\n") > MAX_LINES + NOTICE_LINES
    return text.count("\n") > MAX_LINES + NOTICE_LINES or byte_length(text) > MAX_BYTES + NOTICE_BYTES


def _announce_result(done: ToolDone) -> Generator[LoopRequest, Any, ToolResult]:
    call, outcome = done.call, done.outcome
    details = outcome.details if outcome.details is not None else UNSET
    now = yield ReadClock()
    result = ToolResult(call.id, call.name, outcome.content, details, done.is_error, now)
    yield from announce(result)
    return result

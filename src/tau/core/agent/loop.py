"""The agent loop, told without I/O.

`agent_run` is a generator. It yields acts (publish this, ask the model, start
this tool, tell me what happened) and is sent the answers. It never awaits, reads
a clock or touches a file, so a test can tell any run by hand, in any order of
events, and runtime/runs/driver.py can play it for real.

Abort is not a case here: an aborted answer arrives as Failed, an aborted tool as
a ToolDone that is an error, and an aborted run finds its queues empty when it
asks. So the client gets turn_end and agent_end after an abort as after anything.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import Any

from tau.core.agent.draft import Begun, Done, Failed, Heard, Update
from tau.core.agent.queues import Queue, Waiting
from tau.core.checks.schema import refused_arguments
from tau.core.text.truncate import MAX_BYTES, MAX_LINES, byte_length, cut
from tau.records.base import UNSET, UnsetType, Value, replace
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
from tau.records.messages import AnyMessage, Assistant, Stored, Text, ToolCall, ToolResult

# Acts: what the loop asks of its driver. The comment is what `send` brings back.


class Publish(Value):  # nothing
    event: Event | Update


class ShowQueues(Value):  # nothing; the client is shown what still waits
    taken: Sequence[Waiting] = ()  # those of `queue` that were taken out, and will be announced one after the other
    queue: Queue = "steer"


class Fit(Value):  # the conversation to go on with if it had to be made smaller, else None
    pass


class AskModel(Value):  # nothing; Begun, Heard, Update and Done or Failed facts follow
    history: Iterable[Stored]
    new: Sequence[AnyMessage]


class Check(Value):  # the arguments to run with, or an Outcome that refuses the call
    call: ToolCall


class StartTool(Value):  # nothing; ToolProgress facts and one ToolDone follow
    call: ToolCall
    arguments: dict[str, Any]


class Take(Value):  # a list of messages
    queue: Queue


class MayGoOn(Value):  # bool: another turn may begin
    pass


class WillRetry(Value):  # bool: the session means to run again after this failure
    failure: Failed


class Now(Value):  # int, Unix milliseconds
    pass


class Wait(Value):  # the next fact
    pass


# Facts: what happened outside. Those of the model stand in core/agent/draft.py.


class ToolProgress(Value):
    call: ToolCall
    outcome: Outcome


class ToolDone(Value):
    call: ToolCall
    outcome: Outcome
    is_error: bool = False
    duration_ms: int | UnsetType = UNSET  # absent if it did not run


Act = Publish | ShowQueues | Fit | AskModel | Check | StartTool | Take | MayGoOn | WillRetry | Now | Wait
Ending = Done | Failed
Fitted = tuple[Iterable[Stored], list[AnyMessage]]


class RunEnd(Value):
    """What a run comes to: everything it said, and how the last answer ended."""

    messages: list[AnyMessage]
    ending: Ending


def refusal(text: str) -> Outcome:
    return Outcome([Text(text)], {})


# What a tool may say of a result that it has cut by itself.
NOTICE_LINES = 50
NOTICE_BYTES = 4096
SKIPPED = refusal("Skipped due to queued user message.")
CUT = (
    'The call of "{name}" was not run: the answer was cut off at its length limit, '
    "so the arguments may be incomplete. Call it again, in smaller pieces if need be."
)


def agent_run(
    prompts: Sequence[AnyMessage],
    history: Iterable[Stored] = (),
    *,
    parallel: bool = False,
    skip: bool = True,
    early: bool = True,
    steered: bool = True,
) -> Generator[Act, Any, RunEnd]:
    """Tell one run, from the prompts until the agent has nothing left to do.

    `parallel`: the tools of one answer run side by side. `skip`: steering is
    delivered after the tool that runs, and those after it are skipped. `early`:
    an answer is announced when it is asked for, not when it begins. `steered`:
    steering is said after the prompts; queued prompts are answered before it.
    """
    new: list[AnyMessage] = list(prompts)
    since: list[AnyMessage] = list(prompts)  # what is said and not in the history
    yield Publish(AgentStart())
    yield Publish(TurnStart())
    for prompt in prompts:
        yield from announce(prompt)
    queue: Queue = "steer"
    pending: list[Waiting] = (yield Take(queue)) if steered else []
    while True:
        for at, message in enumerate(pending, 1):
            yield ShowQueues(pending[at:], queue)
            yield from announce(message)
        new += pending
        since += pending

        ending = yield from answer(history, [*since], early)
        reply = ending.message
        new.append(reply)
        if isinstance(ending, Failed):
            yield Publish(TurnEnd(reply, []))
            break

        results, pending = yield from run_tools(ending, parallel, skip)
        new += results
        since += [reply, *results]
        yield Publish(TurnEnd(reply, results))
        if results and not pending and not (yield MayGoOn()):
            break
        if results:
            history, since = yield from fitted(history, since)
        queue = "steer"
        pending = pending or (yield Take(queue))
        if not results:
            if not pending:
                queue = "follow_up"
                pending = yield Take(queue)
            if not pending:
                break
            history, since = yield from fitted(history, since)
        yield Publish(TurnStart())

    again = isinstance(ending, Failed) and (yield WillRetry(ending))
    yield Publish(AgentEnd(list(new), will_retry=again))
    return RunEnd(new, ending)


def announce(message: AnyMessage) -> Generator[Act, Any, None]:
    yield Publish(MessageStart(message))
    yield Publish(MessageEnd(message))


def fitted(history: Iterable[Stored], since: list[AnyMessage]) -> Generator[Act, Any, Fitted]:
    """What the model will be told next time: the same, unless it has become too long."""
    smaller = yield Fit()
    return (history, since) if smaller is None else (smaller, [])


def answer(history: Iterable[Stored], new: Sequence[AnyMessage], early: bool) -> Generator[Act, Any, Ending]:
    """One answer of the model, published as it comes."""
    yield AskModel(history, new)
    begun: Assistant | None = None
    announced = False
    while True:
        match (yield Wait()):
            case (Update() | Heard()) as fact:
                if not announced and begun is not None:
                    announced = True
                    yield Publish(MessageStart(begun))
                if isinstance(fact, Update):
                    yield Publish(fact)
            case Begun(begun):
                if early:
                    announced = True
                    yield Publish(MessageStart(begun))
            case (Done() | Failed()) as ending:
                if not announced:
                    yield Publish(MessageStart(ending.message))
                if isinstance(ending, Failed):
                    yield Publish(_failure(ending.message))
                yield Publish(MessageEnd(ending.message))
                return ending


def _failure(message: Assistant) -> MessageUpdate:
    failure = Failure("aborted" if message.stop_reason == "aborted" else "error", message)
    return MessageUpdate(failure, message=message, usage=message.usage)


def run_tools(ending: Done, parallel: bool, skip: bool) -> Generator[Act, Any, tuple[list[ToolResult], list[Waiting]]]:
    """Do what the answer asks for. Returns the results, and the steering that cut it short."""
    calls = ending.message.tool_calls
    if parallel and len(calls) > 1:
        return (yield from _side_by_side(calls, ending)), []
    return (yield from _one_by_one(calls, ending, skip))


def _one_by_one(
    calls: list[ToolCall], ending: Done, skip: bool
) -> Generator[Act, Any, tuple[list[ToolResult], list[Waiting]]]:
    results: list[ToolResult] = []
    for at, call in enumerate(calls):
        yield Publish(ToolStart(call.id, call.name, call.arguments))
        verdict = yield from _check(at, call, ending)
        if isinstance(verdict, Outcome):
            done = _bounded(ToolDone(call, verdict, is_error=True))
        else:
            yield StartTool(call, verdict)
            done = yield from _watch()
        yield Publish(ToolEnd(call.id, call.name, done.outcome, done.is_error, done.duration_ms))
        results.append((yield from _record(done)))

        steering = (yield Take("steer")) if skip else []
        if steering:
            for skipped in calls[at + 1 :]:
                yield Publish(ToolStart(skipped.id, skipped.name, skipped.arguments))
                yield Publish(ToolEnd(skipped.id, skipped.name, SKIPPED, True))
                results.append((yield from _record(ToolDone(skipped, SKIPPED, is_error=True))))
            return results, steering
    return results, []


def _side_by_side(calls: list[ToolCall], ending: Done) -> Generator[Act, Any, list[ToolResult]]:
    """Start events in the order of the calls, ends as they come, results in the order of the calls.

    Calls are told apart by their place, not by their id: models repeat ids.
    """
    done: dict[int, ToolDone] = {}
    running: dict[int, int] = {}
    for at, call in enumerate(calls):
        yield Publish(ToolStart(call.id, call.name, call.arguments))
        verdict = yield from _check(at, call, ending)
        if isinstance(verdict, Outcome):
            done[at] = _bounded(ToolDone(call, verdict, is_error=True))
            yield Publish(ToolEnd(call.id, call.name, done[at].outcome, True))
        else:
            running[id(call)] = at
            yield StartTool(call, verdict)
    while running:
        fact = yield from _watch()
        done[running.pop(id(fact.call))] = fact
        yield Publish(ToolEnd(fact.call.id, fact.call.name, fact.outcome, fact.is_error, fact.duration_ms))
    results = []
    for at in range(len(calls)):
        results.append((yield from _record(done[at])))
    return results


def _check(at: int, call: ToolCall, ending: Done) -> Generator[Act, Any, dict[str, Any] | Outcome]:
    if ending.message.stop_reason == "length":
        return refusal(CUT.format(name=call.name))
    if (raw := ending.unreadable.get(at)) is not None:
        return refusal(refused_arguments(call.name, "  - root: the arguments are not a complete JSON object", raw))
    verdict: dict[str, Any] | Outcome = yield Check(call)
    return verdict


def _watch() -> Generator[Act, Any, ToolDone]:
    """Publish progress until one tool is done."""
    while True:
        match (yield Wait()):
            case ToolProgress(call, outcome):
                yield Publish(ToolUpdate(call.id, call.name, call.arguments, outcome))
            case ToolDone() as done:
                return _bounded(done)


def _bounded(done: ToolDone) -> ToolDone:
    """With errors within the limits of a result, whatever they repeat: names, arguments, reasons of an extension.

    Tools cut what they read by themselves, and say in a line or two after that what is missing.
    """
    if not done.is_error or not any(
        isinstance(block, Text) and _too_long(block.text) for block in done.outcome.content
    ):
        return done
    content = [
        replace(block, text=cut(block.text)) if isinstance(block, Text) else block for block in done.outcome.content
    ]
    return replace(done, outcome=replace(done.outcome, content=content))


def _too_long(text: str) -> bool:
    if len(text) <= MAX_BYTES // 4:  # the usual case
        return text.count("\n") > MAX_LINES + NOTICE_LINES
    return text.count("\n") > MAX_LINES + NOTICE_LINES or byte_length(text) > MAX_BYTES + NOTICE_BYTES


def _record(done: ToolDone) -> Generator[Act, Any, ToolResult]:
    call, outcome = done.call, done.outcome
    details = outcome.details if outcome.details is not None else UNSET
    now = yield Now()
    result = ToolResult(call.id, call.name, outcome.content, details, done.is_error, now)
    yield from announce(result)
    return result

"""The test kit: tell the loop by hand, play it for real with scripted ports, cut bytes into pieces."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from tau.core.agent.draft import Draft, MessageDone, MessageFailed, Update
from tau.core.agent.loop import (
    AskModel,
    CheckBudget,
    CheckRetry,
    CheckToolCall,
    CompactIfNeeded,
    Publish,
    PublishQueues,
    ReadClock,
    RunEnd,
    StartTool,
    TakeQueued,
    WaitForResult,
)
from tau.core.agent.queues import QueuedMessage, QueueName
from tau.core.agent.tool_results import ToolDone, error_outcome
from tau.core.conversation.provider_messages import ModelMessage, ProviderMessages
from tau.errors import ModelError
from tau.records.base import UNSET, encode
from tau.records.events import Event, Outcome
from tau.records.messages import Assistant, StopReason, StoredMessage, Text, Thinking, ToolCall, Usage, User
from tau.records.models import Model
from tau.runtime.abort import AbortSignal
from tau.runtime.runs.driver import run_agent
from tau.wire.unfinished import PartialJson

if TYPE_CHECKING:
    from tau.runtime.runs.driver import RunPorts

MODEL = Model("m-1", "Model One", "scripted", "lab", "", reasoning=True, input=["text", "image"])
Said = str | Text | Thinking | ToolCall


# What is said and done.


def user(text: str) -> User:
    return User([Text(text)], 0)


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall(f"call_{name}", name, arguments)


def assistant(*content: Said, stop: StopReason | None = None, why: str | None = None) -> Assistant:
    """An answer. It stops for its tool calls if it has some, and as an error if `why` is given."""
    blocks = [Text(said) if isinstance(said, str) else said for said in content]
    usual: StopReason = "toolUse" if any(isinstance(block, ToolCall) for block in blocks) else "stop"
    reason = stop or ("error" if why else usual)
    return Assistant(blocks, "scripted", "lab", "m-1", Usage(), reason, 0, error_message=UNSET if why is None else why)


def says(*content: Said, stop: StopReason | None = None, unreadable: dict[int, str] | None = None) -> MessageDone:
    """Fact: the model answered."""
    return MessageDone(assistant(*content, stop=stop), unreadable or {})


def fails(
    *content: Said,
    why: str = "529 overloaded",
    stop: Literal["error", "aborted"] = "error",
    transient: bool | None = None,
    retry_after_ms: int | None = None,
) -> MessageFailed:
    """Fact: the answer ended badly."""
    return MessageFailed(assistant(*content, stop=stop, why=why), transient, retry_after_ms)


def ok(text: str) -> Outcome:
    return Outcome([Text(text)])


# Told by hand.


@dataclass
class Told:
    """What a run did, one word per act; what it published; what the model was given; how it ended."""

    did: list[str] = field(default_factory=list)
    events: list[Event | Update] = field(default_factory=list)
    asked: list[list[Any]] = field(default_factory=list)
    ran: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    taken: list[list[Any]] = field(default_factory=list)
    end: RunEnd | None = None

    def publish(self, event: Event | Update) -> None:
        self.events.append(event)
        self.did.append(word(event))

    def all(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


def word(event: Event | Update) -> str:
    return "message_update" if isinstance(event, Update) else str(event.__struct_config__.tag)


def tell(
    telling: Any,
    facts: Iterable[Any] = (),
    *,
    steer: Sequence[list[User]] = (),
    follow_up: Sequence[list[User]] = (),
    refuse: Mapping[str, str] | None = None,
    retries: bool = False,
    fits: Sequence[list[Any] | None] = (),
    turns: int | None = None,
    now: int = 0,
) -> Told:
    """Play a telling with scripted facts.

    `steer` and `follow_up` are what the queues give each time they are asked;
    `refuse` has the reasons why tools may not run; `fits` is what becomes of the
    conversation each time it might have to be made smaller; `turns` is how many
    turns there may be.
    """
    answer: Any = None
    coming, told = iter(facts), Told()
    done = 0
    queues = {"steer": list(steer), "follow_up": list(follow_up)}
    smaller = list(fits)
    while True:
        try:
            act = telling.send(answer)
        except StopIteration as end:
            told.end = end.value
            return told
        answer = None
        match act:
            case Publish(event):
                told.publish(event)
            case PublishQueues(taken):
                told.did.append("<queues>")
                told.taken.append(list(taken))
            case CompactIfNeeded():
                answer = smaller.pop(0) if smaller else None
            case AskModel(history, new):
                messages = [*history, *new]
                told.did.append(f"<model {len(messages)}>")
                told.asked.append(messages)
            case StartTool(tool, arguments):
                told.did.append(f"<run {tool.name}>")
                told.ran.append((tool.name, arguments))
            case CheckToolCall(tool):
                why = (refuse or {}).get(tool.name)
                answer = tool.arguments if why is None else error_outcome(why)
            case TakeQueued(queue):
                answer = queues[queue].pop(0) if queues[queue] else []
            case CheckBudget():
                done += 1
                answer = turns is None or done < turns
            case CheckRetry():
                answer = retries
            case ReadClock():
                answer = now
            case WaitForResult():
                answer = next(coming)


# Played for real.

Answer = Callable[[Draft], AsyncIterator[Sequence[Any]]]
Tool = Callable[[dict[str, Any], Callable[[Outcome], None]], Awaitable[Outcome]]


def new_draft(model: Model = MODEL) -> Draft:
    return Draft(model, 0, PartialJson)


def speaks(*content: str | ToolCall, stop: StopReason | None = None) -> Answer:
    """An answer as a model gives it: piece by piece, through the draft."""

    async def answer(draft: Draft) -> AsyncIterator[Sequence[Any]]:
        yield [draft.begin()]
        for said in content:
            at = draft.block_count
            if isinstance(said, ToolCall):
                yield [draft.open_call(said.id, said.name), draft.add(at, encode(said.arguments).decode())]
            else:
                yield [draft.open("text"), draft.add(at, said)]
            yield [draft.close(at)]
        yield draft.finish(stop or ("toolUse" if any(isinstance(said, ToolCall) for said in content) else "stop"))

    return answer


def breaks(error: Exception, *pieces: str) -> Answer:
    """An answer that says something and then fails."""

    async def answer(draft: Draft) -> AsyncIterator[Sequence[Any]]:
        yield [draft.begin(), draft.open("text")]
        for piece in pieces:
            yield [draft.add(0, piece)]
        raise error

    return answer


class Stage:
    """Ports of a run that follow a script, and what went through them."""

    def __init__(self, answers: Sequence[Answer], tools: Mapping[str, Tool] | None = None) -> None:
        self.told = Told()
        self._answers = list(answers)
        self._tools = tools or {}

    @property
    def model(self) -> Stage:
        return self

    @property
    def tools(self) -> Stage:
        return self

    def publish(self, event: Event | Update) -> Awaitable[None] | None:
        self.told.publish(event)
        return None

    def publish_queues(self, taken: Sequence[QueuedMessage], queue: QueueName) -> Awaitable[None] | None:
        return None

    def take_queued(self, queue: QueueName) -> list[QueuedMessage]:
        return []

    def will_retry(self, failure: MessageFailed) -> bool:
        return False

    async def compact_if_needed(self) -> Iterable[StoredMessage] | None:
        return None

    def may_continue(self, done: Sequence[ToolDone]) -> bool:
        return True

    def now(self) -> int:
        return 0

    def ports(self, **instead: Any) -> RunPorts:
        """The ports of a run, some of them replaced by functions of the test."""
        for name, function in instead.items():
            assert hasattr(self, name), name
            setattr(self, name, function)
        return self

    def new_draft(self) -> Draft:
        return new_draft()

    async def stream_answer(
        self, messages: Iterable[StoredMessage], draft: Draft, relay: Callable[[Sequence[Any]], bool]
    ) -> AsyncIterator[Sequence[Any]]:
        self.told.asked.append(list(messages))
        if not self._answers:
            raise ModelError("the script is over", transient=False)
        async for facts in self._answers.pop(0)(draft):
            yield facts

    async def check(self, call: ToolCall) -> dict[str, Any] | Outcome:
        return call.arguments if call.name in self._tools else error_outcome(f"Tool {call.name} not found")

    async def permit(self, call: ToolCall, arguments: dict[str, Any]) -> Outcome | None:
        return None

    async def review(self, done: ToolDone, arguments: dict[str, Any]) -> ToolDone:
        return done

    async def execute(self, call: ToolCall, arguments: dict[str, Any], progress: Callable[[Outcome], None]) -> Outcome:
        self.told.ran.append((call.name, arguments))
        return await self._tools[call.name](arguments, progress)


def play(
    telling: Any,
    stage: Stage,
    *,
    during: Callable[[AbortSignal], Awaitable[None]] | None = None,
    seconds: float = 30,
    **instead: Any,
) -> Told:
    """Drive a telling with the ports of the stage while `during` happens beside it."""

    async def main() -> RunEnd:
        switch = AbortSignal()
        async with asyncio.timeout(seconds), asyncio.TaskGroup() as tasks:
            run = tasks.create_task(run_agent(telling, stage.ports(**instead), switch))
            if during is not None:
                await during(switch)
        return run.result()

    stage.told.end = asyncio.run(main())
    return stage.told


# Bytes.


def byte_by_byte(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]


def for_model(messages: Iterable[StoredMessage], model: Model, *, block_images: bool = False) -> list[ModelMessage]:
    """A conversation as the model is told it."""
    return [*ProviderMessages(messages, model, block_images=block_images)]

"""A session without files or processes, for the tests of runs: a scripted model and tools, everything else is real."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from support.loop_kit import MODEL, Answer, Stage, word
from support.loop_kit import Tool as StagedTool
from tau.core.agent.draft import Draft, Update
from tau.core.agent.queues import MessageQueues, QueuedMessage, QueueName
from tau.core.agent.structured_output import OutputSchema
from tau.core.conversation.summaries import SummaryRequest
from tau.errors import ModelError
from tau.llm.catalog import Catalog
from tau.records.budgets import Budget
from tau.records.events import Event, MessageEnd, Outcome, QueueUpdate
from tau.records.messages import AnyMessage, Assistant, Text, ToolCall, User
from tau.records.settings import RetrySettings, Settings
from tau.runtime.abort import AbortSignal
from tau.runtime.history.session_log import SessionLog
from tau.runtime.models.selection import ModelSelection
from tau.runtime.runs.budget import BudgetTracker
from tau.runtime.runs.compactor import Compactor
from tau.runtime.runs.model_client import UNKNOWN_MODEL
from tau.runtime.runs.prompt_run import PromptRun, RunParts
from tau.runtime.runs.queue import RunQueue
from tau.store.keys import Keys
from tau.tools import Tool, ToolContext
from tau.wire.unfinished import PartialJson

SETTINGS = Settings(retry=RetrySettings(base_delay_ms=1000))


class StagedParts(Stage):
    """The model and the tools of the runs of a session."""

    def __init__(self, models: ModelSelection, answers: Sequence[Answer], tools: Mapping[str, StagedTool]) -> None:
        super().__init__(answers, tools)
        self._models = models
        self._extra_tools: Mapping[str, Tool] = {}
        self.extra_tools_of_runs: list[list[str]] = []

    def new_draft(self) -> Draft:
        if self._models.current is None:
            raise ModelError("No model selected.")
        return Draft(self._models.current, 0, PartialJson)

    def failed_answer(self, error: str) -> Assistant:
        return Draft(self._models.current or UNKNOWN_MODEL, 0, PartialJson).fail("error", error).message

    def is_sequential(self, name: str) -> bool:
        return False

    def begin_run(self, signal: AbortSignal, extra_tools: Mapping[str, Tool]) -> None:
        self._extra_tools = extra_tools
        self.extra_tools_of_runs.append(list(extra_tools))

    def end_run(self) -> None:
        self._extra_tools = {}

    async def check(self, call: ToolCall) -> dict[str, Any] | Outcome:
        return call.arguments if call.name in self._extra_tools else await super().check(call)

    async def execute(self, call: ToolCall, arguments: dict[str, Any], progress: Callable[[Outcome], None]) -> Outcome:
        if (tool := self._extra_tools.get(call.name)) is None:
            return await super().execute(call, arguments, progress)
        context: ToolContext = None  # type: ignore[assignment]  # the result tool does not use it
        return await tool.run(arguments, context)


class StagedSession:
    """The owner of runs, with everything that they published."""

    def __init__(
        self,
        *answers: Answer,
        tools: Mapping[str, StagedTool] | None = None,
        settings: Settings = SETTINGS,
        budget: Budget | None = None,
        summaries: Sequence[str] = (),
        before_run: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.settings = settings
        keys = Keys(Path("/nonexistent/auth.json"), {})
        keys.set_key(MODEL.provider, "key")
        self.models = ModelSelection(Catalog(), keys)
        self.models.current = MODEL
        self.log = SessionLog.new("/", None, self._write_failed)
        self.events: list[Event | Update] = []
        self.listeners: list[Callable[[Event | Update], None]] = []
        self.stage = StagedParts(self.models, answers, tools or {})
        self._summaries = list(summaries)
        self._before_run = before_run
        tracker = BudgetTracker(self.models)
        if budget is not None:
            tracker.set(budget)
        self.compactor = Compactor(self, stop_run=lambda: self.runs.stop())
        queues = MessageQueues()
        self.parts = RunParts(
            queues, tracker, self.compactor, self.stage, self.stage, self._on_start, before_run=self._prepare
        )
        self.starts = 0
        self.start_error: Exception | None = None
        self.runs = RunQueue(self, self.compactor.turn, lambda: self.parts)

    def prompt_run(self, *prompts: User, schema: OutputSchema | None = None) -> PromptRun:
        for prompt in prompts:
            self.log.append_prompt(prompt)
        return PromptRun(self, self.parts, prompts, schema)

    def start(self, *prompts: User) -> None:
        for prompt in prompts:
            self.log.append_prompt(prompt)
        self.runs.start(prompts)

    def publish(self, event: Event | Update) -> Awaitable[None] | None:
        if isinstance(event, MessageEnd):
            self.log.append_message(event.message)
        self.events.append(event)
        for listener in self.listeners:
            listener(event)
        return None

    def publish_queues(self, taken: Sequence[QueuedMessage], queue: QueueName) -> Awaitable[None] | None:
        return self.publish(QueueUpdate([], []))

    async def emit(self, event: Event) -> None:
        self.publish(event)

    async def stream_summary(self, request: SummaryRequest, draft: Draft) -> AsyncIterator[Sequence[Any]]:
        yield [draft.begin()]
        draft.open("text")
        draft.add(0, self._summaries.pop(0))
        yield draft.finish("stop")

    async def seen(self, name: str) -> None:
        """Wait until an event of this type has been published."""
        found = asyncio.Event()
        self.listeners.append(lambda event: found.set() if word(event) == name else None)
        if name not in self.names:
            await found.wait()

    @property
    def names(self) -> list[str]:
        """The types of the events, without those of the parts of an answer."""
        return [name for name in map(word, self.events) if not name.startswith(("message_", "turn_"))]

    def all(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def texts(self) -> list[str]:
        """The texts of the conversation."""
        return [
            "".join(block.text for block in message.content if isinstance(block, Text))
            for message in self.log.messages
            if isinstance(message, User | Assistant)
        ]

    async def _prepare(self, prompts: list[AnyMessage], signal: AbortSignal) -> list[AnyMessage]:
        if self._before_run is not None:
            await self._before_run()
        return prompts

    def _on_start(self) -> None:
        self.starts += 1
        if self.start_error is not None:
            raise self.start_error

    def _write_failed(self, error: OSError, log: SessionLog | None = None) -> None:
        raise error

"""One conversation: owns the parts and wires them together.

Commands talk to the parts (`session.runs.abort()`, `session.shell.run(…)`), not
through methods that only forward. What stands here is what needs several parts:
accepting a prompt, publishing an event, changing to another log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tau import llm
from tau.core.convert import for_model
from tau.core.draft import Draft, Failed, Update
from tau.core.images import blocked
from tau.core.loop import refusal
from tau.core.prompt import system_prompt
from tau.core.queues import Queue, Queues
from tau.core.schema import check, complaint
from tau.errors import CommandError, ModelError
from tau.host.drive import Hands
from tau.host.log import Log, now
from tau.host.models import Models
from tau.host.runs import Runs
from tau.host.shell import Shell
from tau.host.switch import Switch
from tau.llm.calls import Context, Options, Transport, World
from tau.records.events import Event, MessageEnd, Outcome, QueueUpdate
from tau.records.messages import AnyMessage, BashExecution, Image, Text, ToolCall, User
from tau.records.settings import Settings
from tau.store.settings import SettingsFile
from tau.tools import Machine, Tool, ToolContext
from tau.tools.seen import Seen
from tau.wire.unfinished import Unfinished

logger = logging.getLogger(__name__)
Client = Callable[[Event | Update], Awaitable[None] | None]
BUSY = "Agent is already processing. Specify streamingBehavior ('steer' or 'followUp') to queue the message."


@dataclass(frozen=True)
class Surroundings:
    """What a session works with and does not own."""

    cwd: str
    machine: Machine
    transport: Transport
    tools: Mapping[str, Tool]
    settings_file: SettingsFile | None
    script: bytes = b""


class Session:
    def __init__(self, around: Surroundings, settings: Settings, models: Models, client: Client) -> None:
        self.around = around
        self.settings = settings
        self.models = models
        self.client = client
        self.queues = Queues(settings.steering_mode, settings.follow_up_mode)
        self.runs = Runs(self, before=self._begin_run)
        self.shell = Shell(around.machine, around.cwd, self._ran)
        self.seen = self._nothing_seen()
        self._machine = around.machine
        self._changing = asyncio.Lock()
        self._unremembered: list[BashExecution] = []
        self._saving = asyncio.Lock()
        self._asked = 0
        self.log = self.fresh_log()

    # Prompts.

    def prompt(self, text: str, images: Sequence[Image], behavior: Queue | None) -> None:
        """Run it or queue it. When this returns, the message is in one place or the other."""
        message = User([Text(text), *images], now())
        if self.runs.streaming:
            if behavior is None:
                raise CommandError(BUSY)
            self.queues.add(behavior, message)
        else:
            self.models.ready()
            self.runs.start([message])

    def queue(self, queue: Queue, text: str, images: Sequence[Image]) -> None:
        self.queues.add(queue, User([Text(text), *images], now()))

    # Events.

    def publish(self, event: Event | Update) -> Awaitable[None] | None:
        """Everything that happens passes here: into the log, then to the client."""
        if isinstance(event, MessageEnd):
            self.log.say(event.message)
        return self.client(event)

    async def tell(self, event: Event) -> None:
        if (waiting := self.publish(event)) is not None:
            await waiting

    def show_queues(self) -> Awaitable[None] | None:
        return self.publish(QueueUpdate(self.queues.texts("steer"), self.queues.texts("follow_up")))

    # What a run reaches.

    def _begin_run(self, switch: Switch) -> None:
        self._remember_commands()
        self._machine = self.around.machine.part()
        switch.listen(self._machine.kill_background)

    def hands(self) -> Hands:
        return Hands(
            publish=self.publish,
            show_queues=self.show_queues,
            draft=self.new_draft,
            ask=self._ask,
            check=self._check,
            execute=self._execute,
            take=self.queues.take,
            will_retry=_never,
            now=now,
        )

    def new_draft(self) -> Draft:
        model = self.models.current
        if model is None:
            raise ModelError("No model selected.")
        return Draft(model, now(), Unfinished)

    async def _ask(self, messages: Sequence[AnyMessage], draft: Draft) -> AsyncIterator[Sequence[Any]]:
        # The model may be changed while an answer streams: this one goes on with its own.
        model, models, around = draft.model, self.models, self.around
        tools = list(around.tools.values())
        if self.settings.images.block_images:
            messages = blocked(messages)
        context = Context(system_prompt(tools, around.cwd), for_model(messages, model), tools)
        options = Options(await self._key(model.provider), models.level, self.settings.thinking_budgets, self.log.id)
        world = World(around.transport, asyncio.sleep, self._asked, around.script)
        self._asked += 1
        async for facts in llm.stream(model, context, options, draft, world):
            yield facts

    async def _key(self, provider: str) -> str | None:
        keys = self.models.keys
        if keys.takes_time(provider):
            return await self.around.machine.in_thread(lambda: keys.get(provider))
        return keys.get(provider)

    async def _check(self, call: ToolCall) -> dict[str, Any] | Outcome:
        tool = self.around.tools.get(call.name)
        if tool is None:
            return refusal(f"Tool {call.name} not found")
        schema = tool.schema_for(call.arguments) if tool.schema_for else tool.parameters
        arguments, problems = check(schema, call.arguments)
        return refusal(complaint(call.name, problems, call.arguments)) if problems else arguments

    async def _execute(self, call: ToolCall, arguments: dict[str, Any], progress: Callable[[Outcome], None]) -> Outcome:
        tool = self.around.tools[call.name]
        resize = self.settings.images.auto_resize
        return await tool.run(arguments, ToolContext(self._machine, self.around.cwd, progress, self.seen, resize))

    # Shell commands of the client enter the conversation between runs, never inside one.

    def _ran(self, message: BashExecution) -> None:
        if self.runs.busy:
            self._unremembered.append(message)
        else:
            self.log.say(message)

    def _remember_commands(self) -> None:
        waiting, self._unremembered = self._unremembered, []
        for message in waiting:
            self.log.say(message)

    # Settings.

    async def save(self, changes: dict[str, Any]) -> None:
        """Keep a choice of the client for next time, as real pi does."""
        file = self.around.settings_file
        if file is None:
            return
        async with self._saving:
            try:
                await self.around.machine.in_thread(lambda: file.change(changes))
            except OSError as error:
                logger.warning("settings not saved: %s", error)

    # Other logs.

    def fresh_log(self, parent: str | None = None) -> Log:
        log = Log(self.around.cwd, parent)
        if self.models.current is not None:
            log.set_model(self.models.current)
        log.set_level(self.models.level)
        return log

    async def move_to(self, log: Callable[[], Log]) -> None:
        """End what is under way, keeping its partial turn, then go on in another log."""
        async with self._changing:
            while self.runs.busy:
                await self.runs.abort()
            self._remember_commands()
            self.around.machine.kill_background()
            target = log()
            waited = len(self.queues)
            self.queues.clear()
            self.seen = self._nothing_seen()
            self.log = target
            if waited and (waiting := self.show_queues()) is not None:
                await waiting

    def _nothing_seen(self) -> Seen:
        return Seen(required=self.settings.edit.require_fresh)

    async def settled_in(self) -> None:
        """Until a change to another log is over: what is asked after it is meant for the new one."""
        if self._changing.locked():
            async with self._changing:
                pass

    async def close(self) -> None:
        """Stop everything. Nothing of this session works on afterwards."""
        self.shell.abort()
        await self.runs.abort()
        self.around.machine.kill_background()


def _never(failure: Failed) -> bool:
    return False

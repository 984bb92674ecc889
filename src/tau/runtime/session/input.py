"""Input pipeline: from the text of a client or extension to an accepted prompt.

Extension commands are tried first, then the input hooks of extensions; only then are templates and skills expanded.
Input is processed in order of arrival, however long an extension takes over one. An abort applies to everything
submitted before it, including input that is not accepted yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from tau.core.agent.queues import MessageQueues, QueueName
from tau.core.agent.structured_output import OutputSchema
from tau.errors import Aborted, CommandError
from tau.records.events import Event, MessageEnd, MessageStart
from tau.records.messages import AnyMessage, Attachment, Custom, Image, Text, User
from tau.records.replies import Disposition
from tau.runtime.abort import AbortSignal
from tau.runtime.extensions.hooks import HookDispatcher
from tau.runtime.extensions.running_commands import RunningCommands
from tau.runtime.history.session_log import SessionLog
from tau.runtime.models.selection import ModelSelection
from tau.runtime.resources import Resources
from tau.runtime.runs.model_client import ModelClient
from tau.runtime.runs.queue import RunQueue
from tau.runtime.session.navigation import Navigator

NOT_QUEUED = 'Extension command "/{name}" cannot be queued. Use prompt() or execute the command when not streaming.'
Blocks = Sequence[Text | Image]
ABORTED = "Aborted before it was accepted."
BEHAVIORS: dict[QueueName | None, str | None] = {None: None, "steer": "steer", "follow_up": "followUp"}


class Owner(Protocol):
    """The parts of a session that the input pipeline uses."""

    model_client: ModelClient
    running_commands: RunningCommands
    hooks: HookDispatcher
    log: SessionLog
    models: ModelSelection
    navigator: Navigator
    queues: MessageQueues
    resources: Resources
    runs: RunQueue

    def prompt(
        self,
        text: str,
        blocks: Blocks,
        behavior: QueueName | None,
        attachments: Sequence[Attachment] = (),
        aim: OutputSchema | None = None,
    ) -> Disposition: ...

    def queue(self, queue: QueueName, text: str, blocks: Blocks, attachments: Sequence[Attachment] = ()) -> None: ...

    def schedule_sync(self) -> None: ...

    async def announce(self, event: Event) -> None: ...

    async def emit_queue_update(self) -> None: ...


class InputPipeline:
    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._turn = asyncio.Lock()
        self._besides: list[tuple[str, Custom]] = []  # messages for the next prompt, each with the id of its session
        self._aborts = 0

    async def submit(
        self,
        text: str,
        blocks: Blocks,
        behavior: QueueName | None,
        *,
        source: str = "rpc",
        queue: bool = False,
        attachments: Sequence[Attachment] = (),
        aim: OutputSchema | None = None,
    ) -> Disposition:
        """Start a command, or accept anything else as a prompt; with `queue` only queue it. Raises CommandError.

        Input that arrives during a session switch applies to the new session.
        """
        owner, aborts = self._owner, self._aborts
        await owner.navigator.wait_until_done()
        if source == "rpc" and (found := owner.running_commands.find(text)) is not None:
            if queue:
                raise CommandError(NOT_QUEUED.format(name=found[0].name))
            owner.running_commands.start(*found)
            return "handled"
        if not owner.hooks.extensions.wants("input"):
            return await self._accept(text, blocks, behavior, source, queue, attachments, aim, aborts)
        async with self._turn:
            try:
                images = [block for block in blocks if isinstance(block, Image)]
                heard = await owner.hooks.input(text, images, source, BEHAVIORS[behavior])
            except Aborted:
                raise CommandError(ABORTED) from None
            await owner.navigator.settled()
            if heard is None:
                return "handled"
            text, images = heard[0], [*heard[1]]
            texts = [block for block in blocks if isinstance(block, Text)]
            return await self._accept(text, [*texts, *images], behavior, source, queue, attachments, aim, aborts)

    async def _accept(
        self,
        text: str,
        blocks: Blocks,
        behavior: QueueName | None,
        source: str,
        queue: bool,
        attachments: Sequence[Attachment],
        aim: OutputSchema | None,
        aborts: int,
    ) -> Disposition:
        owner = self._owner
        if source == "rpc":
            text = await owner.resources.expanded(text)
            await owner.navigator.settled()  # expansion may take a moment, in which a session switch may start
        if queue and behavior is not None:
            owner.queue(behavior, text, blocks, attachments)
            return "queued"
        if aborts != self._aborts:
            raise CommandError(ABORTED)
        return owner.prompt(text, blocks, behavior, attachments, aim)

    def abort(self) -> None:
        """Discard input that is not accepted yet."""
        self._aborts += 1

    async def before_run(self, prompts: list[AnyMessage], switch: AbortSignal) -> list[AnyMessage]:
        """Return the messages that start a run, after the `before_agent_start` hooks of extensions."""
        owner = self._owner
        owner.model_client.system_override = None
        first = next((one for one in prompts if isinstance(one, User | Custom)), None)
        if first is None or not owner.hooks.extensions.wants("before_agent_start"):
            return prompts
        usual = await owner.model_client.system_prompt()
        added, owner.model_client.system_override = await owner.hooks.before_start(first, usual, switch)
        return [*prompts, *added]

    # Messages of extensions.

    async def send_custom(self, message: Custom, behavior: str | None, *, trigger: bool) -> None:
        """Add the message to the next prompt, to the current run, to a run of its own, or only to the session.

        Raises CommandError if the session is closed.
        """
        owner = self._owner
        owner.log.require_open()
        if behavior == "nextTurn":
            self._besides.append((owner.log.id, message))
        elif owner.runs.streaming:
            queue: QueueName = "follow_up" if behavior == "followUp" else "steer"
            owner.queues.add(queue, message)
            owner.log.record_queued(queue, message)
            owner.schedule_sync()
            await owner.emit_queue_update()
        elif trigger:
            owner.models.ready()
            owner.runs.start([message])
        else:
            owner.log.append_message(message)  # at once: the session may be left while the events are delivered
            owner.schedule_sync()
            await owner.announce(MessageStart(message))
            await owner.announce(MessageEnd(message))

    def next_turn_messages(self) -> list[Custom]:
        """Remove and return the messages that go with the next prompt of this session."""
        here = self._owner.log.id
        waiting, self._besides = self._besides, [one for one in self._besides if one[0] != here]
        return [message for session, message in waiting if session == here]

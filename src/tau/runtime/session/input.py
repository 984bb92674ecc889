"""Input pipeline: from the text of a client or extension to an accepted prompt.

Extension commands are tried first, then the input hooks of extensions; only then are templates and skills expanded.
Input is processed in order of arrival, however long an extension takes over one. An abort refuses
input that is not accepted yet; a prompt that is accepted but not started still runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from tau.core.agent.queues import QueueName
from tau.errors import Aborted, CommandError
from tau.records.base import Value, replace
from tau.records.entries import CommandKey
from tau.records.events import MessageEnd, MessageStart
from tau.records.messages import AnyMessage, Attachment, Custom, Image, Text, User
from tau.records.replies import Disposition
from tau.runtime.abort import AbortSignal

if TYPE_CHECKING:
    from tau.core.agent.structured_output import OutputSchema
    from tau.runtime.session.session import Session
    from tau.runtime.session.system_messages import SystemMessages

COMMAND_NOT_QUEUED = (
    'Extension command "/{name}" cannot be queued. Use prompt() or execute the command when not streaming.'
)
Blocks = Sequence[Text | Image]
ABORTED = "Aborted before it was accepted."
BEHAVIORS: dict[QueueName | None, str | None] = {None: None, "steer": "steer", "follow_up": "followUp"}


class Submission(Value):
    """Input as it was submitted; hooks of extensions may replace `text` and the images of `blocks`."""

    text: str
    blocks: Blocks
    behavior: QueueName | None
    source: str
    expand: bool
    queue_only: bool
    attachments: Sequence[Attachment]
    output_schema: OutputSchema | None
    trace_parent: str | None
    key: CommandKey | None


class InputPipeline:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._turn = asyncio.Lock()
        self._for_next_turn: list[tuple[str, Custom]] = []  # messages, each with the id of its session
        self._aborts = 0
        self._system_messages: SystemMessages | None = None  # in dialects that have them

    async def submit(
        self,
        text: str,
        blocks: Blocks,
        behavior: QueueName | None,
        *,
        source: str = "rpc",
        expand: bool = True,
        queue_only: bool = False,
        attachments: Sequence[Attachment] = (),
        output_schema: OutputSchema | None = None,
        trace_parent: str | None = None,
        key: CommandKey | None = None,
    ) -> Disposition:
        """Start a command, or accept anything else as a prompt; with `queue_only` only queue it. Raises CommandError.

        Without `expand` the text is taken literally: as no command, template or skill.

        Input that arrives during a session switch applies to the new session.
        """
        session, aborts = self._session, self._aborts
        given = Submission(
            *(text, blocks, behavior, source, expand, queue_only, attachments, output_schema, trace_parent, key)
        )
        await session.navigator.wait_until_done()
        if expand and (found := session.running_commands.find(text)) is not None:
            if queue_only:
                raise CommandError(COMMAND_NOT_QUEUED.format(name=found[0].name))
            task = session.running_commands.start(*found)
            if session.settings.compat.command_response == "end":
                await asyncio.wait([task])
            return "handled"
        if not session.hooks.extensions.wants("input"):
            return await self._accept(given, aborts)
        async with self._turn:
            changed = await self._after_hooks(given)
            await session.navigator.settled()
            return "handled" if changed is None else await self._accept(changed, aborts)

    async def _after_hooks(self, given: Submission) -> Submission | None:
        """The input as extensions change it; None if one of them has handled it."""
        images = [block for block in given.blocks if isinstance(block, Image)]
        texts = [block for block in given.blocks if isinstance(block, Text)]
        try:
            changed = await self._session.hooks.input(given.text, images, given.source, BEHAVIORS[given.behavior])
        except Aborted:
            raise CommandError(ABORTED) from None
        return None if changed is None else replace(given, text=changed[0], blocks=[*texts, *changed[1]])

    async def _accept(self, given: Submission, aborts: int) -> Disposition:
        session, text = self._session, given.text
        if given.expand:
            if session.mcp is not None and (found := await session.mcp.expand(text)) is not None:
                text, images = found
                given = replace(given, blocks=[*given.blocks, *images])
            else:
                text = await session.resources.expanded(text)
            await session.navigator.settled()  # expansion may take a moment, in which a session switch may start
        if session.settings.compat.system_messages:
            await session.resources.load()
            await session.navigator.settled()
        if given.queue_only and given.behavior is not None:
            session.queue(given.behavior, text, given.blocks, given.attachments, given.key)
            return "queued"
        if aborts != self._aborts:
            raise CommandError(ABORTED)
        return session.prompt(
            text,
            given.blocks,
            given.behavior,
            given.attachments,
            given.output_schema,
            given.trace_parent,
            given.key,
        )

    def introduce_run(self) -> list[AnyMessage]:
        """Record what a new run begins with, and return the messages that clients get before its first one."""
        session = self._session
        session.user_bash.flush()
        if session.log.lacks_level:
            session.log.set_level(session.models.level)
        return self._add_system_message()

    def _add_system_message(self) -> list[AnyMessage]:
        """Before a prompt, add a message for clients if the system prompt or the tools have changed, and return it."""
        session = self._session
        if not session.settings.compat.system_messages:
            return []
        if self._system_messages is None:
            from tau.runtime.session.system_messages import SystemMessages

            self._system_messages = SystemMessages(session.resources)
        message = self._system_messages.due(session.log.messages, list(session.tool_runner.tools.values()))
        if message is None:
            return []
        session.log.append_prompt(cast("AnyMessage", message))
        self._system_messages.apply(message)
        return [cast("AnyMessage", message)]  # stored and sent like any message, but never given to a model

    def abort(self) -> None:
        """Discard input that is not accepted yet."""
        self._aborts += 1

    async def before_run(self, prompts: list[AnyMessage], signal: AbortSignal) -> list[AnyMessage]:
        """Return the messages that start a run, after the `before_agent_start` hooks of extensions."""
        session = self._session
        session.model_client.system_override = None
        first = next((one for one in prompts if isinstance(one, User | Custom)), None)
        if first is None or not session.hooks.extensions.wants("before_agent_start"):
            return prompts
        from tau.runtime.session.prompt_options import changed_prompt, prompt_options

        usual = await session.model_client.system_prompt()
        tools = list(session.tool_runner.tools.values())
        options = await prompt_options(session.resources, tools)
        added, override, changed = await session.hooks.before_start(first, usual, options, signal)
        if override is None and changed is not None and changed != options:
            override = changed_prompt(changed, session.resources, tools)
        session.model_client.system_override = override
        return [*prompts, *added]

    # Messages of extensions.

    async def send_custom(self, message: Custom, behavior: str | None, *, trigger: bool) -> None:
        """Add the message to the next prompt, to the current run, to a run of its own, or only to the session.

        Raises CommandError if the session is closed.
        """
        session = self._session
        if trigger and session.settings.compat.system_messages:
            here = session.log.id
            await session.resources.load()
            await session.navigator.settled()
            if session.log.id != here:
                raise CommandError("The session in which this was called has been left.")
        session.log.require_open()
        if behavior == "nextTurn":
            self._for_next_turn.append((session.log.id, message))
        elif session.runs.streaming:
            queue: QueueName = "follow_up" if behavior == "followUp" else "steer"
            session.queues.add(queue, message)
            session.log.pending_queue.record(queue, message)
            session.schedule_sync()
            await session.emit_queue_update()
        elif trigger:
            session.models.ready()
            prompts: list[AnyMessage] = [message]
            if not session.runs.busy:
                session.log.file.expect()  # a run is worth keeping, even if the user never says anything
                prompts = [*self.introduce_run(), message]
            if session.observer is not None:
                session.observer.accepted(None)
            session.runs.start(prompts)
        else:
            session.log.append_message(message)  # at once: the session may be left while the events are delivered
            session.schedule_sync()
            await session.emit_logged(MessageStart(message))
            await session.emit_logged(MessageEnd(message))

    def next_turn_messages(self) -> list[Custom]:
        """Remove and return the messages that go with the next prompt of this session."""
        here = self._session.log.id
        waiting, self._for_next_turn = self._for_next_turn, [one for one in self._for_next_turn if one[0] != here]
        return [message for id, message in waiting if id == here]

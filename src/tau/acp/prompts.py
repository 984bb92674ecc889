"""`session/prompt`: run a prompt to its end, and answer it."""

from __future__ import annotations

import asyncio
from typing import Any

from tau.acp.errors import AUTH_REQUIRED, AcpError, failed, invalid_params
from tau.acp.initialize import auth_methods
from tau.acp.outcomes import PromptResult, cancelled
from tau.acp.own_commands import OwnCommand, find_own_command
from tau.acp.prompt_content import prompt_content
from tau.acp.requests import Prompt
from tau.acp.session import AcpSession, new_message_id
from tau.acp.turns import Turn
from tau.core.agent.queues import QueueName
from tau.core.agent.structured_output import BadSchema, OutputSchema, parse_output_schema
from tau.errors import CommandError
from tau.records.base import Value
from tau.records.messages import Image

BEHAVIORS: dict[Any, QueueName | None] = {None: None, "steer": "steer", "followUp": "follow_up"}


class PromptInput(Value):
    """A prompt of the client, checked."""

    text: str
    images: list[Image]
    behavior: QueueName | None
    output_schema: OutputSchema | None


def checked_prompt(params: Prompt) -> PromptInput:
    """Raises AcpError for what cannot be a prompt."""
    text, images = prompt_content(params.prompt)
    behavior = params.tau.get("streamingBehavior")
    if not isinstance(behavior, str | None) or behavior not in BEHAVIORS:
        raise invalid_params("_meta.tau.streamingBehavior", "expected 'steer' or 'followUp'")
    schema = params.tau.get("outputSchema")
    try:
        wanted = None if schema is None else parse_output_schema(schema)
    except (BadSchema, TypeError) as error:
        raise invalid_params("_meta.tau.outputSchema", str(error)) from None
    return PromptInput(text, images, BEHAVIORS[behavior], wanted)


class PromptRunner:
    """Runs the prompts of one session."""

    def __init__(self, session: AcpSession) -> None:
        self._session = session
        self._handle = session.handle

    async def join(self, prompt: PromptInput, turn: Turn) -> PromptResult:
        """Put a message into the run under way, and answer it at the end of that run."""
        handle, runs = self._handle, self._session.runs
        number = runs.current
        runs.add_queued()
        try:
            done = await handle.submit(prompt.text, prompt.images, prompt.behavior)
            result = await runs.result(number if done == "queued" else handle.runs.accepted)
        except (AcpError, CommandError) as error:
            raise self._readable(error) from None
        finally:
            self._session.turns.finish(turn)
        return cancelled() if turn.cancelled.is_set() else result

    async def run(self, prompt: PromptInput, turn: Turn) -> PromptResult:
        """Wait for the prompts before this one, run it, and return when it is settled."""
        try:
            if not await turn.ready:
                return cancelled()
            result = await self._run(prompt, turn)
        except (AcpError, CommandError) as error:
            if turn.cancelled.is_set():
                return cancelled()
            raise self._readable(error) from None
        finally:
            self._session.turns.finish(turn)
        return cancelled() if turn.cancelled.is_set() else result

    async def _run(self, prompt: PromptInput, turn: Turn) -> PromptResult:
        await self._until_idle(turn)
        if turn.cancelled.is_set():
            return cancelled()
        self._session.show_kept()
        own = find_own_command(prompt.text)
        if own is not None and not await self._is_replaced(prompt.text):
            return await self._run_own(*own)
        handle = self._handle
        try:
            handle.models.ready()
        except CommandError as error:
            methods = auth_methods(self._session.capabilities)
            raise AcpError(AUTH_REQUIRED, str(error), {"authMethods": methods}) from None
        done = await handle.submit(prompt.text, prompt.images, None, output_schema=prompt.output_schema)
        if done == "started":
            return await self._session.runs.result(self._session.runs.add_own())
        await handle.settled()
        return PromptResult(stop_reason="end_turn")

    async def _until_idle(self, turn: Turn) -> None:
        """Wait until the session has started, and until a run of an extension is over; not if it is cancelled."""
        stopped = asyncio.create_task(turn.cancelled.wait())
        try:
            await asyncio.wait({self._session.started, stopped}, return_when=asyncio.FIRST_COMPLETED)
            while self._handle.runs.busy and not stopped.done():
                idle = asyncio.ensure_future(self._handle.wait_idle())
                await asyncio.wait({idle, stopped}, return_when=asyncio.FIRST_COMPLETED)
                idle.cancel()
        finally:
            stopped.cancel()

    async def _is_replaced(self, text: str) -> bool:
        """True if an extension, a template or a skill has a command of the same name."""
        name = text[1:].partition(" ")[0].strip()
        return any(command.name == name for command in await self._handle.commands())

    async def _run_own(self, command: OwnCommand, argument: str) -> PromptResult:
        answer = await command.run(self._handle, argument)
        self._session.writer.send_text(b"message", new_message_id(), answer)
        return PromptResult(stop_reason="end_turn")

    def _readable(self, error: AcpError | CommandError) -> AcpError:
        """The error of the request. The body of a response becomes a sentence, and stays in `data`."""
        known = error if isinstance(error, AcpError) else failed(str(error))
        sentence = self._session.readable(str(known))
        if sentence == str(known):
            return known
        return AcpError(known.code, sentence, {**(known.data or {}), "response": str(known)})

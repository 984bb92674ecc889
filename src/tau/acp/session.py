"""One session of a client: events out as updates, prompts in, one after another."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from tau.acp.choices import Choices
from tau.acp.client import Client, UpdateWriter
from tau.acp.open_calls import Call, FileChange, OpenCalls, ToolInfo
from tau.acp.own_commands import available_commands
from tau.acp.progress import ProgressLimiter
from tau.acp.questions import Questions
from tau.acp.requests import Capabilities
from tau.acp.run_tracker import RunTracker
from tau.acp.translator import Translator
from tau.acp.turns import TurnQueue
from tau.acp.updates import (
    Command,
    CommandsUpdate,
    ConfigUpdate,
    Cost,
    ModeUpdate,
    Severity,
    TextContent,
    ThoughtChunk,
    Update,
    UsageUpdate,
)
from tau.core.agent.draft import Update as DraftUpdate
from tau.errors import ExtensionFailure, UsageError
from tau.records.base import UNSET
from tau.records.deltas import TextDelta, ThinkingDelta, ToolCallStart
from tau.records.dialogs import UiRequest
from tau.records.events import (
    AgentSettled,
    CompactionEnd,
    Event,
    McpServerUpdate,
    MessageEnd,
    ThinkingLevelChanged,
    ToolEnd,
    ToolUpdate,
    TurnStart,
)
from tau.records.messages import Assistant, User
from tau.runtime.app.handle import SessionHandle
from tau.runtime.clock import iso
from tau.runtime.models.readable_errors import readable_error

logger = logging.getLogger(__name__)
CLOSE_TIMEOUT_S = 1.5
ANNOUNCE_AFTER_S = 1.0  # a call is shown with its arguments, unless the model takes longer to write them
MAX_THOUGHTS = 100  # notices of a session that are shown as thoughts


class AcpSession:
    """`start` starts extensions and MCP servers; `warnings` are shown when the session is announced."""

    def __init__(
        self,
        client: Client,
        handle: SessionHandle,
        warnings: Sequence[str],
        start: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        capabilities = client.capabilities
        self._client = client
        self.handle = handle
        self.id = handle.log.id
        self.writer = UpdateWriter(client, self.id)
        self.calls = OpenCalls(handle.cwd, self._tool_info, terminal=capabilities.terminal_output)
        self._translator = Translator(
            self.calls,
            capabilities,
            lambda: handle.log.reserve_answer_id(),
            new_message_id,
            iso,
            self._keep_unshown,
            self.readable,
        )
        self.choices = Choices(handle, boolean_options=capabilities.boolean_options)
        self.turns = TurnQueue()
        self.runs = RunTracker(handle)
        self._progress = ProgressLimiter(self._send_progress)
        self._questions = Questions(client, handle, self.calls, self.spawn, self.notice)
        self._tasks: set[asyncio.Task[None]] = set()
        self._warnings = warnings
        self._sent_choices: object = None
        self._sent_usage: UsageUpdate | None = None
        self._sent_commands: list[Command] = []
        self._unshown: list[str] = []  # notices for the next prompt
        self._prompted = False
        self._shown = set[str]()  # notices as thoughts
        self._asked = asyncio.Event()  # a question was asked
        handle.on_file_change(self._file_changed)
        self.started: asyncio.Task[None] = asyncio.create_task(start())

    @property
    def capabilities(self) -> Capabilities:
        return self._client.capabilities

    def readable(self, text: str) -> str:
        """An error of a model server as a sentence."""
        return readable_error(text, self.handle.models, hint="")

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a task that ends with the session."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._task_done)

    def _task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a task of session %s failed", self.id, exc_info=error)

    # Opening.

    async def ready(self) -> None:
        """Wait until the session has started, or asks something that the client can only answer if it knows it."""
        asked = asyncio.create_task(self._asked.wait())
        try:
            await asyncio.wait({self.started, asked}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            asked.cancel()
        if self.started.done():
            self.started.result()
        self._sent_choices = self.choices.key()

    def announce(self) -> None:
        """The client knows the session now: send what it should know about it."""
        self.writer.release()
        for warning in self._warnings:
            self.notice("warning", warning)
        self._warnings = ()
        self._send_usage()
        self._sent_commands = []
        self.spawn(self._announce_later())

    async def _announce_later(self) -> None:
        try:
            await asyncio.shield(self.started)
        except (ExtensionFailure, UsageError) as error:  # after a question: the session was open already
            self.notice("error", str(error))
        await self._refresh()

    # Events.

    def publish(self, event: Event | DraftUpdate | UiRequest) -> Awaitable[None] | None:
        """The callback for events of the session."""
        if isinstance(event, DraftUpdate):
            delta = event.delta
            if isinstance(delta, TextDelta):
                if delta.delta:
                    self.writer.send_text(b"message", self._translator.message_id, delta.delta)
            elif isinstance(delta, ThinkingDelta):
                if delta.delta:
                    self.writer.send_text(b"thought", self._translator.message_id, delta.delta)
            elif isinstance(delta, ToolCallStart):
                call = self.calls.open(delta.id, delta.tool_name)
                asyncio.get_running_loop().call_later(ANNOUNCE_AFTER_S, self._announce_call, call)
            else:
                for update in self._translator.translate_delta(delta):
                    self.writer.send(update)
        elif isinstance(event, UiRequest):
            self._asked.set()
            self._questions.show(event)
        elif isinstance(event, ToolUpdate):
            self._progress.add(event)
        else:
            self._publish_event(event)
        return self._client.wait_for_room()

    def _publish_event(self, event: Event) -> None:
        if isinstance(event, ToolEnd):
            self._progress.drop(event.tool_call_id)
        for update in self._translator.translate(event):
            self.writer.send(update)
        if self.runs.observe(event) and isinstance(event, MessageEnd) and isinstance(event.message, User):
            for update in self._translator.user_message(event.message):
                self.writer.send(update)
        if isinstance(event, CompactionEnd) or (isinstance(event, MessageEnd) and isinstance(event.message, Assistant)):
            self._send_usage()
        if isinstance(event, ThinkingLevelChanged | TurnStart | AgentSettled):
            self.send_choices()
        if isinstance(event, McpServerUpdate) and event.state == "ready":
            self.spawn(self._refresh())
        if isinstance(event, AgentSettled):
            self._progress.clear()
            self.spawn(self._refresh())

    def _announce_call(self, call: Call) -> None:
        """The model takes its time for the arguments of a call."""
        if (update := self.calls.announce(call)) is not None:
            self.writer.send(update)

    def _send_progress(self, event: ToolUpdate) -> None:
        for update in self._translator.translate(event):
            self.writer.send(update)

    def notice(self, severity: Severity, title: str) -> None:
        for update in self._translator.notice(severity, title):
            self.writer.send(update)

    def _keep_unshown(self, text: str) -> None:
        """A notice for a client without notices: a thought, and only in a prompt, where every client expects one."""
        logger.warning("%s", text)
        if text in self._shown or len(self._shown) >= MAX_THOUGHTS:
            return
        self._shown.add(text)
        self._unshown.append(text)
        if self.turns.busy:
            self.show_kept()

    def show_kept(self) -> None:
        """A prompt has begun: send the notices that the client could not be shown before."""
        if not self._prompted:  # CodeCompanion may drop the commands that come with the answer to session/new
            self._prompted, self._sent_commands = True, []
        for text in self._unshown:
            self.writer.send(ThoughtChunk(content=TextContent(f"{text}\n\n"), message_id=new_message_id()))
        self._unshown.clear()

    def _file_changed(self, call_id: str, path: str, before: bytes | None, after: bytes) -> None:
        self.calls.record_change(call_id, FileChange(path, before, after))

    def _tool_info(self, name: str) -> ToolInfo:
        tool = self.handle.mcp_tool(name)
        if tool is None:
            return ToolInfo(name)
        return ToolInfo(tool.title or name, "read" if tool.read_only else "other")

    # What the client should know.

    def send_choices(self) -> None:
        """Send the choices if they have changed."""
        key, before = self.choices.key(), self._sent_choices
        if key == before or self.writer.is_held:
            return
        self._sent_choices = key
        self.writer.send(ConfigUpdate(config_options=self.choices.options()))
        if not isinstance(before, tuple) or before[0] != self.choices.mode:
            self.writer.send(ModeUpdate(current_mode_id=self.choices.mode))
        self._send_usage()

    def _send_usage(self) -> None:
        usage = self.handle.context_usage()
        if usage is None or usage.tokens is None:
            return
        stats = self.handle.stats()
        cost = UNSET if stats.cost_unknown else Cost(stats.cost)
        update = UsageUpdate(used=usage.tokens, size=usage.context_window, cost=cost)
        if update != self._sent_usage:
            self._sent_usage = update
            self.writer.send(update)

    async def _refresh(self) -> None:
        """Send the commands and choices if extensions or files have changed them."""
        commands = await available_commands(self.handle)
        if commands != self._sent_commands:
            self._sent_commands = commands
            self.writer.send(CommandsUpdate(available_commands=commands))
        self.send_choices()

    def choices_set(self) -> None:
        """The client has set a choice, and its answer will have all of them."""
        self._sent_choices = self.choices.key()

    def send_set(self, update: Update | None) -> None:
        """The client has the answer; `update` is what that does not have."""
        if update is not None:
            self.writer.send(update)
        self._send_usage()

    # The end.

    def cancel(self) -> None:
        """Cancel every prompt, and whatever else runs."""
        if self.turns.cancel_all() or self.handle.runs.busy:
            self.abort()

    def abort(self) -> None:
        """Abort the run under way. Does not wait."""
        self.spawn(self.handle.abort())

    async def close(self) -> None:
        """Abort, and free everything. Prompts that wait are answered as cancelled."""
        self.cancel()
        self.handle.close_dialogs()
        self.started.cancel()
        await self.handle.close(CLOSE_TIMEOUT_S)
        self.runs.end()
        self._progress.clear()
        for task in list(self._tasks):
            task.cancel()
        await self.handle.release()


def new_message_id() -> str:
    return os.urandom(6).hex()

"""Session: one conversation, which owns its parts and wires them together.

`Operations` (operations.py) calls the parts (`session.runs.abort()`, `session.navigator.clone()`), not methods here
that only forward.
This class contains what needs several parts: accepting a prompt, publishing an event, saving the conversation.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import nullcontext
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tau.core.agent.budgets import NO_BUDGET
from tau.core.agent.draft import Draft, Update
from tau.core.agent.queues import MessageQueues, QueuedMessage, QueueName, message_texts
from tau.core.conversation.summaries import SummaryRequest
from tau.errors import CommandError
from tau.llm.catalog import takes_tools
from tau.records.base import UNSET, replace
from tau.records.budgets import Budget
from tau.records.dialogs import UiRequest
from tau.records.entries import CommandKey
from tau.records.events import (
    AgentSettled,
    BashUpdate,
    Event,
    MessageEnd,
    QueueUpdate,
    SessionWriteFailed,
    SessionWriteRecovered,
)
from tau.records.messages import AnyMessage, Attachment, BashExecution, Image, Text, User
from tau.records.replies import Disposition
from tau.records.settings import Settings
from tau.runtime.clock import now
from tau.runtime.extensions.dialogs import Dialogs
from tau.runtime.extensions.hooks import HookDispatcher
from tau.runtime.extensions.lifecycle import ExtensionLifecycle
from tau.runtime.extensions.registry import ExtensionRegistry
from tau.runtime.extensions.running_commands import RunningCommands
from tau.runtime.history.session_log import SessionLog
from tau.runtime.history.sync import BackgroundSync
from tau.runtime.models.bundled import Local
from tau.runtime.models.selection import ModelSelection
from tau.runtime.resources import Resources
from tau.runtime.runs.budget import BudgetTracker
from tau.runtime.runs.compactor import Compactor
from tau.runtime.runs.queue import RunQueue
from tau.runtime.runs.tool_runner import ToolRunner
from tau.runtime.services import Client, Services
from tau.runtime.session.bash_updates import BashUpdates
from tau.runtime.session.initial_log import InitialLog
from tau.runtime.session.input import InputPipeline
from tau.runtime.session.navigation import Navigator
from tau.runtime.session.user_bash import UserBash
from tau.store.resource_query import ResourceQuery

if TYPE_CHECKING:
    from tau.core.agent.structured_output import OutputSchema
    from tau.runtime.extensions.lifecycle import LoadPlan
    from tau.runtime.runs.model_client import ModelClient
    from tau.runtime.runs.prompt_run import RunParts
    from tau.runtime.runs.tool_runner import PermissionGate
    from tau.runtime.session.host_tools import HostTools
    from tau.runtime.session.mcp_access import McpAccess

    class Move(Protocol):
        """A change to another folder, whose configuration is read."""

        def apply(self) -> None:
            """Use the folder. The log of the session that is opened is not restored yet."""

        async def finish(self) -> None:
            """Start the MCP servers of the folder."""

    # Prepares a move to the folder in which a log runs, or to one that is given; None if that is the present one.
    # Blocks; raises CommandError.
    Relocate = Callable[["Session", SessionLog, str | None], Move | None]

logger = logging.getLogger(__name__)
SCHEMA_NOT_QUEUED = (
    "A message that is queued cannot have an outputSchema of its own: it becomes a part of the run under way."
)
BUSY = "Agent is already processing. Specify streamingBehavior ('steer' or 'followUp') to queue the message."
EXTENSION_STOP_TIMEOUT_S = (
    0.8  # seconds for extensions to stop when the session ends; the whole shutdown takes less than 2
)
MIN_EXTENSION_STOP_TIMEOUT_S = 0.3  # the minimum, if a run that was slow to stop has used up that time


class Session:
    def __init__(
        self,
        services: Services,
        settings: Settings,
        models: ModelSelection,
        client: Client,
        resource_query: ResourceQuery,
        initial_log: InitialLog,
        *,
        budget: Budget = NO_BUDGET,
        output_schema: OutputSchema | None = None,
        permissions: Callable[[Dialogs], PermissionGate] | None = None,
        extension_plan: Callable[[Session], LoadPlan] | None = None,
        mcp: Callable[[Session], McpAccess] | None = None,
        relocate: Relocate | None = None,
    ) -> None:
        """Raises CommandError if another process has the session open."""
        self.services = services
        self.settings = settings
        self.models = models
        self.client = client
        self.output_schema = output_schema  # default for prompts without a schema of their own
        self.request_exit: Callable[[], None] = lambda: None  # exits the program
        self.queues = MessageQueues(settings.steering_mode, settings.follow_up_mode)
        self.extensions = ExtensionRegistry(lambda: self.settings, self.emit_nowait)
        self.hooks = HookDispatcher(self.extensions, now)
        self.dialogs = Dialogs(self.send_nowait, self.extensions, has_ui=services.mode in ("rpc", "tui", "acp"))
        self.running_commands = RunningCommands(self.hooks)
        self.budget = BudgetTracker(models, budget)
        self.resources = Resources(resource_query, services.machine.in_thread, self.emit_nowait)
        gate = None if permissions is None else permissions(self.dialogs)
        self.tool_runner = ToolRunner(services, lambda: self.settings, self.hooks, gate)
        self.host_tools: HostTools | None = None  # made when a client first lends tools
        self.local = Local()
        self.input = InputPipeline(self)
        self.compactor = Compactor(self, stop_run=lambda: self.runs.stop(), hooks=self.hooks)
        self.runs: RunQueue = RunQueue(self, self.compactor.turn, self._run_parts)
        self.user_bash: UserBash = UserBash(
            services.machine, services.cwd, self, lambda: self.runs.busy, self.hooks, self._bash_updates
        )
        self.navigator = Navigator(self)
        self.sync = BackgroundSync(
            lambda: self.log, services.machine.in_thread, self.write_failed, self._write_recovered
        )
        self._saving = asyncio.Lock()
        self._unsent: set[asyncio.Future[None]] = set()
        self.log: SessionLog = initial_log.open(self.navigator.new_log, self.write_failed)
        if initial_log.resumed is not None:
            self.navigator.restore_state(restore=True, starting=True)
        if initial_log.name is not None:
            self.log.set_name(initial_log.name)
        self.extension_lifecycle = ExtensionLifecycle(self, extension_plan and extension_plan(self))
        self.observer = None if services.observe is None else services.observe(self)
        self.tool_runner.observer = self.observer
        self.mcp: McpAccess | None = None  # only if servers are configured
        if mcp is not None:
            self.use_mcp(mcp(self))
        self.relocate: Relocate = relocate or (lambda session, log, folder: None)

    def use_mcp(self, mcp: McpAccess) -> None:
        self.mcp = self.tool_runner.mcp = mcp

    def use_folder(self, cwd: str, sessions: Path | None) -> None:
        """Work in another folder."""
        self.services = self.tool_runner.services = replace(self.services, cwd=cwd, sessions=sessions)
        self.user_bash.cwd = cwd
        if self.tool_runner.permission_gate is not None:
            self.tool_runner.permission_gate.cwd = cwd

    @cached_property
    def model_client(self) -> ModelClient:
        """Made when the session is first used: a start does without the modules that it needs."""
        from tau.runtime.runs.model_client import ModelClient

        return ModelClient(
            self,
            self.services,
            self.models,
            self.resources,
            self.tool_runner,
            self.hooks,
            self.budget,
            self.local,
            self.observer,
        )

    def _run_parts(self) -> RunParts:
        from tau.runtime.runs.prompt_run import RunParts

        return RunParts(
            self.queues,
            self.budget,
            self.compactor,
            self.model_client,
            self.tool_runner,
            on_start=self._run_started,
            before_run=self.input.before_run,
        )

    def _run_started(self) -> None:
        self.user_bash.flush()
        if self.observer is not None:
            self.observer.run_started()

    # Prompts.

    def prompt(
        self,
        text: str,
        blocks: Sequence[Text | Image],
        behavior: QueueName | None,
        attachments: Sequence[Attachment] = (),
        output_schema: OutputSchema | None = None,
        trace_parent: str | None = None,
        key: CommandKey | None = None,
    ) -> Disposition:
        """Run the prompt or queue it. When this returns, the message is in the run or in the queue, and on disk."""
        if self.runs.streaming:
            if behavior is None:
                raise CommandError(BUSY)
            if output_schema is not None:
                raise CommandError(SCHEMA_NOT_QUEUED)
            self.queue(behavior, text, blocks, attachments, key)
            return "queued"
        self.runs.check_open()
        model, output_schema = self.models.ready(), output_schema or self.output_schema
        self.budget.check_model()
        if output_schema is not None and not takes_tools(model):
            raise CommandError(
                f"{model.id} does not support tools, which structured output needs. Choose another model."
            )
        self.runs.prepare()  # a prompt that is refused must not be recorded
        message = self._user(text, blocks, attachments)
        prompts: list[AnyMessage] = [message]
        if self.runs.busy:
            # The last run is not settled: this prompt runs next, and is recorded as queued until then.
            self.log.pending_queue.record("follow_up", message, key)
        else:
            prompts = [*self.input.introduce_run(), message]
            self.log.append_prompt(message, key)
            self.navigator.report_damage()
        self.schedule_sync()
        if self.observer is not None:
            self.observer.accepted(trace_parent)
        if self.mcp is not None:
            self.mcp.prompt_accepted()
        self.runs.start([*prompts, *self.input.next_turn_messages()], output_schema)
        return "started"

    def _user(self, text: str, blocks: Sequence[Text | Image], attachments: Sequence[Attachment]) -> User:
        kept = list(attachments) if attachments and self.settings.keep_attachments else UNSET
        return User([Text(text), *blocks], now(), kept)

    def queue(
        self,
        queue: QueueName,
        text: str,
        blocks: Sequence[Text | Image],
        attachments: Sequence[Attachment] = (),
        key: CommandKey | None = None,
    ) -> None:
        """Add a message to a queue and to the session file. The agent loop takes it during a run; this starts none."""
        message = self._user(text, blocks, attachments)
        self.queues.add(queue, message)
        self.log.pending_queue.record(queue, message, key)
        self.schedule_sync()

    def clear_queues(self) -> tuple[list[str], list[str]]:
        if len(self.queues):
            self.log.pending_queue.clear([message for _, message in self.queues])
            self.schedule_sync()
        return self.queues.clear()

    # Events.

    def publish(self, event: Event | Update) -> Awaitable[None] | None:
        """Publish an event: every event passes through here, first into the log, then to the client."""
        if isinstance(event, Update):
            return self._notify(event)  # most events are updates
        if isinstance(event, MessageEnd):
            self.log.append_message(event.message)
            self.navigator.report_damage()  # a long conversation is read when a model is asked
            self.schedule_sync()
        elif isinstance(event, AgentSettled):
            if self.settings.compat.keep_bash_after == "run":
                self.user_bash.flush()
            self.schedule_sync()
        if self.observer is not None:
            self.observer.on_event(event)
        return self._notify(event)

    def _notify(self, event: Event | Update) -> Awaitable[None] | None:
        if self.extensions.handlers:
            signal = self.runs.signal or self.hooks.idle_signal
            if (waiting := self.hooks.observe(event, signal)) is not None:
                return self._client_after(waiting, event)
        return self.client(event)

    async def _client_after(self, extensions: Awaitable[None], event: Event | Update) -> None:
        with self.log.unannounced() if isinstance(event, MessageEnd) else nullcontext():
            await extensions
        if (waiting := self.client(event)) is not None:
            await waiting

    async def emit(self, event: Event) -> None:
        if (waiting := self.publish(event)) is not None:
            await waiting

    async def emit_logged(self, event: Event) -> None:
        """As `emit`, for a message that the log contains already."""
        if (waiting := self._notify(event)) is not None:
            await waiting

    def emit_nowait(self, event: Event | UiRequest) -> None:
        """Send an event to the client without waiting, from code that cannot await."""
        self.send_nowait(event)

    def send_nowait(self, event: Event | UiRequest) -> asyncio.Future[None] | None:
        """Send to the client only: the log and extensions do not get it.

        Returns a future that is done when the client has room for more, if it has none now.
        """
        if (waiting := self.client(event)) is None:
            return None
        self._unsent.add(task := asyncio.ensure_future(waiting))
        task.add_done_callback(self._unsent.discard)
        return task

    def publish_queues(self, taken: Sequence[QueuedMessage] = (), queue: QueueName = "steer") -> Awaitable[None] | None:
        """`taken` has left its queue, but counts as queued until it is announced."""
        return self.publish(self._queue_update(taken, queue))

    async def emit_queue_update(self) -> None:
        await self.emit(self._queue_update())

    def _queue_update(self, taken: Sequence[QueuedMessage] = (), queue: QueueName = "steer") -> QueueUpdate:
        ahead = message_texts(taken)
        steering, follow_up = self.queues.texts("steer"), self.queues.texts("follow_up")
        return QueueUpdate(*((ahead + steering, follow_up) if queue == "steer" else (steering, ahead + follow_up)))

    # Used by compactions.

    def stream_summary(self, request: SummaryRequest, draft: Draft) -> AsyncIterator[Sequence[Any]]:
        return self.model_client.stream_summary(request, draft)

    def _bash_updates(self, id: Any) -> BashUpdates | None:
        """Receiver for the output of a user bash command while it runs; None if updates are off."""
        if not self.settings.bash_updates and self.services.mode != "tui":
            return None
        return BashUpdates(lambda text: self.client(BashUpdate(text, id)))

    # Saving.

    def keep_bash(self, log: SessionLog, message: BashExecution) -> None:
        """Add a finished command as a message to the session in which it was started."""
        log.append_message(message)
        self.schedule_sync()

    def note_bash(self, message: BashExecution) -> None:
        self.log.pending_bash.record(message)
        self.schedule_sync()

    def bash_ended(self, log: SessionLog) -> None:
        self.sync.release(log)

    def schedule_sync(self) -> None:
        """Schedule an fsync of the session file after a write."""
        self.sync.schedule()

    def write_failed(self, error: OSError, log: SessionLog | None = None) -> None:
        """`log` is the session that could not be written, if it is not the current one."""
        logger.warning("the session file cannot be written: %s", error)
        log = log or self.log
        self.emit_nowait(SessionWriteFailed(str(log.path), error.strerror or str(error), log.unwritten))
        self.schedule_sync()

    def _write_recovered(self, log: SessionLog) -> None:
        self.emit_nowait(SessionWriteRecovered(str(log.path)))

    async def save_settings(self, changes: dict[str, Any], *, requested: bool = False) -> None:
        """Save a choice of the client in the user's settings, as pi does. `requested`: the person asked for that."""
        file = self.services.settings_file
        excluded = () if requested else self._session_only_settings()
        kept = {name: value for name, value in changes.items() if name not in excluded}
        if file is None or not kept:
            return
        async with self._saving:
            try:
                await self.services.machine.in_thread(lambda: file.change(kept))
            except OSError as error:
                logger.warning("settings not saved: %s", error)

    async def abort(self) -> None:
        """Abort the run, compactions, extension commands and dialogs; return when they have stopped.

        An abort during a tool call:

        1. `RunQueue.abort` (runtime/runs/queue.py) aborts the signal of the current prompt and waits until it has
           settled.
        2. The signal cancels the task of the tool call (`Driver._run_tool`, runtime/runs/driver.py).
        3. The tool stops. bash kills its processes (runtime/machine/local.py) and raises CancelledWithResult with the
           output so far (tools/bash.py).
        4. `_run_tool` reports a failed result; the agent loop publishes turn_end and agent_end as after any failure.

        A prompt that is accepted but not started, the message queues and bash commands of the user are not affected.
        """
        self.input.abort()
        self.hooks.abort()
        self.dialogs.cancel()
        await self.compactor.abort()
        await self.runs.abort()

    async def stop_extensions(self, late: float = 0) -> None:
        """Notify extensions of the shutdown and stop them. Waits only briefly, and less if shutdown is `late`
        already.
        """
        self.dialogs.close()
        seconds = max(MIN_EXTENSION_STOP_TIMEOUT_S, EXTENSION_STOP_TIMEOUT_S - late)
        try:
            async with asyncio.timeout(seconds):
                await self.hooks.tell("session_shutdown", {"reason": "quit"})
                await self.extension_lifecycle.stop()
        except TimeoutError:
            logger.warning("extensions did not end within %.1f s", seconds)
        finally:
            self.extension_lifecycle.kill()

    def _session_only_settings(self) -> tuple[str, ...]:
        """Names of settings that apply to this session only and are not saved."""
        if not self.settings.save_models:
            return "defaultProvider", "defaultModel", "defaultThinkingLevel"
        # A level forced by a model that does not support thinking says nothing about the next model.
        return (
            ("defaultThinkingLevel",)
            if self.models.thinking_not_supported and self.settings.compat.thinking_returns
            else ()
        )

    async def close(self) -> None:
        """Stop everything. The session cannot be used afterwards."""
        clock = asyncio.get_running_loop().time
        began = clock()
        self.runs.close()
        self.navigator.close()
        self.user_bash.close()
        self.hooks.abort()
        self.dialogs.close()
        await self.navigator.stop_runs()
        if self.mcp is not None:
            self.mcp.terminate()
        await self.user_bash.ended()
        await self.sync.sync_now()
        await self.stop_extensions(late=clock() - began)
        if self.mcp is not None:
            await self.mcp.close()
        self.services.machine.kill_background()
        self.local.stop()
        await self.sync.close()
        self.log.close()
        if self.observer is not None:
            self.observer.close()
            await self.services.machine.in_thread(self.observer.flush)

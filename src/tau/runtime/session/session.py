"""One conversation: owns the parts and wires them together.

Commands talk to the parts (`session.runs.abort()`, `session.moves.to_clone()`),
not through methods that only forward. What stands here is what needs several
parts: accepting a prompt, publishing an event, keeping what was said.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from tau.core.agent.draft import Draft, Failed, Update
from tau.core.agent.queues import Queue, Queues, Waiting, texts
from tau.core.agent.structured_output import Aim
from tau.core.conversation.summaries import SummaryRequest
from tau.errors import CommandError
from tau.records.base import UNSET
from tau.records.dialogs import UiRequest
from tau.records.events import (
    AgentSettled,
    BashUpdate,
    Event,
    MessageEnd,
    QueueUpdate,
    SessionWriteFailed,
    SessionWriteRecovered,
)
from tau.records.messages import Attachment, BashExecution, Image, Text, User
from tau.records.replies import Disposition
from tau.records.settings import Settings
from tau.runtime.abort import Switch
from tau.runtime.extensions.dialogs import Dialogs
from tau.runtime.extensions.hooks import Hooks
from tau.runtime.extensions.lifecycle import Guests
from tau.runtime.extensions.registry import Extensions
from tau.runtime.extensions.running_commands import Errands
from tau.runtime.history.pending_bash import note
from tau.runtime.history.session_log import Log, now
from tau.runtime.history.sync import Keeper
from tau.runtime.models.bundled import Local
from tau.runtime.models.selection import Models
from tau.runtime.resources import Resources
from tau.runtime.runs.budget import Allowance
from tau.runtime.runs.compactor import Compactor
from tau.runtime.runs.driver import Hands
from tau.runtime.runs.model_client import Caller, takes_tools
from tau.runtime.runs.queue import Runs
from tau.runtime.runs.tool_runner import Toolbox
from tau.runtime.services import Surroundings
from tau.runtime.session.bash_updates import Live
from tau.runtime.session.input import Hearing
from tau.runtime.session.navigation import Moves
from tau.runtime.session.user_bash import Shell
from tau.store.resource_query import Sought
from tau.store.sessions import Opened

logger = logging.getLogger(__name__)
Client = Callable[[Event | Update | UiRequest], Awaitable[None] | None]
NOT_QUEUED = "A message that is queued cannot have an outputSchema of its own: it becomes a part of the run under way."
BUSY = "Agent is already processing. Specify streamingBehavior ('steer' or 'followUp') to queue the message."
FAREWELL = 0.8  # seconds that extensions have when the session ends: with all the rest, the end takes less than 2
AT_LEAST = 0.3  # that they have of it if a run did not stop at once


class Session:
    def __init__(
        self,
        around: Surroundings,
        settings: Settings,
        models: Models,
        client: Client,
        sought: Sought,
        found: Opened | None = None,
    ) -> None:
        """`found` is a session to go on with. Raises CommandError if another process has it."""
        self.around = around
        self.settings = settings
        self.models = models
        self.client = client
        self.queues = Queues(settings.steering_mode, settings.follow_up_mode)
        self.extensions = Extensions(lambda: self.settings, self.mention)
        self.hooks = Hooks(self.extensions, now)
        self.dialogs = Dialogs(self.mention, self.extensions, has_ui=around.mode == "rpc")
        self.errands = Errands(self.hooks)
        self.guests = Guests(self)
        self.leave: Callable[[], None] = lambda: None  # ends the program; whoever runs it says how
        self.budget = Allowance(models)
        self.aim: Aim | None = None  # what prompts that say nothing else shall come to
        self.resources = Resources(sought, around.machine.in_thread, self.mention)
        self.caller = Caller(self)
        self.toolbox = Toolbox(around, lambda: self.settings, self.hooks)
        self.hearing = Hearing(self)
        self.runs = Runs(self, self._begin_run, self.hearing.introduced)
        self.compactor = Compactor(self, stop_run=self.runs.stop, hooks=self.hooks)
        self.shell = Shell(around.machine, around.cwd, self, lambda: self.runs.busy, self.hooks, self._live)
        self.moves = Moves(self)
        self.local = Local()
        self.keeper = Keeper(lambda: self.log, around.machine.in_thread, self.write_failed, self._write_recovered)
        self._saving = asyncio.Lock()
        self._mentions: set[asyncio.Future[None]] = set()
        self.log: Log = self.moves.fresh_log() if found is None else Log.resumed(found, self.write_failed)
        if found is not None:
            self.moves.settle_in(restore=True, starting=True)

    # Prompts.

    def prompt(
        self,
        text: str,
        blocks: Sequence[Text | Image],
        behavior: Queue | None,
        attachments: Sequence[Attachment] = (),
        aim: Aim | None = None,
    ) -> Disposition:
        """Run it or queue it. When this returns, the message is in one place or the other, and on disk."""
        if self.runs.streaming:
            if behavior is None:
                raise CommandError(BUSY)
            if aim is not None:
                raise CommandError(NOT_QUEUED)
            self.queue(behavior, text, blocks, attachments)
            return "queued"
        self.runs.ready()
        model, aim = self.models.ready(), aim or self.aim
        self.budget.ready()
        if aim is not None and not takes_tools(model):
            raise CommandError(f"{model.id} takes no tools, and results in a shape are handed in by one.")
        message = self._user(text, blocks, attachments)
        if self.runs.busy:
            # The last run is not settled: this one goes next, and is kept as what waits until then.
            self.log.queued("follow_up", message)
        else:
            self.shell.remember()
            if self.log.lacks_level:
                self.log.set_level(self.models.level)
            self.log.accept(message)
            self.moves.tell_damage()
        self.kept_soon()
        self.runs.start([message, *self.hearing.besides()], aim)
        return "started"

    def _user(self, text: str, blocks: Sequence[Text | Image], attachments: Sequence[Attachment]) -> User:
        kept = list(attachments) if attachments and self.settings.keep_attachments else UNSET
        return User([Text(text), *blocks], now(), kept)

    def queue(
        self, queue: Queue, text: str, blocks: Sequence[Text | Image], attachments: Sequence[Attachment] = ()
    ) -> None:
        message = self._user(text, blocks, attachments)
        self.queues.add(queue, message)
        self.log.queued(queue, message)
        self.kept_soon()

    def clear_queues(self) -> tuple[list[str], list[str]]:
        if len(self.queues):
            self.log.queue_cleared([message for _, message in self.queues])
            self.kept_soon()
        return self.queues.clear()

    # Events.

    def publish(self, event: Event | Update) -> Awaitable[None] | None:
        """Everything that happens passes here: into the log, then to the client."""
        if isinstance(event, MessageEnd):
            self.log.say(event.message)
        if isinstance(event, AgentSettled) and self.settings.keep_bash_after == "run":
            self.shell.remember()
        if isinstance(event, MessageEnd | AgentSettled):
            self.kept_soon()
        if self.extensions.handlers:
            switch = self.runs.switch if self.runs.busy else self.hooks.outside
            if (waiting := self.hooks.told(event, switch)) is not None:
                return self._client_after(waiting, event)
        return self.client(event)

    async def _client_after(self, extensions: Awaitable[None], event: Event | Update) -> None:
        await extensions
        if (waiting := self.client(event)) is not None:
            await waiting

    async def tell(self, event: Event) -> None:
        if (waiting := self.publish(event)) is not None:
            await waiting

    def mention(self, event: Event | UiRequest) -> None:
        """Tell the client without waiting: for what is noticed where nobody can wait."""
        if (waiting := self.client(event)) is not None:
            self._mentions.add(task := asyncio.ensure_future(waiting))
            task.add_done_callback(self._mentions.discard)

    def show_queues(self, taken: Sequence[Waiting] = (), queue: Queue = "steer") -> Awaitable[None] | None:
        """`taken` left its queue, but goes on waiting until it is announced."""
        return self.publish(self._queue_update(taken, queue))

    async def tell_queues(self) -> None:
        await self.tell(self._queue_update())

    def _queue_update(self, taken: Sequence[Waiting] = (), queue: Queue = "steer") -> QueueUpdate:
        ahead = texts(taken)
        steering, follow_up = self.queues.texts("steer"), self.queues.texts("follow_up")
        return QueueUpdate(*((ahead + steering, follow_up) if queue == "steer" else (steering, ahead + follow_up)))

    # What runs and compactions reach.

    def _begin_run(self, switch: Switch) -> None:
        self.shell.remember()
        self.toolbox.begin(switch)

    def hands(self) -> Hands:
        return Hands(
            publish=self.publish,
            show_queues=self.show_queues,
            draft=self.caller.draft,
            ask=self.caller.answer,
            check=self.toolbox.check,
            execute=self.toolbox.execute,
            take=self.queues.take,
            will_retry=_never,
            now=now,
            permit=self.toolbox.permit,
            review=self.toolbox.review,
        )

    def new_draft(self) -> Draft:
        return self.caller.draft()

    def ask_for_summary(self, request: SummaryRequest, draft: Draft) -> AsyncIterator[Sequence[Any]]:
        return self.caller.summary(request, draft)

    def _live(self, id: Any) -> Live | None:
        """Who hears what a command of the client says while it runs."""
        return Live(lambda text: self.client(BashUpdate(text, id))) if self.settings.bash_updates else None

    # What is kept.

    def keep_bash(self, log: Log, message: BashExecution) -> None:
        """A finished command becomes a message of the session in which it was started."""
        log.say(message)
        self.kept_soon()

    def note_bash(self, message: BashExecution) -> None:
        note(self.log, message)
        self.kept_soon()

    def bash_ended(self, log: Log) -> None:
        self.keeper.release(log)

    def kept_soon(self) -> None:
        """Something was written: see to it that it lasts."""
        self.keeper.soon()

    def write_failed(self, error: OSError, log: Log | None = None) -> None:
        """`log` is the session that was meant, if it is not the current one."""
        logger.warning("the session file cannot be written: %s", error)
        log = log or self.log
        self.mention(SessionWriteFailed(str(log.path), error.strerror or str(error), log.waiting))
        self.kept_soon()

    def _write_recovered(self, log: Log) -> None:
        self.mention(SessionWriteRecovered(str(log.path)))

    async def save(self, changes: dict[str, Any]) -> None:
        """Keep a choice of the client for next time, as real pi does."""
        file = self.around.settings_file
        kept = {name: value for name, value in changes.items() if name not in self._unsaved()}
        if file is None or not kept:
            return
        async with self._saving:
            try:
                await self.around.machine.in_thread(lambda: file.change(kept))
            except OSError as error:
                logger.warning("settings not saved: %s", error)

    async def abort(self) -> None:
        """Stop the run, compactions, commands of extensions and dialogs; return when they have stopped."""
        self.hearing.abort()
        self.hooks.abort()
        self.dialogs.cancel()
        await self.compactor.abort()
        await self.runs.abort()

    async def farewell(self, late: float = 0) -> None:
        """Tell extensions that this is the end, and let them go. They are not waited for long: less, if it is late."""
        self.dialogs.close()
        seconds = max(AT_LEAST, FAREWELL - late)
        try:
            async with asyncio.timeout(seconds):
                await self.hooks.tell("session_shutdown", {"reason": "quit"})
                await self.guests.end()
        except TimeoutError:
            logger.warning("extensions did not end within %.1f s", seconds)
        finally:
            self.guests.kill()

    def _unsaved(self) -> tuple[str, ...]:
        """Choices that are for this session only."""
        if not self.settings.save_models:
            return "defaultProvider", "defaultModel", "defaultThinkingLevel"
        # A level that a model leaves no choice about says nothing about the next.
        return ("defaultThinkingLevel",) if self.models.thoughtless and self.settings.thinking_returns else ()

    async def close(self) -> None:
        """Stop everything. Nothing of this session works on afterwards."""
        clock = asyncio.get_running_loop().time
        began = clock()
        self.runs.close()
        self.moves.close()
        self.shell.close()
        self.hooks.abort()
        self.dialogs.close()
        await self.moves.stop()
        await self.shell.ended()
        await self.keeper.now()
        await self.farewell(late=clock() - began)
        self.around.machine.kill_background()
        self.local.stop()
        await self.keeper.end()
        self.log.close()


def _never(failure: Failed) -> bool:
    return False

"""LiveSession: a session that is open in the host, with its stream, its clients and its keys."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from typing import Any

from tau.core.agent.draft import Update
from tau.core.conversation.interrupted import last_run
from tau.core.conversation.stats import session_counts
from tau.errors import TauError
from tau.records.base import UNSET, UnsetType, replace
from tau.records.dialogs import UiRequest
from tau.records.events import AgentSettled, AgentStart, CompactionEnd, CompactionStart, MessageEnd
from tau.records.host_events import DialogResolved, Interrupted, RunningBash, SessionChanged, Settled
from tau.records.messages import Assistant
from tau.runtime.app.factory import SessionFactory
from tau.runtime.clock import now
from tau.runtime.extensions.dialogs import asks_permission
from tau.serve.attachment import Attachment
from tau.serve.dialog_watch import DialogWatch
from tau.serve.event_stream import EventStream, Published
from tau.serve.garbage import CYCLES
from tau.serve.keys import Keys, stored_keys
from tau.serve.lent_tools import LentTools
from tau.serve.metrics import count_tokens
from tau.serve.opening import offered_tools
from tau.serve.session_view import Question

logger = logging.getLogger(__name__)
CLOSE_TIMEOUT_S = 2.0
KEPT_AFTER_RUN_S = 5 * 60.0
MAX_COUNTED_BYTES = 4 * 1024 * 1024
KEPT_AFTER_RUN = 256  # records that stay in the ring this long after a run


class LiveSession:
    """`changed` is called when the state that lists of sessions show may have changed."""

    def __init__(
        self, factory: SessionFactory, changed: Callable[[LiveSession], None], answer_timeout_s: float = 60
    ) -> None:
        self._changed: Callable[[LiveSession], None] = lambda live: None
        self.stream = EventStream()
        self.handle = factory.open(self.stream.publish, "rpc", saves=False, shared=True, front_end="serve")
        self.stream.on_event = self._published
        self.stream.name_session(self.id)
        self.stream.view.queue = self.handle.queues
        self.budget_limit = factory.options.budget
        self.offered_tools = offered_tools(factory.options, factory.settings)
        self.opened = now()
        self.cost = 0.0  # dollars, since it was opened
        self.tokens: Counter[str] = Counter()  # by type, since it was opened
        self.last_used = asyncio.get_running_loop().time()
        self.attachments: set[Attachment] = set()
        self.keys = Keys()
        self.run_keys: dict[int, str] = {}  # keys of accepted prompts, by their place in the order of all prompts
        self.dialogs = DialogWatch(self.handle.dialogs, self.stream.add, self._attended, answer_timeout_s)
        self.lent_tools = LentTools(lambda: self.handle.host_tools, answer_timeout_s)
        self.interrupted: Interrupted | None = None
        self.failure = ""  # why the extensions did not start: without them the session is not used
        self.ended = False  # it is being closed, or is closed
        self._bash: dict[object, RunningBash] = {}
        self._compacting = False
        self._trimming: asyncio.TimerHandle | None = None
        self._restore()
        self.handle.on_move(self._moved)
        self._starting = asyncio.create_task(self._start()) if self.handle.has_extensions else None
        self._changed = changed

    @property
    def cwd(self) -> str:
        return self.handle.cwd

    @property
    def id(self) -> str:
        return self.handle.log.id

    @property
    def starting(self) -> bool:
        """True while the extensions start."""
        return self._starting is not None

    @property
    def streaming(self) -> bool:
        return self.handle.runs.busy

    @property
    def attention(self) -> bool:
        """True if a dialog waits for an answer."""
        return bool(self.stream.view.dialogs)

    @property
    def total_cost(self) -> float | None:
        """Dollars, for all branches and since the session began. None for a session that is too long to be read."""
        tree = self.handle.tree
        return session_counts(tree).update(tree).cost if tree.size <= MAX_COUNTED_BYTES else None

    @property
    def idle(self) -> bool:
        """True if closing it would end nothing, and lose no message that waits."""
        view = self.stream.view
        waits = view.dialogs or view.queue.steering or view.queue.follow_up or self._bash
        return not (self.streaming or waits or self.starting or self._compacting)

    # Clients.

    def add(self, attachment: Attachment) -> None:
        self.attachments.add(attachment)
        self._clients_changed()

    def remove(self, attachment: Attachment) -> None:
        self.attachments.discard(attachment)
        self.dialogs.answered_by.discard(attachment.client)
        self._clients_changed()

    def _clients_changed(self) -> None:
        self.last_used = asyncio.get_running_loop().time()
        self.dialogs.clients_changed()
        self._changed(self)

    def _attended(self, question: Question) -> bool:
        known = self.dialogs.answered_by
        surely = asks_permission(question)
        return any(one.can_answer and (not surely or one.answers or one.client in known) for one in self.attachments)

    # Commands of clients.

    def running_bash(self) -> list[RunningBash]:
        return list(self._bash.values())

    def bash_began(self, token: object, command: str, id: Any) -> None:
        self._bash[token] = RunningBash(command, id)

    def bash_ended(self, token: object) -> None:
        self._bash.pop(token, None)
        self._changed(self)

    # Life cycle.

    async def close(self) -> None:
        """Close the session; its file stays. What runs is aborted."""
        self._changed = lambda live: None
        self.dialogs.close()
        if self._trimming is not None:
            self._trimming.cancel()
        if self._starting is not None:
            self._starting.cancel()
        try:
            await self.handle.close(CLOSE_TIMEOUT_S)
        finally:
            await self.handle.release()

    async def started(self) -> None:
        """Wait until the extensions have started, or failed to."""
        if self._starting is not None:
            await asyncio.wait([self._starting])

    async def _start(self) -> None:
        try:
            await self.handle.start()
        except TauError as error:
            self.failure = f"The session was not started: {error}"
            logger.warning("the extensions of session %s did not start: %s", self.id, error)
        except Exception as error:  # an extension may be a guard: a session without it must not run
            self.failure = f"The session was not started: {type(error).__name__}: {error}"
            logger.exception("the extensions of session %s did not start", self.id)
        finally:
            self._starting = None
            for attachment in [*self.attachments]:
                attachment.started()
            self._changed(self)

    def _restore(self) -> None:
        """Find out what a client may ask about that was here before: its keys, and the end of the last run."""
        key: str | UnsetType = UNSET
        for stored, accepted in stored_keys(self.handle.tree):
            self.keys.add(stored, accepted)
            key = stored.key
        found = last_run(self.handle.tree)
        if found is not None and found.ended:
            self.stream.view.settled = Settled(0, found.aborted, key)
        elif found is not None:
            self.interrupted = Interrupted(found.entry_id)

    # Events.

    def _moved(self, reason: str) -> None:
        path = self.handle.log.path
        file = UNSET if path is None else str(path)
        self.interrupted = None
        self.run_keys.clear()
        self.stream.add(SessionChanged(self.id, file, self.handle.tree.leaf_id, reason, self.cwd))
        self.stream.name_session(self.id)

    def _published(self, event: Published) -> None:
        if isinstance(event, Update):
            return
        if isinstance(event, MessageEnd):
            if isinstance(event.message, Assistant):
                self.cost += event.message.usage.cost.total
                count_tokens(self.tokens, event.message.usage)
            return
        if isinstance(event, CompactionStart | CompactionEnd):
            self._compacting = isinstance(event, CompactionStart)
            self._changed(self)
        elif isinstance(event, AgentSettled):
            self._compacting = False
            self._settled()
        elif isinstance(event, Question):
            self.dialogs.shown(event)
        if isinstance(event, AgentStart | AgentSettled | UiRequest | DialogResolved | SessionChanged):
            self._changed(self)

    def _settled(self) -> None:
        view, loop = self.stream.view, asyncio.get_running_loop()
        self.interrupted = None
        self.last_used = loop.time()
        key = self.run_keys.pop(self.handle.runs.settled, None)
        if key is not None and view.settled is not None:
            view.settled = replace(view.settled, key=key)
        if self._trimming is not None:
            self._trimming.cancel()
        self._trimming = loop.call_later(KEPT_AFTER_RUN_S, self.stream.shrink, KEPT_AFTER_RUN)
        loop.call_soon(self._changed, self)  # when the run queue knows that nothing is left
        loop.call_soon(CYCLES.settled)

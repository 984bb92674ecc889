"""Session switches, and navigation within a session.

Runs in progress are ended properly first and keep their partial turn. Commands that arrive meanwhile wait
(`wait_until_done`) and apply to the new session.

Extensions are asked before anything is ended, and may cancel the switch. They are notified when one session is left
and when the other one starts.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from weakref import ref

from tau.core.agent.queues import MessageQueues
from tau.core.conversation.branches import abandoned_entries
from tau.core.conversation.prompts import prompt_text
from tau.errors import Aborted, CommandError
from tau.records.base import UNSET, decode, encode, parse_stored, replace
from tau.records.entries import CustomMessageEntry
from tau.records.events import SessionDamaged
from tau.records.messages import Text
from tau.records.replies import Navigated, SessionRow
from tau.runtime.abort import run_to_end
from tau.runtime.extensions.hook_answers import SummaryGiven
from tau.runtime.extensions.hooks import Destination
from tau.runtime.extensions.registry import called_by_handler, calling_session
from tau.runtime.history.copies import clone, copy_branch, copy_whole, fork, fork_text
from tau.runtime.history.session_log import SessionLog
from tau.runtime.runs.compactor import BranchText
from tau.store.paths import agent_dir
from tau.store.sessions import OpenedSession, folder_for, is_blank, open_session

if TYPE_CHECKING:
    from tau.runtime.session.session import Move, Session

logger = logging.getLogger(__name__)
Reason = Literal["new", "resume", "fork"]
Shown = tuple[list[str], list[str]]  # the texts of both queues
CLOSED = "The session is closed: nothing more is done in it."


class Navigator:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._switching = asyncio.Lock()
        self._closed = False
        self.moved: Callable[[str], None] = lambda reason: None  # another session, or another place in it, is current

    def close(self) -> None:
        """Allow no more session switches: the log of the current session is about to be closed."""
        self._closed = True

    async def wait_until_done(self) -> None:
        """Wait for all session switches requested so far; for a command that has just arrived.

        A hook handler does not wait: the switch may be waiting for that handler, or for a run that waits for it. Its
        operations apply to the session that is open now.

        Taking the lock is necessary even if it is free: between two switches it is free for a moment, before the next
        one takes it. Raises CommandError if the session is closed, or if an extension made the call in another one.
        """
        if not called_by_handler():
            async with self._switching:
                pass
            self._check_open()
        self._check_caller()

    @property
    def switching(self) -> bool:
        return self._switching.locked()

    async def settled(self) -> None:
        """Wait for a session switch in progress; for a command that waited once already and then took a moment.

        Raises CommandError if the session is closed.
        """
        if self._switching.locked():
            await self.wait_until_done()
        self._check_open()

    def _check_open(self) -> None:
        """What is acknowledged after `close` might not reach the file any more, so nothing is."""
        if self._closed:
            raise CommandError(CLOSED)

    def _check_caller(self) -> None:
        """What an extension asks for in a session that was left meanwhile must not happen in the next one."""
        if (id := calling_session.get()) is not None and id != self._session.log.id:
            raise CommandError("The session in which this was called has been left.")

    async def stop_runs(self) -> None:
        """Abort runs and compactions."""
        with self._session.runs.blocked():
            await self._session.compactor.abort()
            while self._session.runs.busy:
                await self._session.runs.abort()

    # Session switches.

    def new_log(self, folder: Path | None, *, parent: str | None = None, id: str | None = None) -> SessionLog:
        session = self._session
        log = SessionLog.new(session.services.cwd, folder, session.write_failed, parent=parent, id=id)
        if session.models.current is not None:
            log.set_model(session.models.current)
        log.set_level(session.models.level)
        return log

    async def new_session(self, parent: str | None) -> bool:
        """Returns False if an extension cancelled it; the methods below do the same."""
        async with self._switching:
            if await self._session.hooks.cancelled("session_before_switch", {"reason": "new"}):
                return False
            await self._switch("new", lambda: self.new_log(self._session.log.folder, parent=parent))
            return True

    async def open_file(self, path: Path, cwd: str | None = None) -> bool:
        """Open a session file, or start a new session at an unused path.

        It runs in the folder that the file names, or in `cwd`.
        """
        session = self._session
        async with self._switching:
            if session.log.path is not None and os.path.realpath(session.log.path) == os.path.realpath(path):
                return True
            switch = {"reason": "resume", "targetSessionFile": str(path)}
            if await session.hooks.cancelled("session_before_switch", switch):
                return False
            log, exists = await self._log_for(path)
            try:
                move = None
                if exists:
                    move = await session.services.machine.in_thread(lambda: session.relocate(session, log, cwd))
                await self._switch("resume", lambda: log, restore=exists, move=move)
            finally:
                if session.log is not log:
                    await session.sync.sync_and_close(log, in_use=session.user_bash.runs_in(log))
            return True

    async def open_copy(self, path: Path) -> bool:
        """Continue in a copy of a session, also of one that another process has open."""
        session = self._session
        async with self._switching:
            switch = {"reason": "resume", "targetSessionFile": str(path)}
            if await session.hooks.cancelled("session_before_switch", switch):
                return False
            found = await session.services.machine.in_thread(lambda: open_session(path))
            original = SessionLog(found.header, path, session.write_failed, found.tree)
            services = session.services
            await self._switch("fork", lambda: copy_whole(original, services.cwd, services.sessions), restore=True)
            return True

    async def _log_for(self, path: Path) -> tuple[SessionLog, bool]:
        """Return the session at a path, and True if it existed. Raises CommandError if another process holds it."""
        session = self._session
        if (held := session.sync.take_back(path)) is not None:  # it was left, but a command still runs in it
            held.file.trouble = session.write_failed
            return held, True
        found = await session.services.machine.in_thread(lambda: _found_at(path))
        # Lock it before anything is ended: another process may have it open.
        return (SessionLog.resumed(found, session.write_failed), True) if found else (self._log_at(path), False)

    def _log_at(self, path: Path) -> SessionLog:
        return self.new_log(path.parent).begin_at(path)

    async def fork(self, entry_id: str) -> tuple[str, bool]:
        """Continue before a user message in a new session. Returns the text of that message, and True unless
        cancelled.
        """
        async with self._switching:
            text = fork_text(self._session.log, entry_id)  # raises before anything is ended
            point = {"entryId": entry_id, "position": "before"}
            if await self._session.hooks.cancelled("session_before_fork", point):
                return text, False
            await self._switch("fork", lambda: fork(self._session.log, entry_id))
            return text, True

    async def fork_at(self, entry_id: str) -> bool:
        """Continue after an entry in a new session. False if cancelled; raises CommandError if there is no entry."""
        async with self._switching:
            tree = self._session.log.tree
            at = tree.find(entry_id)
            if at is None:
                raise CommandError("Invalid entry ID for forking")
            if await self._session.hooks.cancelled("session_before_fork", {"entryId": entry_id, "position": "at"}):
                return False
            await self._switch("fork", lambda: copy_branch(self._session.log, tree.path(at)))
            return True

    async def clone(self) -> bool:
        async with self._switching:
            point = {"entryId": self._session.log.tree.leaf_id, "position": "at"}
            if await self._session.hooks.cancelled("session_before_fork", point):
                return False
            await self._switch("fork", lambda: clone(self._session.log))
            return True

    async def _switch(
        self, reason: Reason, log: Callable[[], SessionLog], *, restore: bool = False, move: Move | None = None
    ) -> None:
        session = self._session
        with session.runs.blocked():
            left, dropped = await self._leave(reason, log)
            if move is not None:
                move.apply()
        self.moved(reason)
        self.restore_state(restore=restore)
        this = ref(left)  # a log's file closes with the last reference to it, so avoid a cycle
        left.file.trouble = lambda error: session.write_failed(error, this())
        session.extension_lifecycle.send_facts()
        await run_to_end(self._announce_switch(reason, left, dropped, move))

    async def _announce_switch(self, reason: Reason, left: SessionLog, dropped: Shown, move: Move | None) -> None:
        """Close the session that was left, and notify the client and the extensions."""
        session = self._session
        await session.sync.sync_and_close(left, in_use=session.user_bash.runs_in(left))
        if dropped != _shown(session.queues):
            await session.emit_queue_update()
        if move is not None:
            await move.finish()
        previous = {} if left.path is None else {"previousSessionFile": str(left.path)}
        await session.extension_lifecycle.renew(reason, previous, moved=move is not None)

    async def _leave(self, reason: Reason, log: Callable[[], SessionLog]) -> tuple[SessionLog, Shown]:
        """End runs, then replace the log. Returns the log that was left, and the queued messages that were dropped."""
        session = self._session
        await self.stop_runs()
        session.dialogs.cancel()
        await session.hooks.tell("session_shutdown", {"reason": reason})
        if self._closed:
            raise CommandError("The session is being closed, so it cannot be left for another.")
        session.user_bash.flush()
        self._write_all()
        session.services.machine.kill_background()
        try:
            target = log()
        except BaseException:
            for queue, message in session.queues:  # the session stays, so its queued messages stay too
                session.log.pending_queue.record(queue, message)
            session.schedule_sync()
            raise
        dropped = _shown(session.queues)  # only now: a message may have been queued while the run ended
        session.queues.clear()
        session.tool_runner.reset()
        session.tool_runner.forget_selection()
        left, session.log = session.log, target
        return left, dropped

    def _write_all(self) -> None:
        """Write everything of the session being left to its file. Raises CommandError if that fails.

        This includes a note that its queued messages are dropped: otherwise they would reappear when the session is
        reopened.
        """
        log = self._session.log
        try:
            log.flush()
            if len(self._session.queues):
                log.pending_queue.clear_on_leave()
        except OSError as error:
            raise CommandError(
                f"The session file {log.path} cannot be written: {error.strerror or error}. "
                f"{max(1, log.unwritten)} entries wait for that, so the session cannot be left now."
            ) from None

    def restore(self, *, starting: bool) -> None:
        """Select the model and the thinking level of the session that was opened.

        At program start the command line wins: a named model over the session's model, a named level over its level.
        A named level is recorded in the session before the next prompt.
        """
        models, log = self._session.models, self._session.log
        keep_model = models.fixed and (starting or self._session.settings.compat.keep_named_model)
        keep_level = models.fixed_level and starting
        level = None if keep_level else log.last_level()
        if starting and level is None:
            level = models.start_level  # not models.level: the model to start with may not have it, and this one may
        models.restore(None if keep_model else log.last_model(), level)
        if keep_level and log.last_level() != models.level:
            log.lacks_level = True

    def restore_state(self, *, restore: bool, starting: bool = False) -> None:
        """Restore the state of a session as it was left: model and level (if `restore`), queued messages, bash
        results.
        """
        session = self._session
        if restore:
            self.restore(starting=starting)
        for queue, message in session.log.pending_queue.restore():
            session.queues.add(queue, message)
        session.user_bash.restore(session.log.pending_bash.undelivered())
        self.report_damage()

    def report_damage(self) -> None:
        log = self._session.log
        if problems := log.problems.take():
            self._session.emit_nowait(SessionDamaged(str(log.path), problems))

    async def sessions(self, everywhere: bool) -> list[SessionRow]:
        """List the sessions of this project, or of all projects, newest first."""
        services = self._session.services
        folder = services.sessions
        if folder is None:
            return []

        def listed() -> list[SessionRow]:
            from tau.store.listing import all_session_rows, session_rows

            if not everywhere:
                return session_rows(folder, services.cwd)
            # A session folder that the user has chosen contains the sessions of every project itself.
            usual = folder_for(services.cwd, services.agent_dir or agent_dir())
            return all_session_rows(folder.parent) if folder == usual else session_rows(folder, None)

        return await services.machine.in_thread(listed)

    # Navigation within the session.

    def _destination(self, entry_id: str) -> tuple[int, str | None]:
        """Return the new leaf for an entry, and the text to edit if the entry is a message to send again."""
        tree = self._session.log.tree
        at = tree.find(entry_id)
        if at is None:
            raise CommandError(f"Entry not found: {entry_id}")
        entry = tree.entry(at)
        text = prompt_text(entry)
        if isinstance(entry, CustomMessageEntry):
            content = entry.content
            text = content if isinstance(content, str) else "".join(b.text for b in content if isinstance(b, Text))
        return (at, None) if text is None else (tree.parent(at), text)

    async def navigate(self, wanted: Destination) -> Navigated:
        """Continue from another entry; `cancelled` if an extension cancels it or its summary is aborted.

        A label is set on the summary if there is one, else on the entry itself.
        """
        session, entry_id = self._session, wanted.entry_id
        async with self._switching:
            self._check_open()
            at, text = self._destination(entry_id)
            try:
                wanted, given = await self._ask_extensions(wanted, at)
            except Aborted:
                return Navigated(cancelled=True, leaf_id=session.log.tree.leaf_id)
            if wanted.summarize and given is None:
                session.models.ready()  # raises before anything is stopped
            await self.stop_runs()
            self._check_open()  # before a summary is asked for
            session.user_bash.flush()
            summary = given
            if wanted.summarize and given is None:
                summary = await self._summary(at, wanted)
                if summary is None:
                    return Navigated(cancelled=True, leaf_id=session.log.tree.leaf_id)
            self._check_open()
            left = session.log.tree.leaf_id
            if summary is None:
                session.log.move_leaf(at)
            else:
                hooked = given is not None
                session.log.move_leaf(at, summary.summary, summary.details, from_hook=hooked, usage=summary.usage)
            moved = {"newLeafId": session.log.tree.leaf_id, "oldLeafId": left, "fromExtension": given is not None}
            if summary is not None:
                moved["summaryEntry"] = parse_stored(session.log.tree.line(session.log.tree.leaf))
            if wanted.label is not None:
                session.log.label(entry_id if summary is None else session.log.tree.leaf_id or entry_id, wanted.label)
            session.schedule_sync()
            self.moved("navigate")
            await session.hooks.tell("session_tree", moved)
            return Navigated(editor_text=UNSET if text is None else text, leaf_id=session.log.tree.leaf_id)

    async def _ask_extensions(self, wanted: Destination, at: int) -> tuple[Destination, BranchText | None]:
        """Return the destination as changed by extensions, and a summary one of them provides. Raises Aborted if
        cancelled.
        """
        hooks, tree = self._session.hooks, self._session.log.tree
        if not hooks.extensions.wants("session_before_tree"):
            return wanted, None
        said = await hooks.before_tree(wanted, tree, at)
        if said.get("cancel"):
            raise Aborted
        wanted = replace(
            wanted,
            instructions=said.get("customInstructions", wanted.instructions),
            replace=said.get("replaceInstructions", wanted.replace),
            label=said.get("label", wanted.label),
        )
        if not wanted.summarize or said.get("summary") is None:
            return wanted, None
        given = decode(SummaryGiven, encode(said["summary"]))
        return wanted, BranchText(given.summary, given.details, given.usage)

    async def _summary(self, at: int, wanted: Destination) -> BranchText | None:
        tree = self._session.log.tree
        async with self._session.compactor.alone() as switch:
            try:
                left = abandoned_entries(tree, tree.leaf, at, tree.dropped)
                summary = self._session.compactor.branch_summary
                return await summary(left, switch, wanted.instructions, replace=wanted.replace)
            except Aborted:
                return None


def _shown(queues: MessageQueues) -> Shown:
    """The texts of both queues, as clients see them."""
    return queues.texts("steer"), queues.texts("follow_up")


def _found_at(path: Path) -> OpenedSession | None:
    """Return the session at `path`; None if the path is unused but usable, or its file is empty."""
    try:
        os.lstat(path)
        return None if is_blank(path) else open_session(path)
    except FileNotFoundError:
        pass
    except OSError as error:  # for example a name that is too long
        raise CommandError(f"Cannot open session {path}: {error.strerror}") from None
    if not os.path.isdir(path.parent):
        raise CommandError(f"Cannot begin a session at {path}: there is no folder {path.parent}.")
    return None

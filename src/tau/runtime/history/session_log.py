"""What was said and set in one session, in order: the tree of entries, the conversation, the file.

An entry is written before anybody is told of it. A write that fails is told at
once, and the entry waits for room in its place; only a prompt is refused then,
since accepting it would be a promise.

The file begins with the first prompt, or the first message that is queued: what
came before it is written with it. One that is deleted under us is written anew.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from errno import EBADF
from itertools import chain, groupby
from pathlib import Path
from typing import Any

from tau.core.agent.queues import Queue
from tau.core.conversation.tree import Tree, message_of, prompt_text, summary_of
from tau.errors import CommandError
from tau.records.base import (
    UNSET,
    BadRecord,
    Spliced,
    UnsetType,
    decode,
    encode,
    one_line,
    parse_stored,
    wire,
)
from tau.records.entries import (
    BranchSummaryEntry,
    CompactionEntry,
    ContextEdit,
    CustomEntry,
    CustomMessageEntry,
    Header,
    Label,
    MessageEntry,
    ModelChange,
    SessionInfo,
    ThinkingLevelChange,
)
from tau.records.lines import Outline
from tau.records.lines import messages as messages_of
from tau.records.messages import Assistant, Custom, Stored, Usage, User, read_message
from tau.records.models import Model, ThinkingLevel
from tau.runtime.history.conversation import Conversation
from tau.runtime.history.pending_queue import CLEARED, QUEUED, Kept, Queued, same_as, undelivered
from tau.store.files import make_folder
from tau.store.journal import DISK, Disk, Journal
from tau.store.sessions import Opened, file_name

SMALL = 4096
PORTION = 512 * 1024
Trouble = Callable[[OSError], None]


class SessionLog:
    """`folder` is where the file goes; None keeps the session in memory. `trouble` hears of writes that failed.

    `disk` is what the file is written by; copies of this log are written by it too.
    """

    def __init__(
        self, header: Header, folder: Path | None, trouble: Trouble, tree: Tree | None = None, disk: Disk = DISK
    ) -> None:
        self.header = header
        self.folder = folder
        self.tree = tree or Tree()
        self.path = folder / file_name(header) if folder is not None else None
        self.problems: list[str] = []
        self.lacks_level = False  # the level is written before the next prompt: the file has none, or another
        self.write_failing = False  # a write failed, and not all is well yet
        self.trouble = trouble
        self._disk = disk
        self._begun = False  # whether there is a file, or should be one
        self._closed = False  # nothing is written any more
        self._journal: Journal | None = None
        self._messages: Conversation | None = None if tree else Conversation(self.tree)
        self._told_ahead: list[User] = []
        self._unsaid: list[Queued] = []  # of what was queued, wherever it is by now
        self._problems_told = 0

    @classmethod
    def new(
        cls,
        cwd: str,
        folder: Path | None,
        trouble: Trouble,
        *,
        parent: str | None = None,
        id: str | None = None,
        disk: Disk = DISK,
    ) -> SessionLog:
        made = session_id() if id is None else id
        header = Header(id=made, timestamp=iso(), cwd=cwd, parent_session=UNSET if parent is None else parent)
        return cls(header, folder, trouble, disk=disk)

    @classmethod
    def resumed(cls, opened: Opened, trouble: Trouble, disk: Disk = DISK) -> SessionLog:
        """Go on with a session that was read. Raises CommandError if it cannot be had."""
        log = cls(opened.header, opened.path.parent, trouble, opened.tree, disk)
        log.path = opened.path
        log.problems = opened.problems
        log.lacks_level = log.last_level() is None
        log._journal, log._begun = Journal(opened.path, disk), True
        try:
            if opened.lifted is None:
                log._journal.resume(opened.size)
            else:
                log._journal.lift(opened.lifted, opened.size)
        except OSError as error:
            raise CommandError(f"Session {opened.path} cannot be written: {error.strerror}") from None
        return log

    # What was said.

    @property
    def id(self) -> str:
        return self.header.id

    @property
    def messages(self) -> Conversation:
        """The conversation on the current branch."""
        if self._messages is None:
            summary, entries = self.tree.seen()
            self._messages = Conversation(self.tree, summary, entries, self._problem)
        return self._messages

    @property
    def message_count(self) -> int:
        if self._messages is not None:
            return len(self._messages)
        return self.tree.seen_count()

    def messages_json(self) -> Spliced:
        """The conversation as it is sent, byte for byte as it was read; its portions are made when they are sent."""
        summary, entries = self.tree.seen()
        if self._messages is not None and (unreadable := self._messages.unreadable):
            entries = [at for at in entries if at not in unreadable]
        return Spliced(self._portions(summary, entries), self.tree.size)

    def _portions(self, summary: CompactionEntry | None, entries: list[int]) -> Iterator[bytes]:
        if summary is not None:
            yield wire(summary_of(summary))
        for kind, ats in groupby(entries, self.tree.kind):
            if kind == "message":
                for block, given in self.tree.message_blocks(list(ats), PORTION, messages_of):
                    if given := self._each(block) if given is None else given:
                        yield one_line(b",".join(given))
            else:
                yield from (wire(other) for at in ats if (other := message_of(self.tree.entry(at))) is not None)

    def _each(self, block: Iterable[int]) -> list[bytes]:
        """The messages of a block in which not all is well, without those that are none."""
        found = []
        for at in block:
            with suppress(BadRecord):
                found.append(wire(read_message(self.tree.message_json(at))))
        return found

    def append_prompt(self, message: User) -> None:
        """A prompt, before the client is told that it was accepted. Raises CommandError if it cannot be kept."""
        conversation = self.messages  # read, if need be, before the entry is in it
        entry = self._entry(MessageEntry, message)
        if self.path is not None:
            try:
                self._write(wire(entry), or_fail=True)
            except OSError as error:
                raise self._unwritable(error) from None
        self._grow(entry)
        conversation.append(message)
        self._told_ahead.append(message)

    def append_message(self, message: Stored) -> None:
        """A message that is being announced; one that was accepted is here already."""
        if any(message is one for one in self._told_ahead):
            self._told_ahead = [one for one in self._told_ahead if one is not message]
            return
        if isinstance(message, User | Custom) and self._unsaid:
            said = next((one for one in self._unsaid if same_as(one.message) == same_as(message)), None)
            self._unsaid = [one for one in self._unsaid if one is not said]
        conversation = self.messages
        if isinstance(message, Custom):
            self._add(CustomMessageEntry, message.custom_type, message.content, message.display, message.details)
        else:
            self._add(MessageEntry, message)
        conversation.append(message)

    def append_custom(self, custom_type: str, data: Any) -> None:
        """State of an extension, which the model never sees."""
        self._add(CustomEntry, custom_type, data)

    def drop_last_answer(self) -> None:
        """Leave the last answer, which failed and is asked for again, out of the conversation. Its entry stays.

        Written as an entry, as pi does: it holds for every later reader of the file, and on this branch only.
        """
        if (at := self.tree.last_answer()) is not None:
            self._add(ContextEdit, self.tree.id(at), None)
            self._messages = None

    def _problem(self, text: str) -> None:
        if text not in self.problems:  # a conversation that is built again finds the same
            self.problems.append(text)

    def take_problems(self) -> list[str]:
        """What is wrong with the file and was not told yet: some is found only when messages are read."""
        found, self._problems_told = self.problems[self._problems_told :], len(self.problems)
        return found

    # What was set.

    def set_model(self, model: Model) -> None:
        self._add(ModelChange, model.provider, model.id)

    def set_level(self, level: ThinkingLevel) -> None:
        self.lacks_level = False
        self._add(ThinkingLevelChange, level)

    def set_name(self, name: str) -> None:
        self._add(SessionInfo, name)

    def label(self, target: str, label: str | None) -> None:
        self._add(Label, target, label)

    def compact(
        self,
        summary: str,
        first_kept: str,
        tokens_before: int,
        details: Any,
        *,
        from_hook: bool = False,
        usage: Usage | UnsetType = UNSET,
    ) -> None:
        self._add(CompactionEntry, summary, first_kept, tokens_before, details, from_hook, usage)
        self._messages = None

    def move_leaf(
        self,
        at: int,
        summary: str | None = None,
        details: Any = UNSET,
        *,
        from_hook: bool = False,
        usage: Usage | UnsetType = UNSET,
    ) -> None:
        """Go on from another entry; a summary of what is left behind may go with it."""
        left = self.tree.leaf_id
        self.tree.leaf = at
        if summary is not None:
            self._add(BranchSummaryEntry, left or "root", summary, details, from_hook, usage)
        self._messages = None

    # What waits to be said is kept too: an acknowledged message survives the process.

    def record_queued(self, queue: Queue, message: User | Custom) -> None:
        self._begun = self.path is not None
        self._unsaid.append(Queued(queue, message))
        self._add(CustomEntry, QUEUED, self._unsaid[-1])

    def record_cleared(self, dropped: Sequence[User | Custom]) -> None:
        """`dropped` will not be said. Other messages, which were taken from a queue or accepted, still will."""
        self._unsaid = [one for one in self._unsaid if not any(one.message is other for other in dropped)]
        self._add(CustomEntry, CLEARED, *([Kept(self._unsaid)] if self._unsaid else []))

    def record_queues_left(self) -> None:
        """The same, when the session is left: there is no later at which it could be written. Raises OSError."""
        entry = self._entry(CustomEntry, CLEARED)
        if self._begun:
            self._write(wire(entry), or_fail=True)
        self._grow(entry)

    def restore_queues(self) -> list[tuple[Queue, User | Custom]]:
        """What waits to be said, when the session is gone on with."""
        waiting = self.undelivered()
        self._unsaid = [Queued(queue, message) for queue, message in waiting]
        return waiting

    def undelivered(self) -> list[tuple[Queue, User | Custom]]:
        return undelivered(self.tree)

    # What it was when it was left.

    def last_model(self) -> tuple[str, str] | None:
        """Provider and id of the model that was on: set last, or the last that answered."""
        for at in self.tree.last_on_branch("model_change", "message"):
            if self.tree.kind(at) == "model_change" or b'"assistant"' in self.tree.line(at):
                entry = self.tree.entry(at)
                if isinstance(entry, ModelChange):
                    return entry.provider, entry.model_id
                if isinstance(entry, MessageEntry) and isinstance(entry.message, Assistant):
                    return entry.message.provider, entry.message.model
        return None

    def last_level(self) -> ThinkingLevel | None:
        for at in self.tree.last_on_branch("thinking_level_change"):
            entry = self.tree.entry(at)
            if isinstance(entry, ThinkingLevelChange):
                return entry.thinking_level
        return None

    # Copies.

    def fork_text(self, entry_id: str) -> str:
        """The text of the user's message that a fork shall begin before."""
        return self._fork_point(entry_id)[1]

    def forked(self, entry_id: str) -> SessionLog:
        """A new log with everything before a user's message."""
        return self.copy(self.tree.path(self.tree.parent(self._fork_point(entry_id)[0])))

    def _fork_point(self, entry_id: str) -> tuple[int, str]:
        at = self.tree.find(entry_id)
        text = prompt_text(self.tree.entry(at)) if at is not None else None
        if at is None or text is None:
            raise CommandError("Invalid entry ID for forking")
        return at, text

    def cloned(self) -> SessionLog:
        return self.copy(self.tree.branch)

    def copy(self, branch: Sequence[int], cwd: str | None = None, folder: Path | None = None) -> SessionLog:
        """A new session with these entries. Raises CommandError if it cannot be written.

        Labels go to the end; what hung on one hangs on its parent. What waits to be said is not said twice.
        """
        parent = str(self.path) if self.path is not None else None
        made = SessionLog.new(
            cwd or self.header.cwd, folder or self.folder, self.trouble, parent=parent, disk=self._disk
        )
        whole = self.tree.beginning(branch)
        if whole is not None and not whole.of_kind("label"):
            made.tree = whole
        else:
            self._copy_entries(branch, made)
        if made.undelivered():
            made.record_cleared(())
        made._messages = None
        if made.path is not None and made.tree.of_kind("message"):
            try:
                made._create(made.tree.all_lines())
            except OSError as error:
                raise made._unwritable(error) from None
        return made

    def _copy_entries(self, branch: Sequence[int], made: SessionLog) -> None:
        labels: list[Label] = []
        kept: set[str] = set()
        for at in branch:
            line = self.tree.line(at)
            if self.tree.kind(at) == "label" and isinstance(label := self.tree.entry(at), Label):
                labels.append(label)
                continue
            outline = decode(Outline, line, nesting=None)
            assert isinstance(outline.id, str)  # entries without one are not in a tree
            if outline.parent_id != made.tree.leaf_id:
                line = encode({**parse_stored(line), "parentId": made.tree.leaf_id})
            made.tree.add(line, outline.id, self.tree.kind(at))
            kept.add(outline.id)
        for label in labels:
            if label.target_id in kept:
                made._add(Label, label.target_id, label.label)

    def whole_copy(self, cwd: str, folder: Path | None) -> SessionLog:
        """A new session with every entry of this one, branches and all. Raises CommandError if it cannot be written."""
        parent = str(self.path) if self.path is not None else None
        made = SessionLog.new(cwd, folder, self.trouble, parent=parent, disk=self._disk)
        made.tree, made._messages = self.tree, None
        if made.undelivered():
            made.record_cleared(())
        if made.path is not None and len(made.tree):
            try:
                made._create(made.tree.all_lines())
            except OSError as error:
                raise made._unwritable(error) from None
        return made

    # The file.

    @property
    def unwritten(self) -> int:
        """How many entries could not be written yet."""
        if self._journal is not None:
            return self._journal.waiting
        return len(self.tree) if self._begun else 0

    @property
    def unsynced(self) -> bool:
        """Whether something would not survive a power failure."""
        return self.unwritten > 0 or (self._journal is not None and self._journal.unsynced)

    def flush(self) -> None:
        """Write what waits. Raises OSError."""
        if self._closed:
            return
        if self._journal is not None:
            try:
                self._journal.flush()
            except FileNotFoundError:
                self._leave_deleted()
        if self._journal is None and self._begun:
            self._create(self.tree.all_lines())

    def syncing(self) -> Callable[[], None] | None:
        """Blocking work that makes what was written last; None if there is none."""
        return self._journal.syncing() if self._journal is not None else None

    def close(self) -> None:
        """Write nothing more. What is said from here on is in memory only, and a prompt is refused."""
        self._closed = True
        if self._journal is not None:
            self._journal.close()

    def _entry(self, kind: Any, *values: Any) -> Any:
        return kind(self._new_id(), self.tree.leaf_id, iso(), *values)

    def _add(self, kind: Any, *values: Any) -> None:
        entry = self._entry(kind, *values)
        try:
            if self._begun and not self._closed:
                self._write(wire(entry))
        except OSError as error:  # not kept in a variable, which would keep this frame, and with it the error
            self._grow(entry)
            self.write_failing = True
            self.trouble(error)
        else:
            self._grow(entry)

    def _grow(self, entry: Any) -> None:
        self.tree.add(wire(entry), entry.id, str(entry.__struct_config__.tag))

    def _write(self, line: bytes, *, or_fail: bool = False) -> None:
        """One entry more in the file. On OSError it waits to be written, unless it is to be written now or never."""
        if self._closed:
            raise OSError(EBADF, "the session is closed")
        if self._journal is not None:
            try:
                (self._journal.append_or_fail if or_fail else self._journal.append)(line)
                return
            except FileNotFoundError:
                self._leave_deleted()
        self._create(chain(self.tree.all_lines(), [line]))

    def _leave_deleted(self) -> None:
        """The file was deleted under us. There will be another, with everything in it."""
        assert self._journal is not None
        self._journal.close()
        self._journal = None

    def _create(self, lines: Iterable[bytes]) -> None:
        assert self.path is not None
        make_folder(self.path.parent)
        journal = Journal(self.path, self._disk)
        journal.create(chain([wire(self.header)], lines))
        self._journal, self._begun = journal, True

    def _unwritable(self, error: OSError) -> CommandError:
        return CommandError(f"The session file {self.path} cannot be written: {error.strerror or error}")

    def _new_id(self) -> str:
        if len(self.tree) > SMALL:  # long enough not to need a look at a million others
            return os.urandom(8).hex()
        while (id := os.urandom(4).hex()) in self.tree:
            pass
        return id


def now() -> int:
    return time.time_ns() // 1_000_000


def iso() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def session_id() -> str:
    """A UUID of version 7, so that ids sort by time."""
    digits = f"{now():012x}" + os.urandom(10).hex()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-7{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:32]}"

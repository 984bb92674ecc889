"""The log of one session: the tree of its entries, the conversation, and the append-only file.

An entry is written before it is announced. A failed write is reported at once, and the entry keeps its place and is
written later, when there is room; only a prompt is refused in this case, since accepting it would be a promise.

The file is created with the first prompt or the first queued message; earlier entries are written with it. If the
file is deleted while the session is open, it is written again in full.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from errno import EBADF
from functools import partial
from itertools import chain, groupby
from pathlib import Path
from typing import Any

from tau.core.agent.queues import QueueName
from tau.core.conversation.tree import Tree, message_of, prompt_text, summary_of
from tau.errors import CommandError
from tau.records.base import (
    UNSET,
    BadRecord,
    SplicedList,
    UnsetType,
    decode,
    encode,
    escape_separators,
    parse_stored,
    wire_json,
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
from tau.records.lines import raw_messages as messages_of
from tau.records.messages import Assistant, Custom, StoredMessage, Usage, User, read_message
from tau.records.models import Model, ThinkingLevel
from tau.runtime.history.conversation import Conversation
from tau.runtime.history.pending_queue import CLEARED, QUEUED, Kept, Queued, same_as, undelivered
from tau.store.files import make_folder
from tau.store.journal import DISK, Disk, Journal
from tau.store.sessions import OpenedSession, file_name

SMALL = 4096
PORTION = 512 * 1024
Trouble = Callable[[OSError], None]


class SessionLog:
    """`folder` is the folder of the file; None keeps the session in memory. `trouble` is called when a write fails.

    `disk` performs the writes of this log and of its copies.
    """

    def __init__(
        self, header: Header, folder: Path | None, trouble: Trouble, tree: Tree | None = None, disk: Disk = DISK
    ) -> None:
        self.header = header
        self.folder = folder
        self.tree = tree or Tree()
        self.path = folder / file_name(header) if folder is not None else None
        self.problems: list[str] = []
        self.lacks_level = False  # the file has no thinking level, or another one: write it before the next prompt
        self.write_failing = False  # a write failed, and not everything is on disk yet
        self.trouble = trouble
        self._disk = disk
        self._begun = False  # True if there is a file, or should be one
        self._closed = False  # True: nothing is written any more
        self._journal: Journal | None = None
        self._messages: Conversation | None = None if tree else Conversation(self.tree)
        self._told_ahead: list[User] = []
        self._unsaid: list[Queued] = []  # queued messages not yet delivered
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
    def resumed(cls, opened: OpenedSession, trouble: Trouble, disk: Disk = DISK) -> SessionLog:
        """Continue a session that was read from its file. Raises CommandError if the file cannot be written."""
        log = cls(opened.header, opened.path.parent, trouble, opened.tree, disk)
        log.path = opened.path
        log.problems = opened.problems
        log.lacks_level = log.last_level() is None
        log._journal, log._begun = Journal(opened.path, disk), True
        try:
            if opened.migrated_lines is None:
                log._journal.resume(opened.size)
            else:
                log._journal.resume_migrated(opened.migrated_lines, opened.size)
        except OSError as error:
            raise CommandError(f"Session {opened.path} cannot be written: {error.strerror}") from None
        return log

    # Messages.

    @property
    def id(self) -> str:
        return self.header.id

    @property
    def messages(self) -> Conversation:
        """The conversation on the current branch."""
        if self._messages is None:
            summary, entries = self.tree.seen()
            self._messages = Conversation(self.tree, summary, entries, partial(_add_once, self.problems))
        return self._messages

    @property
    def message_count(self) -> int:
        if self._messages is not None:
            return len(self._messages)
        return self.tree.seen_count()

    def messages_json(self) -> SplicedList:
        """Return the conversation as JSON, byte for byte as it was read; its parts are made when they are sent."""
        summary, entries = self.tree.seen()
        if self._messages is not None and (unreadable := self._messages.unreadable):
            entries = [at for at in entries if at not in unreadable]
        return SplicedList(self._portions(summary, entries), self.tree.size)

    def _portions(self, summary: CompactionEntry | None, entries: list[int]) -> Iterator[bytes]:
        if summary is not None:
            yield wire_json(summary_of(summary))
        for kind, ats in groupby(entries, self.tree.kind):
            if kind == "message":
                for block, given in self.tree.message_blocks(list(ats), PORTION, messages_of):
                    if given := self._each(block) if given is None else given:
                        yield escape_separators(b",".join(given))
            else:
                yield from (wire_json(other) for at in ats if (other := message_of(self.tree.entry(at))) is not None)

    def _each(self, block: Iterable[int]) -> list[bytes]:
        """Return the messages of a block that contains bad ones, without those that cannot be read."""
        found = []
        for at in block:
            with suppress(BadRecord):
                found.append(wire_json(read_message(self.tree.message_json(at))))
        return found

    def append_prompt(self, message: User) -> None:
        """Add a prompt before its acceptance is announced. Raises CommandError if it cannot be written."""
        conversation = self.messages  # built, if necessary, before the tree contains the entry
        entry = self._entry(MessageEntry, message)
        if self.path is not None:
            try:
                self._write(wire_json(entry), or_fail=True)
            except OSError as error:
                raise self._unwritable(error) from None
        self._grow(entry)
        conversation.append(message)
        self._told_ahead.append(message)

    def append_message(self, message: StoredMessage) -> None:
        """Add a message that is being announced. A prompt was added by `append_prompt` and is not added again."""
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
        """Add state of an extension, which the model never sees."""
        self.require_open()
        self._add(CustomEntry, custom_type, data)

    def drop_last_answer(self) -> None:
        """Remove the last answer, which failed and is requested again, from the conversation. Its entry stays.

        The removal is written as an entry, as pi does: it applies to every later reader of the file, on this
        branch only.
        """
        if (at := self.tree.last_answer()) is not None:
            self._add(ContextEdit, self.tree.id(at), None)
            self._messages = None

    def take_problems(self) -> list[str]:
        """Return the problems of the file not reported yet: some are found only when messages are read."""
        found, self._problems_told = self.problems[self._problems_told :], len(self.problems)
        return found

    # Settings, labels, compactions and branches.

    def require_open(self) -> None:
        """Raise CommandError if the log is closed: what is acknowledged now would not be in the file."""
        if self._closed:
            raise CommandError("The session is closed: nothing more is recorded in it.")

    def set_model(self, model: Model) -> None:
        self._add(ModelChange, model.provider, model.id)

    def set_level(self, level: ThinkingLevel) -> None:
        self.lacks_level = False
        self._add(ThinkingLevelChange, level)

    def set_name(self, name: str) -> None:
        self.require_open()
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
        """Continue from another entry, optionally with a summary of the branch that is left."""
        left = self.tree.leaf_id
        self.tree.leaf = at
        if summary is not None:
            self._add(BranchSummaryEntry, left or "root", summary, details, from_hook, usage)
        self._messages = None

    # Queued messages are written too: an acknowledged message survives the process.

    def record_queued(self, queue: QueueName, message: User | Custom) -> None:
        self._begun = self.path is not None
        self._unsaid.append(Queued(queue, message))
        self._add(CustomEntry, QUEUED, self._unsaid[-1])

    def record_cleared(self, dropped: Sequence[User | Custom]) -> None:
        """Record that `dropped` will not be delivered. Messages taken from a queue or accepted still will be."""
        self._unsaid = [one for one in self._unsaid if not any(one.message is other for other in dropped)]
        self._add(CustomEntry, CLEARED, *([Kept(self._unsaid)] if self._unsaid else []))

    def record_queues_left(self) -> None:
        """Record cleared queues when the session is left: the write cannot be retried later, so it raises OSError."""
        entry = self._entry(CustomEntry, CLEARED)
        if self._begun:
            self._write(wire_json(entry), or_fail=True)
        self._grow(entry)

    def restore_queues(self) -> list[tuple[QueueName, User | Custom]]:
        """Return the undelivered messages of a session that is resumed, and track their delivery."""
        waiting = self.undelivered()
        self._unsaid = [Queued(queue, message) for queue, message in waiting]
        return waiting

    def undelivered(self) -> list[tuple[QueueName, User | Custom]]:
        return undelivered(self.tree)

    # State to restore on resume.

    def last_model(self) -> tuple[str, str] | None:
        """Return provider and id of the last model: the one set last, or the one that answered last."""
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

    # Forks, clones and copies.

    def fork_text(self, entry_id: str) -> str:
        """Return the text of the user message before which a fork ends."""
        return self._fork_point(entry_id)[1]

    def forked(self, entry_id: str) -> SessionLog:
        """Return a new log with everything before a user message."""
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
        """Return a new session with these entries. Raises CommandError if it cannot be written.

        Labels move to the end; the children of a label are attached to its parent. Queued messages are cleared in the
        copy, so that they are not delivered twice.
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
            assert isinstance(outline.id, str)  # entries without an id are not in a tree
            if outline.parent_id != made.tree.leaf_id:
                line = encode({**parse_stored(line), "parentId": made.tree.leaf_id})
            made.tree.add(line, outline.id, self.tree.kind(at))
            kept.add(outline.id)
        for label in labels:
            if label.target_id in kept:
                made._add(Label, label.target_id, label.label)

    def whole_copy(self, cwd: str, folder: Path | None) -> SessionLog:
        """Return a new session with every entry on every branch. Raises CommandError if it cannot be written."""
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

    # The session file.

    @property
    def unwritten(self) -> int:
        """The number of entries that could not be written yet."""
        if self._journal is not None:
            return self._journal.unwritten
        return len(self.tree) if self._begun else 0

    @property
    def unsynced(self) -> bool:
        """True if an entry would not survive a power failure."""
        return self.unwritten > 0 or (self._journal is not None and self._journal.unsynced)

    def flush(self) -> None:
        """Write the entries that wait to be written. Raises OSError."""
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
        """Return the blocking fsync of what was written; None if there is nothing to sync."""
        return self._journal.prepare_sync() if self._journal is not None else None

    def close(self) -> None:
        """Close the file. Later entries are kept in memory only, and a prompt is refused."""
        self._closed = True
        if self._journal is not None:
            self._journal.close()

    def _entry(self, kind: Any, *values: Any) -> Any:
        return kind(self._new_id(), self.tree.leaf_id, iso(), *values)

    def _add(self, kind: Any, *values: Any) -> None:
        entry = self._entry(kind, *values)
        try:
            if self._begun and not self._closed:
                self._write(wire_json(entry))
        except OSError as error:  # not stored: that would keep this frame alive, and with it the error
            self._grow(entry)
            self.write_failing = True
            self.trouble(error)
        else:
            self._grow(entry)

    def _grow(self, entry: Any) -> None:
        self.tree.add(wire_json(entry), entry.id, str(entry.__struct_config__.tag))

    def _write(self, line: bytes, *, or_fail: bool = False) -> None:
        """Append an entry to the file. On OSError the entry waits to be written; with `or_fail` it is dropped."""
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
        """Give up a file that was deleted while open. The next write creates it again, with every entry."""
        assert self._journal is not None
        self._journal.close()
        self._journal = None

    def _create(self, lines: Iterable[bytes]) -> None:
        assert self.path is not None
        make_folder(self.path.parent)
        journal = Journal(self.path, self._disk)
        journal.create(chain([wire_json(self.header)], lines))
        self._journal, self._begun = journal, True

    def _unwritable(self, error: OSError) -> CommandError:
        return CommandError(f"The session file {self.path} cannot be written: {error.strerror or error}")

    def _new_id(self) -> str:
        if len(self.tree) > SMALL:  # long enough to need no check for collisions in a large tree
            return os.urandom(8).hex()
        while (id := os.urandom(4).hex()) in self.tree:
            pass
        return id


def _add_once(problems: list[str], text: str) -> None:
    """Add a problem. It refers to no log, so a closed log is freed at once, and its open file with it."""
    if text not in problems:  # a conversation that is rebuilt finds the same problems
        problems.append(text)


def now() -> int:
    return time.time_ns() // 1_000_000


def iso() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def session_id() -> str:
    """Return a UUID of version 7, so that ids sort by time."""
    digits = f"{now():012x}" + os.urandom(10).hex()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-7{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:32]}"

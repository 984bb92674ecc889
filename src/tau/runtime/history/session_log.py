"""The log of one session: its entries and the conversation.

An entry is written before it is announced. If a write fails, the entry is written later; only a prompt is refused in
this case, since accepting it would be a promise. The file itself is in session_file.py, messages that are
acknowledged and not delivered yet in pending_queue.py and pending_bash.py, forks and clones in copies.py.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tau.core.conversation.tree import Tree
from tau.records.base import UNSET, SplicedList, UnsetType, left_out, parse_stored
from tau.records.entries import (
    BranchSummaryEntry,
    CommandKey,
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
from tau.records.events import EntryAppended
from tau.records.lines import UnknownEntry
from tau.records.messages import AnyMessage, Assistant, Custom, StoredMessage, Usage, User
from tau.records.models import Model, ThinkingLevel
from tau.runtime.clock import iso, now
from tau.runtime.history.conversation import Conversation, messages_json
from tau.runtime.history.ids import entry_id, session_id
from tau.runtime.history.pending_bash import PendingBash
from tau.runtime.history.pending_queue import PendingQueue
from tau.runtime.history.session_file import SessionFile, Trouble
from tau.store.journal import DISK, Disk
from tau.store.sessions import OpenedSession, file_name


class Problems:
    """Damage found in the session file: some is found only when messages are read."""

    def __init__(self, found: list[str]) -> None:
        self.found = found
        self._known = set(found)
        self._reported = 0

    def add(self, text: str) -> None:
        if text not in self._known:  # a conversation that is rebuilt finds the same problems
            self._known.add(text)
            self.found.append(text)

    def take(self) -> list[str]:
        """Return the problems that were not returned before."""
        new, self._reported = self.found[self._reported :], len(self.found)
        return new


class SessionLog:
    """`path` is the session file; None keeps the session in memory. `trouble` is called when a write fails.

    `disk` performs the writes of this log and of its copies.
    """

    def __init__(
        self, header: Header, path: Path | None, trouble: Trouble, tree: Tree | None = None, disk: Disk = DISK
    ) -> None:
        self.header = header
        self.tree = Tree() if tree is None else tree
        self.file = SessionFile(header, path, self.tree, trouble, disk)
        self.pending_queue = PendingQueue(self.file)
        self.pending_bash = PendingBash(self.file)
        self.problems = Problems([])
        self.lacks_level = False  # the file has no thinking level, or another one: write it before the next prompt
        self._messages: Conversation | None = None
        self._answer_id: str | None = None  # of the entry of the answer that is being streamed
        # Prompts that are in the conversation before they are announced, with the positions of their entries.
        self._announced_early: list[tuple[AnyMessage, int]] = []
        self._unannounced: list[int] = []  # positions of entries
        self._last_message = 0  # position of the message for which `append_message` was called last

    @classmethod
    def new(
        cls,
        cwd: str,
        folder: Path | None,
        trouble: Trouble,
        *,
        parent: str | None = None,
        id: str | None = None,
        tree: Tree | None = None,
        disk: Disk = DISK,
    ) -> SessionLog:
        made = session_id() if id is None else id
        header = Header(id=made, timestamp=iso(), cwd=cwd, parent_session=UNSET if parent is None else parent)
        return cls(header, folder / file_name(header) if folder is not None else None, trouble, tree, disk)

    @classmethod
    def resumed(cls, opened: OpenedSession, trouble: Trouble, disk: Disk = DISK) -> SessionLog:
        """Continue a session that was read from its file. Raises CommandError if the file cannot be written."""
        log = cls(opened.header, opened.path, trouble, opened.tree, disk)
        log.problems = Problems(opened.problems)
        log.lacks_level = log.last_level() is None
        log.file.resume(opened)
        return log

    def begin_at(self, path: Path) -> SessionLog:
        """Use this path for a new session. An empty file there is begun now: from then on it is a session."""
        self.file.path = path
        if os.path.exists(path):
            self.file.create()
        return self

    # Messages.

    @property
    def id(self) -> str:
        return self.header.id

    @property
    def path(self) -> Path | None:
        return self.file.path

    @property
    def folder(self) -> Path | None:
        return None if self.file.path is None else self.file.path.parent

    @property
    def messages(self) -> Conversation:
        """The conversation on the current branch."""
        if self._messages is None:
            summary, entries = self.tree.seen()
            for at in self.tree.last_on_branch("compaction"):
                if not isinstance(entry := self.tree.entry(at), UnknownEntry):
                    break
                self.problems.add(f"entry {entry.id}: this compaction is not applied: {'; '.join(left_out(entry))}")
            self._messages = Conversation(self.tree, summary, entries, self.problems.add)
        return self._messages

    @property
    def message_count(self) -> int:
        return self.tree.seen_count() if self._messages is None else len(self._messages)

    def messages_json(self) -> SplicedList:
        """Return the conversation as JSON, byte for byte as it was read; its parts are made when they are sent."""
        return messages_json(self.tree, self._messages.unreadable if self._messages is not None else ())

    @property
    def announced_entries(self) -> int:
        """The number of entries before the first message that clients have not been told of yet."""
        return min([*(at for _, at in self._announced_early), *self._unannounced], default=len(self.tree))

    @contextmanager
    def unannounced(self) -> Iterator[None]:
        """The message that was added last is not announced meanwhile: extensions hear of it first."""
        at = self._last_message
        self._unannounced.append(at)
        try:
            yield
        finally:
            self._unannounced.remove(at)

    def append_prompt(self, message: AnyMessage, key: CommandKey | None = None) -> None:
        """Add a prompt before its acceptance is announced. Raises CommandError if it cannot be written."""
        conversation = self.messages  # built, if necessary, before the tree contains the entry
        marks = () if key is None else (key.key, key.digest)
        try:
            self.file.add_or_fail(MessageEntry, message, *marks, create=True)
        except OSError as error:
            raise self.file.unwritable(error) from None
        conversation.append(message)
        self._announced_early.append((message, len(self.tree) - 1))

    def append_message(self, message: StoredMessage) -> None:
        """Add a message that is being announced. A prompt was added by `append_prompt` and is not added again."""
        self._last_message = len(self.tree)
        for early, at in self._announced_early:
            if early is message:
                self._announced_early.remove((early, at))
                self._last_message = at
                return
        if isinstance(message, User | Custom):
            self.pending_queue.deliver(message)
        conversation = self.messages
        if isinstance(message, Custom):
            self.file.add(CustomMessageEntry, message.custom_type, message.content, message.display, message.details)
        elif isinstance(message, Assistant):
            id, self._answer_id = self._answer_id, None
            self.file.add(MessageEntry, message, id=id)
        else:
            self.file.add(MessageEntry, message)
        conversation.append(message)

    def reserve_answer_id(self) -> str:
        """The id that the entry of the next answer will have, for a client that is told it while the answer streams."""
        self._answer_id = entry_id(self.tree)
        return self._answer_id

    def append_custom(self, custom_type: str, data: Any) -> EntryAppended:
        """Add state of an extension, which the model never sees. Returns the event for clients."""
        self.require_open()
        self.file.add(CustomEntry, custom_type, data)
        return self._last_entry()

    def _last_entry(self) -> EntryAppended:
        return EntryAppended(parse_stored(self.tree.line(self.tree.leaf)))

    def drop_last_answer(self) -> EntryAppended | None:
        """Remove the last answer, which failed and is requested again, from the conversation. Its entry stays.

        The removal is written as an entry, as pi does: it applies to every later reader of the file, on this
        branch only.
        """
        if (at := self.tree.last_answer()) is not None:
            self.file.add(ContextEdit, self.tree.id(at), None)
            self._messages = None
            return self._last_entry()
        return None

    # Settings, labels, compactions and branches.

    def require_open(self) -> None:
        """Raise CommandError if the log is closed: what is acknowledged now would not be in the file."""
        self.file.require_open()

    def set_model(self, model: Model) -> None:
        self.file.add(ModelChange, model.provider, model.id)

    def set_level(self, level: ThinkingLevel) -> None:
        self.lacks_level = False
        self.file.add(ThinkingLevelChange, level)

    def set_name(self, name: str) -> None:
        self.require_open()
        self.file.add(SessionInfo, one_line(name))

    def label(self, target: str, label: str | None) -> None:
        self.require_open()
        self.file.add(Label, target, UNSET if label is None else label)

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
        from tau.core.conversation.system_state import SystemState

        system = SystemState(self.tree.system_messages()).message(now())
        declared = UNSET if system is None else system
        self.file.add(CompactionEntry, summary, first_kept, tokens_before, details, from_hook, usage, declared)
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
            self.file.add(BranchSummaryEntry, left or "root", summary, details, from_hook, usage)
        self._messages = None

    # State to restore on resume.

    def last_model(self) -> tuple[str, str] | None:
        """Return provider and id of the last model: the one set last, or the one that answered last."""
        for at in self.tree.last_on_branch("model_change", "message"):
            if self.tree.kind(at) == "model_change" or b'"assistant"' in self.tree.line(at):
                entry = self.tree.entry(at)
                if isinstance(entry, ModelChange):
                    return entry.provider, entry.model_id
                if isinstance(entry, MessageEntry) and isinstance(answer := entry.message, Assistant) and answer.model:
                    return answer.provider, answer.model
        return None

    def last_level(self) -> ThinkingLevel | None:
        for at in self.tree.last_on_branch("thinking_level_change"):
            entry = self.tree.entry(at)
            if isinstance(entry, ThinkingLevelChange):
                return entry.thinking_level
        return None

    # The session file.

    @property
    def unwritten(self) -> int:
        """The number of entries that could not be written yet."""
        return self.file.unwritten

    def flush(self) -> None:
        """Write the entries that wait to be written. Raises OSError."""
        self.file.flush()

    def close(self) -> None:
        """Close the file. Later entries are kept in memory only, and a prompt is refused."""
        self.file.close()


def one_line(name: str) -> str:
    """A session name without line breaks, as pi stores it since 0.87."""
    return re.sub(r"[\r\n]+", " ", name).strip()

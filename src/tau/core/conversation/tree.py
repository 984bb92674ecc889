"""Session tree: the entries of a session, and the conversation that the model sees.

Entries are only ever added, and the parent of an entry always precedes it: so there are no cycles, whatever a file
contains. The leaf is the parent of the next entry; a branch is the path from a root to the leaf.

Entries are identified by their position in the file. Their lines stay where they are; in memory each costs two small
numbers besides, since a session may have a million.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TypeVar

from tau.core.conversation.entry_messages import compacted_messages, is_system, message_of
from tau.core.conversation.file_lines import FileLines
from tau.core.conversation.prompts import PromptIndex
from tau.records.base import BadRecord, decode, encode, left_out
from tau.records.entries import (
    AnyEntry,
    CompactionEntry,
    ContextEdit,
    Label,
    MessageEntry,
    SessionInfo,
)
from tau.records.lines import ForkPoint, Outline, UnknownEntry, message_entries, message_json, read_entry, read_message
from tau.records.messages import (
    Assistant,
    Other,
    StoredMessage,
    System,
)

# Kind of an entry, as far as the tree must know it without parsing the line.
KINDS = (
    "other",
    "message",
    "compaction",
    "branch_summary",
    "custom_message",
    "label",
    "session_info",
    "custom",
    "model_change",
    "thinking_level_change",
    "context_edit",
)
SEEN_BY_MODELS = ("message", "branch_summary", "custom_message")  # messages first
CODES = {kind: code for code, kind in enumerate(KINDS)}
SESSION_INFO = CODES["session_info"]
ROOT = -1
NEAR = 16  # entries to search before an index of all ids is built
T = TypeVar("T")


class Tree:
    def __init__(
        self,
        lines: FileLines | None = None,
        parents: Iterable[int] = (),
        kinds: Iterable[int] = (),
        prompts: PromptIndex | None = None,
    ) -> None:
        self._lines = lines or FileLines()
        self._parents = array("q", parents)
        self._kinds = bytearray(kinds)
        self._straight = _straight(self._parents)
        self.prompts = prompts or PromptIndex()
        self.has_repaired_parents = False  # an entry has another parent than it names, because that one is missing
        self._places: dict[str, int] | None = None
        self.leaf = len(self._parents) - 1
        self._leaf = ROOT, ""  # cache: the id of the last leaf requested
        self._counted = ROOT, 0  # cache: a leaf, and the number of messages seen from it
        self._dropped: tuple[int, frozenset[int]] = ROOT, frozenset()  # cache: a leaf, and its dropped entries
        self.name = self._last_name()  # of the session; the last one that is not empty, on any branch

    def __len__(self) -> int:
        return len(self._parents)

    def add(self, line: bytes, id: str, kind: str) -> int:
        """Add an entry below the leaf, and make it the leaf."""
        at = len(self._parents)
        if self._straight == at and self.leaf == at - 1:
            self._straight += 1
        self._lines.append(line)
        self._parents.append(self.leaf)
        self._kinds.append(CODES.get(kind, 0))
        self._leaf = at, id
        if self._places is not None:
            self._places[id] = at
        self.leaf = at
        if kind == "session_info":
            self.name = self._name_at(at) or self.name
        return at

    def beginning(self, branch: Sequence[int]) -> Tree | None:
        """Return a tree of these entries if they are the first ones, in sequence; their lines are not copied."""
        if self.has_repaired_parents or branch != range(len(branch)) or len(branch) > self._straight:
            return None
        count = len(branch)
        return Tree(self._lines.head(count), self._parents[:count], self._kinds[:count], self.prompts.head(count))

    def find(self, id: str) -> int | None:
        return self._places_by_id().get(id)

    def __contains__(self, id: str) -> bool:
        return id in self._places_by_id()

    def _places_by_id(self) -> dict[str, int]:
        if self._places is None:
            self._places = {}
            for at in range(len(self)):
                self._places.setdefault(self.id(at), at)
        return self._places

    def id(self, at: int) -> str:
        """The id of an entry, without parsing the rest of it."""
        id = decode(Outline, self._lines[at], nesting=None).id
        assert isinstance(id, str)  # entries without an id are not in a tree
        return id

    def entry(self, at: int) -> AnyEntry | UnknownEntry:
        """Parse an entry. An invalid one keeps its place in the tree, as UnknownEntry."""
        try:
            return read_entry(self._lines[at])
        except BadRecord:
            return UnknownEntry("unreadable", self.readable_id(at))

    def message(self, at: int) -> StoredMessage | None:
        """The message of an entry, None if its kind has none. Raises BadRecord if it cannot be read.

        An entry without a message that should have one gives an `Other` with `left_out`, or raises.
        """
        entry = self.entry(at)
        if (message := message_of(entry)) is not None or not isinstance(entry, UnknownEntry):
            return message
        if self.kind(at) == "message":
            return read_message(self.message_json(at))
        raise BadRecord("; ".join(left_out(entry)) or "unreadable")

    def readable_id(self, at: int) -> str:
        try:
            return self.id(at)
        except BadRecord:  # the file was cut off meanwhile
            return ""

    def entries(self) -> Iterator[AnyEntry | UnknownEntry]:
        """Parse all entries, most of them many at once. Those do not keep the bytes they were parsed from."""
        at = 0
        for count, block in self.blocks(0):
            if (found := message_entries(count, block)) is not None:
                yield from found
            else:
                yield from map(self.entry, range(at, at + count))
            at += count

    def line(self, at: int) -> bytes:
        return self._lines[at]

    def parent(self, at: int) -> int:
        return self._parents[at]

    def kind(self, at: int) -> str:
        return KINDS[self._kinds[at]]

    def message_json(self, at: int) -> bytes:
        """The message of a message entry, as it is in the file. Raises BadRecord if it is another entry."""
        return message_json(self._lines[at])

    @property
    def size(self) -> int:
        """Approximate size of the tree in bytes."""
        return self._lines.size

    def size_of(self, ats: Sequence[int]) -> int:
        """Approximate size in bytes of entries that follow one another."""
        return self._lines.span(ats[0], ats[-1]) if ats else 0

    def path(self, at: int) -> Sequence[int]:
        """The entries from the root to `at`."""
        way = []
        while at >= self._straight:
            way.append(at)
            at = self._parents[at]
        return [*range(at + 1), *reversed(way)] if way else range(at + 1)

    @property
    def branch(self) -> Sequence[int]:
        return self.path(self.leaf)

    def on_branch(self, *kinds: str) -> list[int]:
        """The entries of these kinds from the root to the leaf."""
        branch = self.branch
        return [branch[place] for place in _places(self._kinds_of(branch), kinds)]

    def last_on_branch(self, *kinds: str) -> Iterator[int]:
        """The same from the leaf to the root, for callers that need only the last few."""
        branch = self.branch
        codes, end = self._kinds_of(branch), len(branch)
        while (end := max(codes.rfind(CODES[kind], 0, end) for kind in kinds)) >= 0:
            yield branch[end]

    def _kinds_of(self, branch: Sequence[int]) -> bytes:
        if isinstance(branch, range):
            return bytes(self._kinds[branch.start : branch.stop])
        return bytes([self._kinds[at] for at in branch])

    @property
    def leaf_id(self) -> str | None:
        if self.leaf == ROOT:
            return None
        if self._leaf[0] != self.leaf:
            self._leaf = self.leaf, self.id(self.leaf)
        return self._leaf[1]

    def after(self, id: str | None) -> Iterator[bytes]:
        """Lines in the order in which they were added, all or those after the entry `id`."""
        first = 0 if id is None else self._places_by_id()[id] + 1
        return (self._lines[at] for at in range(first, len(self)))

    def all_lines(self, size: int = 512 * 1024) -> Iterator[bytes]:
        """The same, in blocks of lines."""
        return (self._lines.block(first, last) for first, last in self._lines.blocks(range(len(self)), size))

    def blocks(self, first: int, size: int = 512 * 1024) -> Iterator[tuple[int, bytes]]:
        """All lines from `first` on, in blocks: the number of lines in a block, and the block."""
        for start, last in self._lines.blocks(range(first, len(self)), size):
            yield last + 1 - start, self._lines.block(start, last)

    def of_kind(self, *kinds: str) -> list[int]:
        """The entries of these kinds on every branch, in the order in which they were added."""
        return _places(bytes(self._kinds), kinds)

    def _last_name(self) -> str | None:
        at = len(self._kinds)
        while (at := self._kinds.rfind(SESSION_INFO, 0, at)) >= 0:  # a search for bytes: sessions may be long
            if name := self._name_at(at):
                return name
        return None

    def _name_at(self, at: int) -> str | None:
        entry = self.entry(at)
        return entry.name if isinstance(entry, SessionInfo) else None

    def fork_points(self) -> list[ForkPoint]:
        """The user messages of all branches, in the order in which they were added."""
        return decode(list[ForkPoint], self.fork_points_json(), nesting=None)

    def fork_points_json(self) -> bytes:
        """The same as JSON: there may be many thousands."""
        self.prompts.update(self._lines)
        return b"[%b]" % b",".join(self.prompts.points(self._lines))

    def json(self) -> bytes:
        """The whole tree as clients receive it: entries with their children and labels.

        Written incrementally and not as nested values: a branch may be deeper than any recursion.
        """
        labels: dict[int, Label] = {}
        for at in self.of_kind("label"):
            label = self.entry(at)
            if isinstance(label, Label) and (target := self.find(label.target_id)) is not None:
                labels[target] = label
        children: dict[int, list[int]] = {}
        for at, parent in enumerate(self._parents):
            children.setdefault(parent, []).append(at)
        return nested(
            children.get(ROOT, []), lambda at: self._node(at, labels.get(at)), lambda at: children.get(at, [])
        )

    def _node(self, at: int, label: Label | None) -> bytes:
        entry = b'{"entry":%b' % self._lines[at]
        if label is None or not label.label:
            return entry
        return entry + b',"label":%b,"labelTimestamp":%b' % (encode(label.label), encode(label.timestamp))

    def seen(self) -> tuple[CompactionEntry | None, list[int]]:
        """The part of the current branch that the model sees: the last summary, and the entries that it does not
        replace.
        """
        branch = self.branch
        kinds = self._kinds_of(branch)
        compaction, first, replaced = self._last_summary(branch, kinds)
        dropped = self.dropped | replaced
        ats = [branch[place] for place in _places(kinds, SEEN_BY_MODELS, first)]
        return compaction, [at for at in ats if at not in dropped] if dropped else ats

    def seen_count(self) -> int:
        """Number of messages that the model sees."""
        if self._counted[0] != self.leaf:
            branch = self.branch
            kinds = self._kinds_of(branch)
            compaction, first, replaced = self._last_summary(branch, kinds)
            dropped = self.dropped | replaced
            count = kinds.count(CODES["message"], first)  # without a list of them: a session may be long
            if dropped:
                count -= sum(self.kind(at) == "message" for at in dropped.intersection(branch[first:]))
            # Messages of extensions and branch summaries may be unreadable or empty. There are few of them.
            others = (branch[place] for place in _places(kinds, SEEN_BY_MODELS[1:], first))
            count += sum(message_of(self.entry(at)) is not None for at in others if at not in dropped)
            self._counted = self.leaf, count + (0 if compaction is None else len(compacted_messages(compaction)))
        return self._counted[1]

    @property
    def dropped(self) -> frozenset[int]:
        """Entries that a context_edit on the current branch leaves out of the conversation. The last edit counts."""
        if CODES["context_edit"] not in self._kinds:
            return frozenset()
        if self._dropped[0] != self.leaf:
            gone: dict[str, int | None] = {}
            for at in self.on_branch("context_edit"):
                if isinstance(edit := self.entry(at), ContextEdit):
                    gone[edit.target_id] = self._before(at, edit.target_id) if edit.replacement is None else None
            self._dropped = self.leaf, frozenset(at for at in gone.values() if at is not None)
        return self._dropped[1]

    def last_answer(self) -> int | None:
        """Return the position of the last answer of a model on the current branch, dropped or not."""
        for at in self.last_on_branch("message"):
            if b'"assistant"' in self._lines[at]:
                entry = self.entry(at)
                if isinstance(entry, MessageEntry) and isinstance(entry.message, Assistant):
                    return at
        return None

    def _before(self, at: int, id: str) -> int | None:
        """Return the position of an entry before `at`; fast for one that is close to it, which is the usual case."""
        needle, above = id.encode("utf-8", "replace"), at
        for _ in range(NEAR):
            above = self._parents[above]
            if above == ROOT:
                break
            if needle in self._lines[above] and self.id(above) == id:
                return above
        found = self.find(id)
        return found if found is not None and found < at else None

    def _last_summary(self, branch: Sequence[int], kinds: bytes) -> tuple[CompactionEntry | None, int, frozenset[int]]:
        """The last compaction of a branch, the place from which entries are kept, and those replaced all the same."""
        for place in reversed(_places(kinds, ("compaction",))):
            if isinstance(entry := self.entry(branch[place]), CompactionEntry):
                first_kept = self._place_on(branch[:place], entry.first_kept_entry_id)
                if first_kept is None:
                    return entry, place, frozenset()
                kept = branch[first_kept:place] if len(compacted_messages(entry)) > 1 else ()
                return entry, first_kept, frozenset(at for at in kept if self._system_message(at) is not None)
        return None, 0, frozenset()

    def system_messages(self) -> Iterator[Other | System]:
        """The messages of the conversation that declare the system prompt and the tools."""
        compaction, ats = self.seen()
        if compaction is not None:
            yield from filter(is_system, compacted_messages(compaction))
        yield from (message for at in ats if (message := self._system_message(at)) is not None)

    def _system_message(self, at: int) -> Other | System | None:
        if self.kind(at) != "message" or b'"system"' not in self._lines[at]:
            return None
        with suppress(BadRecord):
            if is_system(message := read_message(self.message_json(at))):
                return message
        return None

    def message_blocks(
        self, ats: Sequence[int], size: int, read: Callable[[int, bytes], Sequence[T] | None]
    ) -> Iterator[tuple[range, Sequence[T] | None]]:
        """Apply `read` to message entries, block by block; it returns None if an entry needs a closer look."""
        for first, last in self._lines.blocks(ats, size):
            block = range(first, last + 1)
            try:
                data = self._lines.block(first, last)
            except BadRecord:  # the file was cut off meanwhile
                yield block, None
            else:
                yield block, read(len(block), data)

    def _place_on(self, branch: Sequence[int], id: str) -> int | None:
        """Return the place of an entry on a branch, searching from its end and parsing few lines."""
        needle = id.encode("utf-8", "replace")
        for place in range(len(branch) - 1, -1, -1):
            if needle in self._lines[branch[place]] and self.id(branch[place]) == id:
                return place
        return None


def _straight(parents: Sequence[int]) -> int:
    """Number of entries before the first one whose parent is not its predecessor: most sessions are one such line."""
    if parents == array("q", range(-1, len(parents) - 1)):
        return len(parents)
    return next(at for at, parent in enumerate(parents) if parent != at - 1)


def _places(codes: bytes, kinds: Sequence[str], first: int = 0) -> list[int]:
    """The indexes in `codes` of these kinds."""
    if first >= len(codes):
        return []
    wanted = re.compile(b"[%b]" % re.escape(bytes(CODES[kind] for kind in kinds)))
    return [match.start() for match in wanted.finditer(codes, first)]


def nested(roots: list[T], node: Callable[[T], bytes], children: Callable[[T], list[T]]) -> bytes:
    """Write a forest as JSON: `node` returns the beginning of each object, without its children."""
    parts = [b"["]
    path = [iter(roots)]
    first = True
    while path:
        child = next(path[-1], None)
        if child is None:
            path.pop()
            parts.append(b"]}" if path else b"]")
            first = False
            continue
        parts += (b"" if first else b",", node(child), b',"children":[')
        path.append(iter(children(child)))
        first = True
    return b"".join(parts)

"""A session's entries as a tree, and what the model sees of it.

Entries are only ever added, and the parent of an entry is always one that came
before it: so there are no circles, whatever a file says. The leaf is where the
next entry goes; a branch is the way from a root to the leaf.

Entries are known by their place in the file. Their lines stay bytes; what is
kept of each beside that is two small numbers, since a session may have a million.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from tau.records.base import BadRecord, decode, encode
from tau.records.entries import (
    AnyEntry,
    BranchSummaryEntry,
    CompactionEntry,
    CustomMessageEntry,
    Label,
    MessageEntry,
    SessionInfo,
)
from tau.records.lines import MESSAGE, OtherEntry, Outline, can_be_cut_out, message_json, read_entry
from tau.records.messages import (
    AnyMessage,
    BranchSummary,
    CompactionSummary,
    Custom,
    Text,
    User,
)
from tau.records.replies import ForkPoint

# What an entry is, as far as the tree must know without reading it.
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
)
SEEN_BY_MODELS = ("message", "branch_summary", "custom_message")
CODES = {kind: code for code, kind in enumerate(KINDS)}
CUT_OUT = 0x80  # beside its kind: the line ends with a message that can be cut out of it
ROOT = -1
T = TypeVar("T")
_ISO = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d+))?Z?")


class Lines:
    """The lines of a file that was read at once, by number, without a copy of each."""

    def __init__(self, data: bytes = b"", starts: Sequence[int] = (), ends: Sequence[int] = ()) -> None:
        self._data = data
        self._starts = array("Q", starts)
        self._ends = array("Q", ends)
        self._added: list[bytes] = []

    def __len__(self) -> int:
        return len(self._starts) + len(self._added)

    def __getitem__(self, at: int) -> bytes:
        read = len(self._starts)
        return self._data[self._starts[at] : self._ends[at]] if at < read else self._added[at - read]

    def append(self, line: bytes) -> None:
        self._added.append(line)

    def message(self, at: int) -> bytes:
        """The message that a line ends with."""
        read = len(self._starts)
        if at >= read:
            line = self._added[at - read]
            return line[line.index(MESSAGE) + len(MESSAGE) : -1]
        start = self._data.index(MESSAGE, self._starts[at]) + len(MESSAGE)
        return self._data[start : self._ends[at] - 1]

    @property
    def size(self) -> int:
        return len(self._data) + sum(map(len, self._added))


class Tree:
    def __init__(self, lines: Lines | None = None, parents: Iterable[int] = (), kinds: Iterable[int] = ()) -> None:
        self._lines = lines or Lines()
        self._parents = array("q", parents)
        self._kinds = array("B", kinds)
        self._places: dict[str, int] | None = None
        self.leaf = len(self._parents) - 1
        self._leaf = ROOT, ""  # the id of the last leaf that was asked for

    def __len__(self) -> int:
        return len(self._parents)

    def add(self, line: bytes, id: str, kind: str) -> int:
        """Put an entry under the leaf, and make it the leaf."""
        at = len(self._parents)
        self._lines.append(line)
        self._parents.append(self.leaf)
        self._kinds.append(CODES.get(kind, 0) | (CUT_OUT if kind == "message" and can_be_cut_out(line) else 0))
        self._leaf = at, id
        if self._places is not None:
            self._places[id] = at
        self.leaf = at
        return at

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
        """The id of an entry, without reading the rest of it."""
        id = decode(Outline, self._lines[at]).id
        assert isinstance(id, str)  # entries without one are not in a tree
        return id

    def entry(self, at: int) -> AnyEntry | OtherEntry:
        """What an entry says. One of a wrong shape keeps its place, and says nothing."""
        try:
            return read_entry(self._lines[at])
        except BadRecord:
            return OtherEntry("unreadable", self.id(at))

    def line(self, at: int) -> bytes:
        return self._lines[at]

    def parent(self, at: int) -> int:
        return self._parents[at]

    def kind(self, at: int) -> str:
        return KINDS[self._kinds[at] & ~CUT_OUT]

    def message_json(self, at: int) -> bytes:
        """The message of a message entry, as it stands in the file. Raises BadRecord if it is none."""
        return self._lines.message(at) if self._kinds[at] & CUT_OUT else message_json(self._lines[at])

    @property
    def size(self) -> int:
        """About how many bytes it is."""
        return self._lines.size

    def path(self, at: int) -> list[int]:
        """From the root to `at`."""
        way = []
        while at != ROOT:
            way.append(at)
            at = self._parents[at]
        return way[::-1]

    @property
    def branch(self) -> list[int]:
        return self.path(self.leaf)

    @property
    def leaf_id(self) -> str | None:
        if self.leaf == ROOT:
            return None
        if self._leaf[0] != self.leaf:
            self._leaf = self.leaf, self.id(self.leaf)
        return self._leaf[1]

    def after(self, id: str | None) -> Iterator[bytes]:
        """Lines in the order they were added, all or those after the entry `id`."""
        first = 0 if id is None else self._places_by_id()[id] + 1
        return (self._lines[at] for at in range(first, len(self)))

    def of_kind(self, kind: str) -> list[int]:
        code = CODES[kind]
        return [at for at, one in enumerate(self._kinds) if one & ~CUT_OUT == code]

    @property
    def name(self) -> str | None:
        for at in reversed(self.of_kind("session_info")):
            entry = self.entry(at)
            if isinstance(entry, SessionInfo) and entry.name:
                return entry.name
        return None

    def fork_points(self) -> list[ForkPoint]:
        points = []
        for at in self.branch:
            if self.kind(at) == "message" and b'"user"' in self._lines[at]:
                entry = self.entry(at)
                if (text := prompt_text(entry)) is not None:
                    points.append(ForkPoint(entry.id, text))
        return points

    def json(self) -> bytes:
        """The whole tree as clients get it: entries with their children and labels.

        Written piece by piece and not as nested values: a branch may be deeper than any recursion.
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
        """What the model sees of the current branch: the last summary, and the entries that still stand."""
        branch = self.branch
        compaction, first = None, 0
        for at in range(len(branch) - 1, -1, -1):
            if self.kind(branch[at]) == "compaction" and isinstance(entry := self.entry(branch[at]), CompactionEntry):
                kept = self._place_on(branch[:at], entry.first_kept_entry_id)
                compaction, first = entry, at if kept is None else kept
                break
        return compaction, [one for one in branch[first:] if self.kind(one) in SEEN_BY_MODELS]

    def _place_on(self, branch: list[int], id: str) -> int | None:
        """Where on a branch an entry is, looking from its end and into few lines."""
        needle = id.encode("utf-8", "replace")
        for place in range(len(branch) - 1, -1, -1):
            if needle in self._lines[branch[place]] and self.id(branch[place]) == id:
                return place
        return None


def nested(roots: list[T], node: Callable[[T], bytes], children: Callable[[T], list[T]]) -> bytes:
    """A forest as JSON: `node` gives the beginning of each object, without its children."""
    pieces = [b"["]
    path = [iter(roots)]
    first = True
    while path:
        one = next(path[-1], None)
        if one is None:
            path.pop()
            pieces.append(b"]}" if path else b"]")
            first = False
            continue
        pieces += (b"" if first else b",", node(one), b',"children":[')
        path.append(iter(children(one)))
        first = True
    return b"".join(pieces)


def message_of(entry: AnyEntry | OtherEntry) -> AnyMessage | None:
    """What an entry says to the model."""
    match entry:
        case MessageEntry():
            return entry.message
        case CustomMessageEntry():
            said = milliseconds(entry.timestamp)
            return Custom(entry.custom_type, entry.content, entry.display, entry.details, said)
        case BranchSummaryEntry(summary=summary) if summary:
            return BranchSummary(summary, entry.from_id or "root", milliseconds(entry.timestamp))
    return None


def summary_of(compaction: CompactionEntry) -> CompactionSummary:
    return CompactionSummary(compaction.summary, compaction.tokens_before, milliseconds(compaction.timestamp))


def milliseconds(iso: str) -> int:
    """Unix milliseconds of an entry's timestamp (UTC); 0 for what is none."""
    match = _ISO.fullmatch(iso)
    if match is None:
        return 0
    year, month, day, hour, minute, second = map(int, match.groups()[:6])
    # Days since 1970 by the calendar that starts in March, so that leap days come last.
    years = year - (month <= 2)
    days = 365 * years + years // 4 - years // 100 + years // 400 + (153 * ((month + 9) % 12) + 2) // 5 + day - 719469
    fraction = int((match[7] or "0").ljust(3, "0")[:3])
    return ((days * 24 + hour) * 60 + minute) * 60_000 + second * 1000 + fraction


def context(branch: Sequence[AnyEntry | OtherEntry]) -> list[AnyMessage]:
    """The messages of a branch: a compaction's summary stands for what came before it."""
    at = next((i for i in range(len(branch) - 1, -1, -1) if isinstance(branch[i], CompactionEntry)), None)
    if at is None:
        return _messages(branch)
    compaction = branch[at]
    assert isinstance(compaction, CompactionEntry)
    kept = next((i for i, entry in enumerate(branch[:at]) if entry.id == compaction.first_kept_entry_id), at)
    return [summary_of(compaction), *_messages(branch[kept:at]), *_messages(branch[at + 1 :])]


def _messages(entries: Iterable[AnyEntry | OtherEntry]) -> list[AnyMessage]:
    return [message for entry in entries if (message := message_of(entry)) is not None]


def prompt_text(entry: AnyEntry | OtherEntry | None) -> str | None:
    """The text of a user's message, or None if the entry is none."""
    if not isinstance(entry, MessageEntry) or not isinstance(entry.message, User):
        return None
    content = entry.message.content
    return content if isinstance(content, str) else "".join(b.text for b in content if isinstance(b, Text))

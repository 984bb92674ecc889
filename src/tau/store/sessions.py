"""Session files: one JSON line per entry, only ever appended.

What is wrong in a file is reported and passed over; nothing in it is ever
rewritten. A last line that is torn (a crash) or filled with NULs (a power
failure) stays where it is, and what is added begins on a line of its own.

Old versions are lifted by migrate.py while they are read. The lifted file is
written beside the old one when there is something to add, and the old one stays.
"""

from __future__ import annotations

import os
import stat
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path

from tau.core.conversation.file_lines import Held, Lines, Source
from tau.core.conversation.tree import CODES, ROOT, Tree
from tau.errors import CommandError
from tau.records.base import BadRecord, UnsetType, decode, encode, keep, parse
from tau.records.entries import VERSION, Header
from tau.records.lines import Head, Outline, outlines
from tau.store.migrate import lifted

SHOWN = 5  # problems told one by one
HEAD = 64 * 1024  # a header is shorter than that
BLOCK = 512 * 1024
WINDOW = 256 * 1024


class Opened:
    """A session as it was found."""

    def __init__(self, path: Path, header: Header, tree: Tree, size: int) -> None:
        self.path = path
        self.header = header
        self.tree = tree
        self.size = size
        self.problems: list[str] = []
        self.lifted: list[bytes] | None = None  # all lines of an older file in today's form


def open_session(path: Path) -> Opened:
    """Read a session. Raises CommandError for what is none; such a file is left alone."""
    file, header = _opened(path)
    found = Opened(path, header, Tree(), file.size)
    report = _Report(found.problems)
    try:
        if header.version < VERSION:
            data = file.read(0, file.size)
            found.lifted = lifted([data[start:end] for start, end in _split(data)], report.add)
            data = b"\n".join(found.lifted) + b"\n"
            found.header = read_header(found.lifted[0]) or header
            found.tree = _Reading(Held(data), len(data), report).tree()
        else:
            found.tree = _Reading(file, file.size, report).tree()
    except OSError as error:
        raise CommandError(f"Cannot open session {path}: {error.strerror}") from None
    report.close()
    return found


class SessionFile:
    """A file whose lines are read when they are asked for; `size` is what it had when it was opened.

    It is held open, so that a file that was deleted can still be read, and closed
    with the last one who may ask. Bytes that others cut off are missing: what was in
    them cannot be read any more, as if the file had been damaged before.
    """

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self.size = os.fstat(handle).st_size
        self._window = 0, b""

    def __del__(self) -> None:
        os.close(self._handle)

    def read(self, start: int, end: int) -> bytes:
        """May be asked by several threads."""
        first, window = self._window
        if first <= start and end <= first + len(window):
            return window[start - first : end - first]
        if end - start > WINDOW // 2:
            return self._at(start, end)
        # Most often the next to be asked for is beside this one.
        first = start if start >= first else max(0, end - WINDOW)
        window = self._at(first, min(first + WINDOW, self.size))
        self._window = first, window
        return window[start - first : end - first]

    def _at(self, start: int, end: int) -> bytes:
        data = os.pread(self._handle, end - start, start)
        while len(data) < end - start and (more := os.pread(self._handle, end - start - len(data), start + len(data))):
            data += more
        return data


def _opened(path: Path) -> tuple[SessionFile, Header]:
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
        file = SessionFile(handle)
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise CommandError(f"{path} is not a regular file, so it cannot be a session.")
        # The beginning first: what is no session may be of any size.
        head = file.read(0, min(HEAD, file.size))
    except OSError as error:
        raise CommandError(f"Cannot open session {path}: {error.strerror}") from None
    header = next((read_header(head[start:end]) for start, end in _split(head)), None)
    if header is None:
        raise CommandError(f"{path} is not a session file; it was left untouched.")
    return file, header


def _split(data: bytes) -> Iterator[tuple[int, int]]:
    """Where the lines are that are not blank; a BOM at the start is passed over."""
    start = 3 if data.startswith(b"\xef\xbb\xbf") else 0
    size = len(data)
    while start < size:
        end = data.find(b"\n", start)
        if end < 0:
            end = size
        stop = end - 1 if end > start and data[end - 1] == 13 else end
        if stop > start and (data[start] > 32 or data[start:stop].strip()):
            yield start, stop
        start = end + 1


def read_header(line: bytes) -> Header | None:
    """What makes a file a session; `wire()` of it gives the same bytes back."""
    try:
        value = parse(line)
    except BadRecord:
        return None
    if not isinstance(value, dict) or value.get("type") != "session" or not isinstance(value.get("id"), str):
        return None
    for name, usual in (("timestamp", ""), ("cwd", "")):
        if not isinstance(value.get(name), str):
            value[name] = usual
    if not isinstance(value.get("parentSession"), str):
        value.pop("parentSession", None)
    if not isinstance(value.get("version"), int):
        value["version"] = 1
    try:
        return keep(decode(Header, encode(value)), line)
    except BadRecord:
        return None


class _Reading:
    """The tree of a file's entries. One whose parent is lost goes on from the entry before it in the file.

    Read in blocks. A block in which all is well and every entry follows the one
    before it, as most do, is taken as a whole; only in others each line is looked at.
    """

    def __init__(self, source: Source, size: int, report: _Report) -> None:
        self._source = source
        self._size = size
        self._report = report
        self._starts, self._ends = array("Q"), array("Q")
        self._parents, self._kinds = array("q"), bytearray()
        self._places: dict[str, int] | None = None  # only made when a file is no single line of descent
        self._previous: str | None = None
        self._mended = False
        self._number = 0  # of the last line that is not blank

    def tree(self) -> Tree:
        at, length = 0, BLOCK
        while at < self._size:
            block = self._source.read(at, min(at + length, self._size))
            whole = block.rfind(b"\n") + 1 if at + length < self._size else len(block)
            if whole == 0 and at + len(block) < self._size and block:
                length *= 2  # one line is longer than that
                continue
            if not block:
                break  # others have cut the file meanwhile
            self._take(at, block, whole)
            at, length = at + whole, BLOCK
        tree = Tree(Lines(self._source, self._starts, self._ends), self._parents, self._kinds)
        tree.mended = self._mended
        return tree

    def _take(self, offset: int, block: bytes, whole: int) -> None:
        """Only the lines that are whole; not a copy of them, unless each has to be looked at."""
        found = outlines(block, whole) if self._number and self._places is None else None
        if found is None or not self._follow(found[0]):
            self._look(offset, block[:whole])
            return
        entries, ends = found
        ends = [offset + end for end in ends] if offset else ends
        self._starts.append(offset)
        self._starts.extend([end + 1 for end in ends[:-1]])
        self._ends.extend(ends)
        self._parents.extend(range(len(self._parents) - 1, len(self._parents) - 1 + len(entries)))
        self._kinds.extend([CODES.get(entry.type, 0) for entry in entries])
        self._previous = entries[-1].id
        self._number += len(entries)

    def _follow(self, found: Sequence[Head]) -> bool:
        """Whether each entry follows the one before it."""
        ids = [entry.id for entry in found]
        return bool(ids) and [entry.parent_id for entry in found] == [self._previous, *ids[:-1]]

    def _look(self, offset: int, block: bytes) -> None:
        for start, end in _split(block):
            self._number += 1
            if self._number == 1:
                continue  # the header
            line = block[start:end]
            try:
                if not line.isascii():
                    line.decode()  # decoding an outline does not look into the rest
                entry = decode(Outline, line, nesting=None)
                if not isinstance(entry.id, str):
                    raise BadRecord("id: missing")
            except (BadRecord, UnicodeDecodeError) as error:
                why = "not valid UTF-8" if isinstance(error, UnicodeDecodeError) else error
                self._report.add(self._number, f"unreadable, passed over ({why})")
                continue
            self._add(entry.type, entry.id, entry.parent_id, offset + start, offset + end)

    def _add(self, kind: str, id: str, parent_id: str | UnsetType | None, start: int, end: int) -> None:
        at = len(self._parents)
        parent = at - 1
        if parent_id != self._previous:
            if self._places is None:
                self._places = _by_id(Lines(self._source, self._starts, self._ends))
            if parent_id is None:
                parent = ROOT
            elif parent_id in self._places:
                parent = self._places[parent_id]
            else:
                self._mended = True
                lost = parent_id or "(none is named)"
                self._report.add(self._number, f"its parent {lost} is not there; joined to the entry before it")
        if self._places is not None:
            if id in self._places:
                self._report.add(self._number, f"second entry with the id {id}")
            self._places.setdefault(id, at)
        self._previous = id
        self._starts.append(start)
        self._ends.append(end)
        self._parents.append(parent)
        self._kinds.append(CODES.get(kind, 0))


def _by_id(lines: Lines) -> dict[str, int]:
    """Where each id is for the first time."""
    places: dict[str, int] = {}
    for at in range(len(lines)):
        id = decode(Outline, lines[at], nesting=None).id
        assert isinstance(id, str)  # it was looked at before
        places.setdefault(id, at)
    return places


class _Report:
    """The first few problems one by one, then their number."""

    def __init__(self, problems: list[str]) -> None:
        self._problems = problems
        self._more = 0

    def add(self, line: int, what: str) -> None:
        if len(self._problems) < SHOWN:
            self._problems.append(f"line {line}: {what}")
        else:
            self._more += 1

    def close(self) -> None:
        if self._more:
            self._problems.append(f"and {self._more} more like these")


# Where they are.


def folder_for(cwd: str, agent_dir: Path) -> Path:
    """pi's name for the folder of a project's sessions. Two projects may share one: look at the header's cwd."""
    name = cwd.removeprefix("/").removeprefix("\\") if cwd[:1] in "/\\" else cwd
    for character in "/\\:":
        name = name.replace(character, "-")
    return agent_dir / "sessions" / f"--{name}--"


def file_name(header: Header) -> str:
    time = header.timestamp.replace(":", "-").replace(".", "-")
    return f"{time}_{header.id}.jsonl"

"""Reads session files: one JSON line per entry, append-only.

Damaged lines are reported and skipped; nothing in a file is ever rewritten. A last line that is torn (after a crash) or
filled with NULs (after a power failure) stays where it is, and new entries begin on a new line.

Files of older versions are migrated by migrate.py while they are read. When the first entry is added, the migrated file
replaces the old one, which is kept as a backup.
"""

from __future__ import annotations

import os
import stat
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tau.core.conversation.file_lines import BytesSource, FileLines
from tau.core.conversation.prompts import PromptIndex, may_be_prompt
from tau.core.conversation.tree import CODES, ROOT, Tree
from tau.errors import CommandError
from tau.records.base import BadRecord, attach_source, decode, encode, parse
from tau.records.entries import VERSION, Header
from tau.records.lines import FullOutline, Outline, read_outlines
from tau.store.migrate import migrate_lines, version_of

if TYPE_CHECKING:
    from tau.core.conversation.file_lines import LineSource

MAX_SHOWN_PROBLEMS = 5  # problems that are reported in full
MAX_HEADER_BYTES = 64 * 1024  # bytes in which the header must fit
BLOCK_BYTES = 512 * 1024
WINDOW_BYTES = 256 * 1024
MAX_NAME_BYTES = 251  # in the name of a folder: 255, and two dashes on each side
_MESSAGE = bytes([CODES["message"]])


class OpenedSession:
    """A session file that was read."""

    def __init__(self, path: Path, header: Header, tree: Tree, size: int) -> None:
        self.path = path
        self.header = header
        self.tree = tree
        self.size = size
        self.problems: list[str] = []
        self.migrated_lines: list[bytes] | None = None  # all lines of an older file in the current format


def open_session(path: Path) -> OpenedSession:
    """Read a session. Raises CommandError if the file is not a session; the file is not changed."""
    file, header = _opened(path)
    found = OpenedSession(path, header, Tree(), file.size)
    report = _Report(found.problems)
    try:
        if header.version < VERSION:
            data = file.read(0, file.size)
            found.migrated_lines = migrate_lines([data[start:end] for start, end in _split(data)], report.add)
            data = b"\n".join(found.migrated_lines) + b"\n"
            found.header = read_header(found.migrated_lines[0]) or header
            found.tree = _Reading(BytesSource(data), len(data), report).tree()
        else:
            found.tree = _Reading(file, file.size, report).tree()
    except OSError as error:
        raise CommandError(f"Cannot open session {path}: {error.strerror}") from None
    report.close()
    return found


def is_blank(path: Path) -> bool:
    """True if there is a file in which nothing but blank lines is: a session can begin in it."""
    try:
        found = os.stat(path)
        return stat.S_ISREG(found.st_mode) and found.st_size <= MAX_HEADER_BYTES and not path.read_bytes().strip()
    except OSError:
        return False


class UnreadableFile(CommandError, BadRecord):
    """An open session file cannot be read any more: a damaged entry, and a sentence for the client of a command."""


class SessionFile:
    """An open file whose lines are read on demand; `size` is its size when it was opened.

    It is held open, so a deleted file can still be read, and closed with the last reference. If another program
    truncates it, reading a missing entry raises UnreadableFile.
    """

    def __init__(self, handle: int, path: Path) -> None:
        self._handle = handle
        self._path = path
        self.size = os.fstat(handle).st_size
        self._window = 0, b""

    def __del__(self) -> None:
        os.close(self._handle)

    def read(self, start: int, end: int) -> bytes:
        """Read bytes from `start` to `end`. Thread-safe."""
        first, window = self._window
        if first <= start and end <= first + len(window):
            return window[start - first : end - first]
        if end - start > WINDOW_BYTES // 2:
            return self._at(start, end)
        # The next read is usually close to this one.
        first = start if start >= first else max(0, end - WINDOW_BYTES)
        window = self._at(first, min(first + WINDOW_BYTES, self.size), end - first)
        self._window = first, window
        return window[start - first : end - first]

    def pick(self, start: int, end: int) -> bytes:
        """Read bytes that are far from those that are read before and after. Thread-safe."""
        data = self._pread(start, end)
        return data if len(data) == end - start else self._at(start, end)

    def _at(self, start: int, end: int, needed: int | None = None) -> bytes:
        """Read bytes from `start` to `end`, or to the end of the file if that is enough."""
        data = self._pread(start, end)
        while len(data) < end - start and (more := self._pread(start + len(data), end)):
            data += more
        if len(data) < (end - start if needed is None else needed):
            raise UnreadableFile(f"The session file {self._path} was cut off by another program.")
        return data

    def _pread(self, start: int, end: int) -> bytes:
        try:
            return os.pread(self._handle, end - start, start)
        except OSError as error:
            raise UnreadableFile(f"The session file {self._path} cannot be read: {error.strerror}.") from None


def _opened(path: Path) -> tuple[SessionFile, Header]:
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
        file = SessionFile(handle, path)
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise CommandError(f"{path} is not a regular file, so it cannot be a session.")
        # Only the beginning: a file that is not a session may have any size.
        head = file.read(0, min(MAX_HEADER_BYTES, file.size))
    except OSError as error:
        raise CommandError(f"Cannot open session {path}: {error.strerror}") from None
    header = next((read_header(head[start:end]) for start, end in _split(head)), None)
    if header is None:
        raise CommandError(f"{path} is not a session file; it was left untouched.")
    return file, header


def _split(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield start and end of each line that is not blank; a BOM at the start is skipped."""
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
    """Parse the header; None if the line is not one. `wire_json()` of the result returns the same bytes."""
    try:
        value = parse(line)
    except BadRecord:
        return None
    if not isinstance(value, dict) or value.get("type") != "session" or not isinstance(value.get("id"), str):
        return None
    for name in ("timestamp", "cwd"):
        if not isinstance(value.get(name), str):
            value[name] = ""
    if not isinstance(value.get("parentSession"), str):
        value.pop("parentSession", None)
        if isinstance(value.get("branchedFrom"), str):  # its name before pi 0.31
            value["parentSession"] = value["branchedFrom"]
    value["version"] = version_of(value)
    try:
        return attach_source(decode(Header, encode(value)), line)
    except BadRecord:
        return None


class _Reading:
    """Builds the tree of a file's entries. An entry whose parent is missing is attached to the entry before it.

    The file is read in blocks. A block without damage in which every entry follows the one before it, as in most files,
    is added at once; only in other blocks is each line examined.
    """

    def __init__(self, source: LineSource, size: int, report: _Report) -> None:
        self._source = source
        self._size = size
        self._report = report
        self._starts, self._ends = array("Q"), array("Q")
        self._parents, self._kinds = array("q"), bytearray()
        self._places: dict[str, int] | None = None  # by id; built only if the entries are not one chain
        self._previous: str | None = None
        self._prompts = PromptIndex()
        self._repaired = False
        self._number = 0  # number of the last line that is not blank

    def tree(self) -> Tree:
        at, length = 0, BLOCK_BYTES
        while at < self._size:
            block = self._source.read(at, min(at + length, self._size))
            complete = block.rfind(b"\n") + 1 if at + length < self._size else len(block)
            if complete == 0 and at + len(block) < self._size and block:
                length *= 2  # a line is longer than the block
                continue
            if not block:
                break  # another program has truncated the file
            self._take(at, block, complete)
            at, length = at + complete, BLOCK_BYTES
        lines = FileLines(self._source, self._starts, self._ends)
        tree = Tree(lines, self._parents, self._kinds, self._prompts)
        tree.has_repaired_parents = self._repaired
        return tree

    def _take(self, offset: int, block: bytes, complete: int) -> None:
        """Add the complete lines of a block."""
        found = read_outlines(block, complete) if self._number and self._places is None else None
        if found is None or not self._is_chain(found[0]):
            self._examine(offset, block[:complete])
            return
        entries, ends = found
        first = len(self._parents)
        ends = [offset + end for end in ends] if offset else ends
        starts = [end + 1 for end in ends]
        self._starts.append(offset)
        self._starts.extend(starts)
        self._starts.pop()
        self._ends.extend(ends)
        self._parents.extend(range(first - 1, first - 1 + len(entries)))
        types = [entry.type for entry in entries]
        is_usual = types.count("message") == len(types)
        self._kinds.extend(_MESSAGE * len(types) if is_usual else [CODES.get(type, 0) for type in types])
        self._add_prompts(first, entries, offset, block)
        self._previous = entries[-1].id
        self._number += len(entries)

    def _add_prompts(self, first: int, entries: Sequence[FullOutline], offset: int, block: bytes) -> None:
        """Add the prompts among the entries of a block to their index; `first` is the position of the first entry."""
        ats = [at for at, entry in enumerate(entries, first) if entry.message.role == "user"]
        lines = [block[self._starts[at] - offset : self._ends[at] - offset] for at in ats]
        self._prompts.add(ats, lines, len(self._parents))

    def _is_chain(self, found: Sequence[FullOutline]) -> bool:
        """True if each entry follows the one before it."""
        ids = [entry.id for entry in found]
        return bool(ids) and [entry.parent_id for entry in found] == [self._previous, *ids[:-1]]

    def _examine(self, offset: int, block: bytes) -> None:
        prompts: dict[int, bytes] = {}
        for start, end in _split(block):
            self._number += 1
            if self._number == 1:
                continue  # the header
            line = block[start:end]
            try:
                if not line.isascii():
                    line.decode()  # decoding an outline does not validate the rest
                entry = decode(Outline, line, nesting=None)
                if not isinstance(entry.id, str):
                    raise BadRecord("id: missing")
            except (BadRecord, UnicodeDecodeError) as error:
                reason = "not valid UTF-8" if isinstance(error, UnicodeDecodeError) else error
                self._report.add(self._number, f"unreadable, skipped ({reason})")
                continue
            self._add(entry.type, entry.id, entry.parent_id, offset + start, offset + end)
            if entry.type == "message" and may_be_prompt(line):
                prompts[len(self._parents) - 1] = line
        self._prompts.add([*prompts], [*prompts.values()], len(self._parents))

    def _add(self, kind: str, id: str, parent_id: Any, start: int, end: int) -> None:
        at = len(self._parents)
        parent = at - 1
        if parent_id != self._previous:
            if self._places is None:
                self._places = _by_id(FileLines(self._source, self._starts, self._ends))
            if parent_id is None:
                parent = ROOT
            elif isinstance(parent_id, str) and parent_id in self._places:
                parent = self._places[parent_id]
            else:
                self._repaired = True
                lost = parent_id if isinstance(parent_id, str) and parent_id else "(none is named)"
                self._report.add(self._number, f"its parent {lost} is missing; attached to the entry before it")
        if self._places is not None:
            if id in self._places:
                self._report.add(self._number, f"second entry with the id {id}")
            self._places.setdefault(id, at)
        self._previous = id
        self._starts.append(start)
        self._ends.append(end)
        self._parents.append(parent)
        self._kinds.append(CODES.get(kind, 0))


def _by_id(lines: FileLines) -> dict[str, int]:
    """Return the position of the first entry with each id."""
    places: dict[str, int] = {}
    for at in range(len(lines)):
        id = decode(Outline, lines[at], nesting=None).id
        assert isinstance(id, str)  # checked when the line was added
        places.setdefault(id, at)
    return places


class _Report:
    """Collects problems: the first few in full, then their number."""

    def __init__(self, problems: list[str]) -> None:
        self._problems = problems
        self._more = 0

    def add(self, line: int, what: str) -> None:
        if len(self._problems) < MAX_SHOWN_PROBLEMS:
            self._problems.append(f"line {line}: {what}")
        else:
            self._more += 1

    def close(self) -> None:
        if self._more:
            self._problems.append(f"and {self._more} more like these")


# Paths


def folder_for(cwd: str, agent_dir: Path) -> Path:
    """Return the folder of a project's sessions, named as by pi. Projects may share one: check the header's cwd.

    A name that is too long for a file system is cut; pi does not start there.
    """
    name = cwd.removeprefix("/").removeprefix("\\") if cwd[:1] in "/\\" else cwd
    for character in "/\\:":
        name = name.replace(character, "-")
    if len(data := os.fsencode(name)) > MAX_NAME_BYTES:
        from tau.core.checks.sha256 import sha256_hex

        digest = sha256_hex(os.fsencode(cwd))[:16]
        name = f"{data[: MAX_NAME_BYTES - 17].decode('utf-8', 'ignore')}-{digest}"
    return agent_dir / "sessions" / f"--{name}--"


def file_name(header: Header) -> str:
    time = header.timestamp.replace(":", "-").replace(".", "-")
    return f"{time}_{header.id}.jsonl"

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
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tau.core.tree import CODES, CUT_OUT, ROOT, Lines, Tree
from tau.errors import CommandError
from tau.records.base import BadRecord, decode, encode, keep, parse
from tau.records.entries import VERSION, Header
from tau.records.lines import Outline, outline
from tau.store.migrate import lifted

SHOWN = 5  # problems told one by one
HEAD = 64 * 1024  # a header is shorter than that


@dataclass
class Opened:
    """A session as it was found."""

    path: Path
    header: Header
    tree: Tree
    size: int
    problems: list[str] = field(default_factory=list)
    lifted: list[bytes] | None = None  # all lines of an older file in today's form


def open_session(path: Path) -> Opened:
    """Read a session. Raises CommandError for what is none; such a file is left alone."""
    header, data = _read(path)
    found = Opened(path, header, Tree(), len(data))
    report = _Report(found.problems)
    if header.version < VERSION:
        found.lifted = lifted([data[start:end] for start, end in _split(data)], report.add)
        data = b"\n".join(found.lifted) + b"\n"
        found.header = read_header(found.lifted[0]) or header
    found.tree = _tree(data, report)
    report.close()
    return found


def _read(path: Path) -> tuple[Header, bytes]:
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise CommandError(f"{path} is not a regular file, so it cannot be a session.")
            # The beginning first: what is no session may be of any size.
            head = os.read(handle, HEAD)
            header = next((read_header(head[start:end]) for start, end in _split(head)), None)
            if header is None:
                raise CommandError(f"{path} is not a session file; it was left untouched.")
            os.lseek(handle, 0, os.SEEK_SET)
            with os.fdopen(handle, "rb", closefd=False) as file:
                return header, file.read()
        finally:
            os.close(handle)
    except OSError as error:
        raise CommandError(f"Cannot open session {path}: {error.strerror}") from None


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


def _tree(data: bytes, report: _Report) -> Tree:
    """The tree of the entries. One whose parent is lost goes on from the entry before it in the file."""
    starts, ends, parents, kinds = array("Q"), array("Q"), array("q"), array("B")
    places: dict[str, int] | None = None  # only made when a file is no single line of descent
    previous: str | None = None
    for number, (start, end) in enumerate(_split(data), 1):
        if number == 1:
            continue  # the header
        line = data[start:end]
        try:
            if not line.isascii():
                line.decode()  # decoding an outline does not look into the rest
            entry, cut_out = outline(line)
            if not isinstance(entry.id, str):
                raise BadRecord("id: missing")
        except (BadRecord, UnicodeDecodeError) as error:
            why = "not valid UTF-8" if isinstance(error, UnicodeDecodeError) else error
            report.add(number, f"unreadable, passed over ({why})")
            continue
        at = len(parents)
        parent = at - 1
        if entry.parent_id != previous:
            places = _places(Lines(data, starts, ends)) if places is None else places
            if entry.parent_id is None:
                parent = ROOT
            elif entry.parent_id in places:
                parent = places[entry.parent_id]
            else:
                lost = entry.parent_id or "(none is named)"
                report.add(number, f"its parent {lost} is not there; joined to the entry before it")
        if places is not None:
            if entry.id in places:
                report.add(number, f"second entry with the id {entry.id}")
            places.setdefault(entry.id, at)
        previous = entry.id
        starts.append(start)
        ends.append(end)
        parents.append(parent)
        kinds.append(CODES.get(entry.type, 0) | (CUT_OUT if cut_out and entry.type == "message" else 0))
    return Tree(Lines(data, starts, ends), parents, kinds)


def _places(lines: Lines) -> dict[str, int]:
    """Where each id is for the first time."""
    places: dict[str, int] = {}
    for at in range(len(lines)):
        id = decode(Outline, lines[at]).id
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


def make_folder(path: Path) -> None:
    """A private folder, and private parents where they have to be made."""
    missing = []
    while not path.exists():
        missing.append(path)
        path = path.parent
    for folder in reversed(missing):
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)

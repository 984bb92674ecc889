"""Fallback search for machines without ripgrep: a small program around Python's `re`.

It runs as a separate process, in the folder that it searches (see ripgrep.py), and writes rows in the format that
ripgrep is asked for: a NUL after each path. All paths are relative to that folder, which the process holds open as its
working directory: an absolute path could lead elsewhere by now. Links are not followed. Files are listed in the order
of their paths; files and folders that cannot be read are skipped.

It is not a reimplementation of ripgrep. Patterns are Python regular expressions. The ignore files of one folder count
as one file, with .rgignore after .ignore after .gitignore; the nearest folder with a matching rule decides.
"""

from __future__ import annotations

import io
import json
import os
import re
import signal
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple

from tau.core.text.globs import IgnoreRules, compile_glob

HERE = "./"
MAX_SHOWN_LINE_BYTES = 2048  # bytes of a line that are written; 500 characters are less in any language
BUFFER_BYTES = 64 * 1024  # a NUL byte in the first buffer of a file makes it binary
OUTPUT_BUFFER_BYTES = 8 * 1024  # rows that are written together; the reader stops the search when it has enough
MAX_LINE_CHARACTERS = 16 * 1024 * 1024  # the rest of a longer line is not searched
NEWLINE_IN_PATTERN = "The pattern contains a newline, but grep searches line by line"

_IGNORE_FILES = (".git/info/exclude", ".gitignore", ".ignore", ".rgignore")  # a later one overrides an earlier one
_MAX_IGNORE_BYTES = 1024 * 1024
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # Windows has neither


@dataclass(frozen=True)
class SearchQuery:
    """A search of a folder or of one file. Without a pattern, a list of the files of the folder.

    `target` is relative to the folder in which the search runs. `above` is True if that folder is in a repository.
    `names` is a glob that the names of files must match; if it begins with "!", must not match.
    """

    target: str = HERE
    above: bool = False
    pattern: str | None = None
    literal: bool = False
    ignore_case: bool = False
    context: int = 0
    names: str | None = None


def main() -> None:
    """Run the query in the last argument, which is JSON. On failure: exit code 2, and the reason on stderr."""
    with suppress(AttributeError):  # Windows has no SIGPIPE
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        # With its own buffer: that of stdout is larger since Python 3.14, and rows would wait in it for slow lines.
        with io.BufferedWriter(io.FileIO(sys.stdout.fileno(), "wb", closefd=False), OUTPUT_BUFFER_BYTES) as out:
            _run(SearchQuery(**json.loads(sys.argv[-1])), out)
    except Exception as error:  # without it, a crash would have the exit code of "nothing found"
        is_ours = isinstance(error, _BadPattern)
        print(error if is_ours else f"The search failed: {type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(2)


def _run(query: SearchQuery, out: BinaryIO) -> None:
    if query.pattern is None:
        for path in _files(query):
            out.write(os.fsencode(path) + b"\0")
        return
    pattern = _pattern(query.pattern, query.literal, query.ignore_case)
    for path in [query.target] if query.target != HERE else (HERE + path for path in _files(query)):
        with suppress(OSError), io.BufferedReader(io.FileIO(path, opener=_opener), BUFFER_BYTES) as file:
            _search(query, pattern, path, file, out)


class _BadPattern(ValueError):
    """A pattern that the fallback cannot search for; the text is what the model reads."""


def _pattern(source: str, literal: bool, ignore_case: bool) -> re.Pattern[str]:
    if "\n" in source or (not literal and re.search(r"(?<!\\)(\\\\)*\\n", source)):
        raise _BadPattern(NEWLINE_IN_PATTERN)
    try:
        return re.compile(re.escape(source) if literal else source, re.IGNORECASE if ignore_case else 0)
    except (re.error, OverflowError, RecursionError) as error:
        reason = "ripgrep is not installed, so the pattern must be a Python regular expression"
        raise _BadPattern(f"The pattern is not valid: {error}. {reason}") from None


def _opener(path: str, flags: int) -> int:
    """A file that was replaced by a link or a pipe after it was listed is not followed and does not block."""
    return os.open(path, flags | _NO_FOLLOW)


class _Level(NamedTuple):
    """The ignore rules of one folder, and how a searched path becomes one relative to that folder."""

    skip: int  # characters to leave out at the beginning of the path
    prefix: str  # to put there instead, for a folder above the searched one
    rules: IgnoreRules


def _files(query: SearchQuery) -> Iterator[str]:
    names = query.names or "*"
    wanted, is_wanted = compile_glob(names.removeprefix("!")), not names.startswith("!")
    for path in _walk(query.above):
        if (wanted.fullmatch(path.rpartition("/")[2]) is not None) == is_wanted:
            yield path


def _walk(above: bool) -> Iterator[str]:
    """Yield the files below the working directory in the order of their paths, without those that are ignored."""
    stack = [("", tuple(_levels_above()) if above else ())]
    while stack:
        path, levels = stack.pop()
        if path and not path.endswith("/"):
            yield path
            continue
        with suppress(OSError):
            names = _scan(path)
            if rules := _rules(path):
                levels = (_Level(len(path), "", rules), *levels)
            stack += [(path + name, levels) for name in names if not _ignored(path + name, levels)]


def _scan(folder: str) -> list[str]:
    """List the regular files and the folders in a folder, last one first; the names of folders end with a slash."""
    path = folder.rstrip("/") or "."  # with a slash at its end, a link would be followed after all
    opened = None
    if os.scandir in os.supports_fd:  # not on Windows
        opened = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        with os.scandir(path if opened is None else opened) as entries:
            # While the folder is open, because some file systems do not give the kinds of entries in a listing.
            names = [_kept(entry) for entry in entries]
    finally:
        if opened is not None:
            os.close(opened)
    return sorted(filter(None, names), key=lambda name: name.rstrip("/"), reverse=True)


def _kept(entry: os.DirEntry[str]) -> str:
    if entry.name == ".git":
        return ""
    if entry.is_dir(follow_symlinks=False):
        return entry.name + "/"
    return entry.name if entry.is_file(follow_symlinks=False) else ""


def _ignored(path: str, levels: tuple[_Level, ...]) -> bool:
    name, is_folder = path.removesuffix("/"), path.endswith("/")
    for level in levels:
        if (ignore := level.rules.ignore(level.prefix + name[level.skip :], is_folder)) is not None:
            return ignore
    return False


def _levels_above() -> Iterator[_Level]:
    """From the folder above the searched one up to the root of the repository."""
    folder, prefix = "", ""
    for name in reversed(os.getcwd().strip(os.sep).split(os.sep)):
        if any(os.path.lexists(folder + mark) for mark in (".git", ".jj")):
            return
        folder, prefix = folder + "../", f"{name}/{prefix}"
        if rules := _rules(folder):
            yield _Level(0, prefix, rules)


def _rules(folder: str) -> IgnoreRules:
    lines: list[str] = []
    for name in _IGNORE_FILES:
        with suppress(OSError), open(folder + name, "rb", opener=_opener) as file:
            text = file.read(_MAX_IGNORE_BYTES).decode("utf-8-sig", "surrogateescape")
            lines += text.split("\n")
    return IgnoreRules(lines)


def _search(
    query: SearchQuery, pattern: re.Pattern[str], path: str, file: io.BufferedReader[io.FileIO], out: BinaryIO
) -> None:
    is_named, context = query.target != HERE, query.context
    head = file.peek()
    is_utf16 = head[:2] in (b"\xff\xfe", b"\xfe\xff")
    nul = -1 if is_utf16 else head.find(b"\0")
    if nul >= 0 and not is_named:
        return
    name = os.fsencode(path)
    encoding, errors = ("utf-16", "replace") if is_utf16 else ("utf-8-sig", "surrogateescape")
    before: deque[str] = deque(maxlen=context)
    after = 0  # lines of context that are still to be written
    for number, line in enumerate(_lines(io.TextIOWrapper(file, encoding, errors, newline="\n")), 1):
        if nul < 0 and "\0" in line:
            nul = BUFFER_BYTES  # or later
            if not is_named:
                return
        if pattern.search(line):
            if nul >= 0:
                out.write(b'%s: binary file matches (found "\\0" byte around offset %d)\n' % (name, nul))
                return
            for back, earlier in enumerate(before):
                _write(out, name, number - len(before) + back, b"-", earlier)
            before.clear()
            _write(out, name, number, b":", line)
            after = context
        elif after:
            _write(out, name, number, b"-", line)
            after -= 1
        elif context:
            before.append(line[: MAX_SHOWN_LINE_BYTES + 1])


def _lines(text: io.TextIOWrapper) -> Iterator[str]:
    while line := text.readline(MAX_LINE_CHARACTERS):
        yield line.removesuffix("\n")
        while line and not line.endswith("\n"):
            line = text.readline(MAX_LINE_CHARACTERS)


def _write(out: BinaryIO, path: bytes, number: int, separator: bytes, line: str) -> None:
    shown = line[: MAX_SHOWN_LINE_BYTES + 1].encode("utf-8", "surrogateescape")[: MAX_SHOWN_LINE_BYTES + 1]
    out.write(b"%s\0%d%s%s\n" % (path, number, separator, shown))

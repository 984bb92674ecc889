"""The files of the project for `@`: listed in a thread, searched while the list still grows.

Paths are kept as text blocks with one path per line, so that a search is a few passes of `str.find` over megabytes
instead of one comparison per file. Ignore files count, as in the tools grep and find.
"""

from __future__ import annotations

import os
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

from tau.concurrency.helper_commands import helper_command, program_output
from tau.records.base import Value
from tau.screen.fuzzy import fuzzy_rank, subsequence_pattern

MAX_FILES = 400_000
MAX_AGE_S = 10.0  # an older list is made again when it is used
MAX_HITS = 500  # per kind of match; the best of them are shown


class Block(Value):
    """Paths, each with a line feed before it and one after the last; `lower` has the same length."""

    text: str
    lower: str


class FileIndex:
    def __init__(self, cwd: str) -> None:
        self.cwd = cwd
        self._blocks: list[Block] = []  # replaced or appended to, never changed
        self._listing: threading.Thread | None = None
        self._listed_at = float("-inf")
        self._complete = threading.Event()

    def refresh(self) -> None:
        """List the files again in a thread, unless the list is young. Returns at once."""
        running = self._listing is not None and self._listing.is_alive()
        if not running and time.monotonic() - self._listed_at > MAX_AGE_S:
            self._listing = threading.Thread(target=self._list, name="file index", daemon=True)
            self._listing.start()

    def wait(self, timeout: float) -> bool:
        """Wait for the first complete list. Blocks."""
        return self._complete.wait(timeout)

    @property
    def complete(self) -> bool:
        return self._complete.is_set()

    def _list(self) -> None:
        first = not self._complete.is_set()
        blocks: list[Block] = self._blocks if first else []  # the first list can be searched while it grows
        folders: set[str] = set()
        count = 0
        for paths in list_files(self.cwd):
            count += len(paths)
            blocks.append(_block(paths, folders))
            if count > MAX_FILES:
                break
        self._blocks = blocks
        self._listed_at = time.monotonic()
        self._complete.set()

    def search(self, query: str, limit: int) -> Iterator[list[str]]:
        """Yield the best paths for a query, then better lists, if any. A folder ends with a slash. Blocks.

        Matches of the whole query come first, and at once; scattered matches need a slower pass.
        """
        wanted = query.lower()
        hits = self._containing(wanted)
        found = fuzzy_rank(query, hits, str, limit)
        more = len(found) < limit and len(wanted) > 1
        if found or not more:
            yield found
        if more:
            hits.update(dict.fromkeys(self._scattered(wanted)))
            yield fuzzy_rank(query, hits, str, limit)

    def _containing(self, wanted: str) -> dict[str, None]:
        """Paths with a name that begins with the text, then paths that contain it."""
        hits: dict[str, None] = {}
        for needles in ((f"\n{wanted}", f"/{wanted}"), (wanted,)):
            limit = len(hits) + MAX_HITS
            for block in tuple(self._blocks):
                for needle in needles:
                    if len(hits) >= limit:
                        break
                    hits.update(dict.fromkeys(_lines_with(block, needle, limit - len(hits))))
        return hits

    def _scattered(self, wanted: str) -> Iterator[str]:
        pattern = subsequence_pattern(wanted.replace(" ", ""))
        count = 0
        for block in tuple(self._blocks):
            at = 0
            while found := pattern.search(block.lower, at):
                line, at = _line_at(block, found.start())
                yield line
                count += 1
                if count >= MAX_HITS:
                    return

    def top_level(self, limit: int) -> list[str]:
        """The entries of the project folder: from the list, or from the folder while there is no list."""
        if self.complete:
            pattern = re.compile(r"\n([^/\n]+/?)(?=\n)")
            found = {match[1] for block in self._blocks for match in pattern.finditer(block.text)}
        else:
            found = set()
            with suppress(OSError), os.scandir(self.cwd) as entries:
                found = {_name(entry) for entry in entries if entry.name != ".git"}
        return sorted(found, key=lambda name: (name.startswith("."), not name.endswith("/"), name.lower()))[:limit]


def _name(entry: os.DirEntry[str]) -> str:
    try:
        return f"{entry.name}/" if entry.is_dir() else entry.name
    except OSError:
        return entry.name


def _lines_with(block: Block, needle: str, limit: int) -> Iterator[str]:
    at = block.lower.find(needle)
    while at >= 0 and limit > 0:
        # A needle that begins with the line feed belongs to the line after it.
        line, end = _line_at(block, at + 1 if needle[0] == "\n" else at)
        yield line
        limit -= 1
        at = block.lower.find(needle, end)


def _line_at(block: Block, at: int) -> tuple[str, int]:
    """The line around an offset, and where it ends."""
    end = block.text.find("\n", at)
    return block.text[block.text.rfind("\n", 0, at) + 1 : end], end


def _block(paths: list[str], folders: set[str]) -> Block:
    """A block of paths, and of the folders in them that no block has yet."""
    lines: list[str] = []
    for path in paths:
        folder = path
        above = []
        while (folder := folder.rpartition("/")[0]) and folder not in folders:
            folders.add(folder)
            above.append(f"{folder}/")
        lines += [*reversed(above), path]
    text = "\n".join(["", *lines, ""])
    lower = text.lower()
    if len(lower) != len(text):  # a few letters have a lower case of two characters
        lower = "".join(one if len(one) == 1 else "?" for one in map(str.lower, text))
    return Block(text, lower)


def list_files(cwd: str) -> Iterator[list[str]]:
    """Yield the paths of files below a folder, relative to it, in portions. Blocks."""
    from tau.tools.ripgrep import find_ripgrep, search_command
    from tau.tools.search import SearchQuery

    command = search_command(SearchQuery(above=_in_repository(cwd)), find_ripgrep(cwd))
    try:
        process = subprocess.Popen(
            command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
    except OSError:
        return
    rest = b""
    with process, helper_command(process):
        for _, data in program_output(process):
            *names, rest = (rest + data).split(b"\0")
            if names:
                yield [path for path in map(_path, names) if "\n" not in path]


def _path(name: bytes) -> str:
    return os.fsdecode(name).removeprefix("./").replace(os.sep, "/")


def _in_repository(folder: str) -> bool:
    while not any(os.path.exists(os.path.join(folder, mark)) for mark in (".git", ".jj")):
        above = os.path.dirname(folder)
        if above == folder:
            return False
        folder = above
    return True

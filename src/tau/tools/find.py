"""Find files and folders by their names, for a model.

Results are in the order of the paths, and when there are too many they are the
first ones, so the same question has the same answer. A folder is found if a file
in it can be: one that is empty, or in which everything is ignored, is not.
"""

from __future__ import annotations

import os
import string
from typing import Any

from tau.core.globs import BadGlob, anywhere, compiled
from tau.core.truncate import MAX_BYTES
from tau.errors import ToolError
from tau.records.events import Outcome
from tau.records.messages import Text
from tau.tools import Tool, ToolContext
from tau.tools.ripgrep import installed, listen, place, words
from tau.tools.rows import Notice, listed, whole, with_note
from tau.tools.search import Query

LIMIT = 1000
MOST = 50_000  # results that are kept, whatever the limit: no more than 50 KiB are shown
_PLAIN = f"{string.ascii_letters}{string.digits}._-"
WITHOUT_RIPGREP = "Searched without ripgrep: slower."
KNOWN = 100_000  # folders that are remembered, so as not to look at them again


class First:
    """The first of the paths that come, in their order; memory does not grow with what comes."""

    def __init__(self, count: int) -> None:
        self.more = False
        self._count = count
        self._kept: set[str] = set()
        self._last: str | None = None  # there are enough before this one

    def add(self, paths: list[str]) -> None:
        if (last := self._last) is not None:
            before = [path for path in paths if _order(path) <= last]
            self.more = self.more or len(before) < len(paths)
            paths = before
        self._kept.update(paths)
        if len(self._kept) > 2 * self._count + 10_000:
            self.paths()

    def paths(self) -> list[str]:
        """Those that came so far. What is beyond them is forgotten."""
        paths = sorted(self._kept, key=_order)
        if len(paths) > self._count:
            del paths[self._count :]
            self.more = True
            self._kept = set(paths)
            self._last = _order(paths[-1])
        return paths


def _order(path: str) -> str:
    """A folder before what is in it, and that before its neighbours."""
    return path.rstrip("/").replace("/", "\0")


class Names:
    """What a listing writes: its files, and the folders they are in. There may be millions: they are taken by lists."""

    def __init__(self, found: First, wanted: Wanted) -> None:
        self._found = found
        self._wanted = wanted
        self._folders: set[str] = {""}
        self._rest = b""

    def take(self, data: bytes) -> bool:
        whole, nul, rest = (self._rest + data).rpartition(b"\0")
        self._rest = rest
        if nul:
            text = os.fsdecode(whole)
            paths = text.split("\0")
            self._found.add(self._wanted.files(paths))
            if self._wanted.may_be_folder_in(text):
                self._take_folders({path.rpartition("/")[0] for path in paths} - self._folders)
        return True

    def _take_folders(self, folders: set[str]) -> None:
        if len(self._folders) > KNOWN:
            self._folders = {""}
        for folder in folders:
            while folder not in self._folders:
                self._folders.add(folder)
                if self._wanted.is_folder(folder):
                    self._found.add([f"{folder}/"])
                folder = folder.rpartition("/")[0]


class Wanted:
    """The paths that a glob looks for.

    A glob without a slash is for names, one with a slash for the end of the path,
    one that begins with a slash for the absolute path. One that ends with a slash
    is for folders. Without a capital letter, case makes no difference.
    """

    def __init__(self, glob: str, folder: str) -> None:
        name = glob.removeprefix("./").removesuffix("/")
        is_absolute = name.startswith("/")
        try:
            pattern = compiled(name if is_absolute else anywhere(name), ignore_case=not any(map(str.isupper, name)))
        except BadGlob as error:
            raise ToolError(f"The pattern {glob!r} cannot be read: {error}") from None
        self._matches = pattern.fullmatch
        self._above = folder.rstrip("/") + "/" if is_absolute else ""
        self._folders_only = glob.endswith("/")
        # A folder that matches ends like the glob, and what is in it has a slash there.
        self._end = name[len(name.rstrip(_PLAIN)) :].lower() + "/"

    def files(self, paths: list[str]) -> list[str]:
        if self._folders_only:
            return []
        if above := self._above:
            return [path for path in paths if self._matches(above + path)]
        return list(filter(self._matches, paths))

    def may_be_folder_in(self, text: str) -> bool:
        """A quick look at many paths, so that most need no other."""
        return self._end in text.lower()

    def is_folder(self, path: str) -> bool:
        return self._matches(self._above + path) is not None


async def run(args: dict[str, Any], context: ToolContext) -> Outcome:
    """A cancelled call leaves no search behind."""
    return await search(args, context, installed(context.cwd))


async def search(args: dict[str, Any], context: ToolContext, rg: str | None) -> Outcome:
    """With the ripgrep at this path, or without one."""
    machine = context.machine
    limit = whole(args, "limit", LIMIT, least=1)
    where = await machine.in_thread(lambda: place(context, args.get("path")))
    with where.folder:
        if where.is_file:
            raise ToolError(f"Not a directory: {where.name}")
        found = First(min(limit, MOST))
        names = Names(found, Wanted(args["pattern"], where.name))
        complaint = await listen(machine, words(Query(above=where.above), rg), where.folder, names.take)
    note = None if rg else WITHOUT_RIPGREP
    paths = found.paths()
    if not paths:
        if complaint:
            raise ToolError(complaint)
        return with_note(Outcome([Text("No files found matching pattern")]), note)
    more = f"{limit} results limit reached. Use limit={2 * limit} for more, or refine pattern"
    outcome = listed(
        (os.fsencode(path).decode("utf-8", "replace") for path in paths),
        Notice("resultLimitReached", limit, more) if found.more and limit <= MOST else None,
    )
    return with_note(outcome, note)


TOOL = Tool(
    name="find",
    description=(
        f"Find files and folders whose names match a glob. Returns their paths from the searched folder, in order,"
        f" folders with a slash at the end: at most {LIMIT} unless limit is set, and {MAX_BYTES // 1024}KB."
        f" Hidden files are found, those that .gitignore names are not."
    ),
    snippet="Find files by glob (leaves out what .gitignore names)",
    parameters={
        "type": "object",
        "properties": {
            "pattern": {"type": "string", "description": "A glob such as '*.py', '**/*.json' or 'src/**/*.test.ts'"},
            "path": {"type": "string", "description": "The folder to search (default: the working directory)"},
            "limit": {"type": "number", "description": f"How many results to return (default: {LIMIT})"},
        },
        "required": ["pattern"],
    },
    run=run,
)

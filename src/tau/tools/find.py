"""The find tool: finds files and folders by glob.

Results are sorted by path, and if there are too many, the first ones are returned, so the same query always has the
same result. A folder is found only if it contains a file that can be found: empty folders, and folders in which
everything is ignored, are not.
"""

from __future__ import annotations

import os
import string
from typing import Any

from tau.core.text.globs import BadGlob, at_any_depth, compile_glob
from tau.core.text.truncate import MAX_BYTES
from tau.errors import ToolError
from tau.records.events import Outcome
from tau.records.messages import Text
from tau.tools import Tool, ToolContext
from tau.tools.listing import Notice, integer_argument, list_result, with_note
from tau.tools.ripgrep import find_ripgrep, run_search, search_command, search_target
from tau.tools.search import SearchQuery

DEFAULT_LIMIT = 1000
MAX_RESULTS = 50_000  # results that are kept, whatever the limit; at most 50 KiB are shown
_PLAIN = f"{string.ascii_letters}{string.digits}._-"
WITHOUT_RIPGREP = "Searched without ripgrep: slower."
MAX_KNOWN_FOLDERS = 100_000  # folders that are remembered, so that each is examined once


class FirstPaths:
    """Keeps the first paths in sort order. Memory does not grow with the number of paths added."""

    def __init__(self, count: int) -> None:
        self.more = False
        self._count = count
        self._kept: set[str] = set()
        self._last: str | None = None  # enough paths sort before this one

    def add(self, paths: list[str]) -> None:
        if (last := self._last) is not None:
            before = [path for path in paths if _order(path) <= last]
            self.more = self.more or len(before) < len(paths)
            paths = before
        self._kept.update(paths)
        if len(self._kept) > 2 * self._count + 10_000:
            self.paths()

    def paths(self) -> list[str]:
        """Return the first paths added so far, sorted, and drop the others."""
        paths = sorted(self._kept, key=_order)
        if len(paths) > self._count:
            del paths[self._count :]
            self.more = True
            self._kept = set(paths)
            self._last = _order(paths[-1])
        return paths


def _order(path: str) -> str:
    """Sort key: a folder comes before its contents, and those before the next sibling of the folder."""
    return path.rstrip("/").replace("/", "\0")


class PathCollector:
    """Parses the output of a listing into files and their folders, in batches, because there may be millions."""

    def __init__(self, found: FirstPaths, wanted: GlobFilter) -> None:
        self._found = found
        self._wanted = wanted
        self._folders: set[str] = {""}
        self._rest = b""

    def take(self, data: bytes) -> bool:
        complete, nul, rest = (self._rest + data).rpartition(b"\0")
        self._rest = rest
        if nul:
            text = os.fsdecode(complete)
            paths = text.split("\0")
            self._found.add(self._wanted.files(paths))
            if self._wanted.may_be_folder_in(text):
                self._take_folders({path.rpartition("/")[0] for path in paths} - self._folders)
        return True

    def _take_folders(self, folders: set[str]) -> None:
        if len(self._folders) > MAX_KNOWN_FOLDERS:
            self._folders = {""}
        for folder in folders:
            while folder not in self._folders:
                self._folders.add(folder)
                if self._wanted.is_folder(folder):
                    self._found.add([f"{folder}/"])
                folder = folder.rpartition("/")[0]


class GlobFilter:
    """Matches paths against a glob.

    A glob without a slash matches names, one with a slash the end of the path, one that begins with a slash the
    absolute path. A glob that ends with a slash matches folders only. A glob without a capital letter ignores case.
    """

    def __init__(self, glob: str, folder: str) -> None:
        name = glob.removeprefix("./").removesuffix("/")
        is_absolute = name.startswith("/")
        try:
            pattern = compile_glob(
                name if is_absolute else at_any_depth(name), ignore_case=not any(map(str.isupper, name))
            )
        except BadGlob as error:
            raise ToolError(f"The pattern {glob!r} cannot be read: {error}") from None
        self._matches = pattern.fullmatch
        self._above = folder.rstrip("/") + "/" if is_absolute else ""
        self._folders_only = glob.endswith("/")
        # A folder that matches ends like the glob; paths of files in it have a slash after that.
        self._end = name[len(name.rstrip(_PLAIN)) :].lower() + "/"

    def files(self, paths: list[str]) -> list[str]:
        if self._folders_only:
            return []
        if above := self._above:
            return [path for path in paths if self._matches(above + path)]
        return list(filter(self._matches, paths))

    def may_be_folder_in(self, text: str) -> bool:
        """Fast test of many paths at once: False if none of their folders can match."""
        return self._end in text.lower()

    def is_folder(self, path: str) -> bool:
        return self._matches(self._above + path) is not None


async def run(args: dict[str, Any], context: ToolContext) -> Outcome:
    """Run the tool. A cancelled call kills its search process."""
    return await search(args, context, find_ripgrep(context.cwd))


async def search(args: dict[str, Any], context: ToolContext, rg: str | None) -> Outcome:
    """Search with the ripgrep at this path, or with the fallback."""
    machine = context.machine
    limit = integer_argument(args, "limit", DEFAULT_LIMIT, least=1)
    where = await machine.in_thread(lambda: search_target(context, args.get("path")))
    with where.folder:
        if where.is_file:
            raise ToolError(f"Not a directory: {where.name}")
        found = FirstPaths(min(limit, MAX_RESULTS))
        names = PathCollector(found, GlobFilter(args["pattern"], where.name))
        error_text = await run_search(
            machine, search_command(SearchQuery(above=where.above), rg), where.folder, names.take
        )
    note = None if rg else WITHOUT_RIPGREP
    paths = found.paths()
    if not paths:
        if error_text:
            raise ToolError(error_text)
        return with_note(Outcome([Text("No files found matching pattern")]), note)
    more = f"{limit} results limit reached. Use limit={2 * limit} for more, or refine pattern"
    outcome = list_result(
        (os.fsencode(path).decode("utf-8", "replace") for path in paths),
        Notice("resultLimitReached", limit, more) if found.more and limit <= MAX_RESULTS else None,
    )
    return with_note(outcome, note)


TOOL = Tool(
    name="find",
    description=(
        f"Find files and folders whose names match a glob. Returns their paths, relative to the searched folder and"
        f" sorted; folders end with a slash. Returns at most {DEFAULT_LIMIT} results unless limit is set, and at most"
        f" {MAX_BYTES // 1024}KB. Hidden files are included; files ignored by .gitignore are not."
    ),
    snippet="Find files by glob (respects .gitignore)",
    parameters={
        "type": "object",
        "properties": {
            "pattern": {"type": "string", "description": "A glob such as '*.py', '**/*.json' or 'src/**/*.test.ts'"},
            "path": {"type": "string", "description": "The folder to search (default: the working directory)"},
            "limit": {
                "type": "number",
                "description": f"Maximum number of results to return (default: {DEFAULT_LIMIT})",
            },
        },
        "required": ["pattern"],
    },
    run=run,
)

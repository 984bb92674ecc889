"""The real paths that the arguments of a tool call may lead to. All functions read the file system and block."""

from __future__ import annotations

import os
from urllib.parse import unquote

from tau.core.checks.permissions import escaped
from tau.tools.paths import resolve, resolve_existing

MAX_LINKS = 40  # the limit of the operating system


def home() -> str:
    return os.path.realpath(os.path.expanduser("~"))


def possible_paths(path: str, cwd: str) -> list[str]:
    """Return the absolute paths that a tool may derive from a path. Raises ToolError."""
    found = []
    for one in dict.fromkeys((path, *_paths_of_url(path))):
        found += [resolve(one, cwd), resolve_existing(one, cwd), resolve_existing(one, cwd, os.path.exists)]
        # How other tools read a path is unknown; the system follows a link before it applies a ".." after it.
        literal = os.path.join(cwd, os.path.expanduser(one))
        if not one.startswith("@") or os.path.lexists(literal):
            found.append(literal)
    return list(dict.fromkeys(found))


def _paths_of_url(path: str) -> list[str]:
    """Return the paths that a tool which understands URLs may derive from file://…, percent-decoded and not."""
    scheme, _, rest = path.partition(":")
    if scheme.lower() != "file" or not rest.startswith("/"):
        return []
    file = rest[rest.find("/", 2) :] if rest.startswith("//") else rest
    return [rest.removeprefix("//"), file, unquote(file)]


def can_be_followed(name: str) -> bool:
    """False if a link on the path cannot be read, such as /proc/1/root by anyone but root. Blocks."""
    return _follow(name)[1]  # os.path.realpath does not tell: since Python 3.13 it ignores such a link


def ways_to(name: str) -> list[str]:
    """Return each path on the way from the given one to its target, one per link that is followed. Blocks."""
    return _follow(name)[0]


def _follow(name: str) -> tuple[list[str], bool]:
    """Return the paths on the way, and whether every link could be read."""
    found, readable = [os.path.normpath(name)], True
    here, rest, links = "/", name.split("/")[::-1], 0
    while rest:
        part = rest.pop()
        there = os.path.normpath(os.path.join(here, part))
        if part not in ("", ".", "..") and links < MAX_LINKS and os.path.islink(there):
            links += 1
            found.append(os.path.normpath("/".join((there, *rest[::-1]))))
            try:
                to = os.readlink(there)
            except OSError:
                here, readable = there, False
                continue
            rest += to.split("/")[::-1]
            here = "/" if to.startswith("/") else here
        else:
            here = there
    return list(dict.fromkeys(found)), readable


def with_link_targets(glob: str, cwd: str) -> list[str]:
    """Return a glob, and the same with the links of its fixed folders resolved: rules are matched with real paths."""
    start = home() + glob[1:] if glob == "~" or glob.startswith("~/") else os.path.join(cwd, glob)
    parts = start.split("/")
    plain_until = next((at for at, part in enumerate(parts) if set(part) & set("*?[{\\")), len(parts))
    if ".." in parts:
        return [glob]
    fixed = os.path.normpath("/".join(parts[:plain_until]) or "/")
    if not can_be_followed(fixed) or (real := os.path.realpath(fixed)) == fixed:
        return [glob]
    return [glob, "/".join((escaped(real.rstrip("/")), *parts[plain_until:]))]

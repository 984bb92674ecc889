"""Filters: which files of a package are used, by the lists in a manifest and in settings.

    "skills/one", "*.ts"    only what matches one of these
    "!glob"                 without what matches
    "+path", "-path"        with exactly this, without exactly this, whatever the globs say

The rules and the globs are those of pi 0.87.1: a glob is compared with the path below the package, with the name and
with the whole path; a skill also goes by its folder. A name that begins with a dot is matched only by a dot.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache

SKILL_FILE = "SKILL.md"
MAX_ALTERNATIVES = 256  # expansions of the braces of one glob
SIGNS = ("!", "+", "-")


def is_glob(entry: str) -> bool:
    return "*" in entry or "?" in entry


def chosen(paths: Sequence[str], entries: Sequence[str], root: str) -> list[str]:
    """Return the paths that a list of entries selects, in the order of `paths`. Paths are absolute."""
    plain = [entry for entry in entries if not entry.startswith(SIGNS)]
    kept = set(paths) if not plain else set(_matching(paths, plain, root))
    kept -= set(_matching(paths, _signed(entries, "!"), root))
    kept |= set(_named(paths, _signed(entries, "+"), root))
    kept -= set(_named(paths, _signed(entries, "-"), root))
    return [path for path in paths if path in kept]


def overrides(paths: Sequence[str], entries: Sequence[str], root: str) -> dict[str, bool]:
    """Return what a list with `autoload: false` says about paths, later entries first in authority."""
    result: dict[str, bool] = {}
    for entry in entries:
        sign, target = (entry[0], entry[1:]) if entry.startswith(SIGNS) else ("", entry)
        find = _named if sign in ("+", "-") and sign else _matching
        for path in find(paths, [target], root):
            result[path] = sign not in ("-", "!")
    return result


def _signed(entries: Iterable[str], sign: str) -> list[str]:
    return [entry[1:] for entry in entries if entry.startswith(sign)]


def _matching(paths: Sequence[str], globs: Sequence[str], root: str) -> list[str]:
    return [
        path for path in paths if any(matches(name) for matches in map(_matcher, globs) for name in _names(path, root))
    ]


def _named(paths: Sequence[str], exact: Sequence[str], root: str) -> list[str]:
    wanted = {entry[2:] if entry.startswith("./") else entry for entry in exact}
    return [path for path in paths if wanted and not wanted.isdisjoint(_names(path, root, alone=False))]


def _names(path: str, root: str, *, alone: bool = True) -> list[str]:
    """The texts that stand for a file: below the package, whole and, if `alone`, its name."""
    folder, _, name = path.rpartition("/")
    names = [_below(path, root), path, *([name] if alone else ())]
    if name == SKILL_FILE:
        names += [_below(folder, root), folder, *([folder.rpartition("/")[2]] if alone else ())]
    return names


def _below(path: str, root: str) -> str:
    return path.removeprefix(root.rstrip("/") + "/") if path != root else ""


@cache
def _matcher(glob: str) -> Callable[[str], re.Match[str] | None]:
    pattern = "|".join(_regex(one) for one in _alternatives(glob))
    try:
        return re.compile(pattern, re.DOTALL).fullmatch
    except re.error:
        return re.compile(re.escape(glob)).fullmatch


def _alternatives(glob: str) -> list[str]:
    """Expand braces: `a{b,c}` is `ab` and `ac`."""
    found = [glob]
    while True:
        at = next((at for at, one in enumerate(found) if re.search(r"\{[^{}]*,[^{}]*\}", one)), None)
        if at is None or len(found) > MAX_ALTERNATIVES:
            return found
        match = re.search(r"\{([^{}]*,[^{}]*)\}", found[at])
        assert match is not None
        one = found[at]
        found[at : at + 1] = [one[: match.start()] + word + one[match.end() :] for word in match[1].split(",")]


def _regex(glob: str) -> str:
    parts = glob.split("/")
    written = ""
    for at, part in enumerate(parts):
        last = at == len(parts) - 1
        if part == "**":
            written += r"(?:[^./][^/]*(?:/[^./][^/]*)*)?" if last else r"(?:[^./][^/]*/)*"
            continue
        written += _segment(part) + ("" if last else "/")
    return written


def _segment(part: str) -> str:
    """The regex of the part of a glob between two slashes.

    What stands between two stars is taken where it occurs first (an atomic group): trying all places would take for
    ever for a glob with many stars.
    """
    text = re.sub(r"\*+", "*", part)
    guard = r"(?!\.)" if part[:1] in ("*", "?", "[") else ""
    if text == "*":
        return f"{guard}[^/]+"
    pieces, at = [guard], 0
    while at < len(text):
        character = text[at]
        closing = text.find("]", at + 2) if character == "[" else -1
        if character == "*":
            pieces.append("")
        elif character == "?":
            pieces[-1] += "[^/]"
        elif closing > 0:
            inside = text[at + 1 : closing].replace("\\", "\\\\")
            pieces[-1] += f"[{'^' + inside[1:] if inside[0] in '!^' else inside}]"
            at = closing
        else:
            pieces[-1] += re.escape(character)
        at += 1
    first, *between = pieces
    if not between:
        return first
    return first + "".join(f"(?>[^/]*?{piece})" for piece in between[:-1]) + f"[^/]*{between[-1]}"

"""Globs and ignore files, read as ripgrep reads them.

`*` and `?` stop at a slash, `**` between slashes does not, `[!a]` may be one,
`{a,b}` nests. A glob is always matched with a whole path. In ignore files `?`
and a class stand for a byte of UTF-8, as in git, elsewhere for a character.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from tau.records.base import Value


class BadGlob(ValueError):
    """A glob that means nothing. The text says why."""


def compiled(glob: str, *, ignore_case: bool = False, across: bool = True) -> re.Pattern[str]:
    """What a whole path must look like. Not `across`: no class in it stands for a slash."""
    return re.compile(_Reader(glob, across=across).read(), re.DOTALL | (re.IGNORECASE if ignore_case else 0))


def anywhere(glob: str) -> str:
    """The same glob for what lies at any depth."""
    return glob if glob.startswith("**/") or glob == "**" else f"**/{glob}"


def regex(glob: str) -> str:
    """For `fullmatch`, with DOTALL."""
    return _Reader(glob).read()


# What stands for `**`, by what it touches.
_ALL = ".*"
_PREFIX = "(?:/?|.*/)"
_MIDDLE = "(?:/|/.*/)"
_SUFFIX = "/.*"


class _Reader:
    def __init__(self, glob: str, *, across: bool = True) -> None:
        self._glob = glob
        self._before_class = "" if across else "(?!/)"
        self._at = 0
        self._groups: list[list[list[str]]] = [[[]]]  # open braces; their alternatives; the parts of each

    def read(self) -> str:
        while self._at < len(self._glob):
            self._token()
        if len(self._groups) > 1:
            raise BadGlob("there is a { without its }")
        parts = self._groups[0][0]
        return _ALL if parts == [_PREFIX] else "".join(parts)

    @property
    def _parts(self) -> list[str]:
        return self._groups[-1][-1]

    def _next(self, ahead: int = 0) -> str:
        return self._glob[self._at + ahead : self._at + ahead + 1]

    def _token(self) -> None:
        letter = self._next()
        self._at += 1
        match letter:
            case "?":
                self._parts.append("[^/]")
            case "*":
                self._star()
            case "[":
                self._class()
            case "{":
                self._groups.append([[]])
            case "}":
                self._close()
            case "," if len(self._groups) > 1:
                self._groups[-1].append([])
            case "\\":
                if not self._next():
                    raise BadGlob("it ends with a \\ that escapes nothing")
                self._parts.append(re.escape(self._next()))
                self._at += 1
            case _:
                self._parts.append(re.escape(letter))

    def _close(self) -> None:
        if len(self._groups) == 1:
            raise BadGlob("there is a } without its {")
        texts = filter(
            None, ("".join(parts) for parts in self._groups.pop())
        )  # an empty alternative counts for nothing
        text = "|".join(texts)
        self._parts.append(f"(?:{text})" if text else "")

    def _star(self) -> None:
        before = self._glob[self._at - 2 : self._at - 1] if self._at > 1 else ""
        if self._next() != "*":
            self._parts.append("[^/]*")
            return
        self._at += 1
        after, inside = self._next(), len(self._groups) > 1
        if not self._parts and after in ("", "/"):
            self._parts.append(_PREFIX)
            self._at += 1
            return
        alone_before = bool(self._parts) and (before == "/" or (inside and before in (",", "{")))
        if alone_before and (not after or (inside and after in (",", "}"))):
            self._double(_SUFFIX)
        elif alone_before and after == "/":
            self._at += 1
            self._double(_MIDDLE)
        else:
            self._parts.append("[^/]*")

    def _double(self, kind: str) -> None:
        """`**` takes the slash before it along; one `**/` after another adds nothing."""
        last = self._parts.pop()
        self._parts.append(last if last in (_PREFIX, _SUFFIX) else kind)

    def _class(self) -> None:
        negated = self._next() in ("!", "^") and self._next() != ""
        self._at += negated
        ranges: list[tuple[str, str]] = []
        first, in_range = True, False
        while first or self._next() != "]":
            letter = self._next()
            if not letter:
                raise BadGlob("there is a [ without its ]")
            self._at += 1
            if in_range:
                low = ranges.pop()[0]
                if low > letter:
                    raise BadGlob(f"in the class {low}-{letter} the first is greater than the last")
                ranges.append((low, letter))
                in_range = False
            elif letter == "-" and not first:
                in_range = True
            else:
                ranges.append((letter, letter))
            first = False
        self._at += 1
        if in_range:
            ranges.append(("-", "-"))
        text = "".join(f"{re.escape(low)}-{re.escape(high)}" for low, high in ranges)
        self._parts.append(f"{self._before_class}[{'^' if negated else ''}{text}]")


class Rule(Value):
    """A line of an ignore file."""

    regex: str
    matches: Callable[[str], object]
    keeps: bool  # it began with "!"
    folders_only: bool


def rule(line: str) -> Rule | None:
    """What a line of an ignore file says; None for a comment, a blank line and what nobody can read."""
    if line.startswith("#"):
        return None
    if not line.endswith("\\ "):
        line = line.rstrip()
    try:
        return pattern(line) if line else None
    except BadGlob:
        return None


def pattern(line: str) -> Rule:
    """A glob as in an ignore file: a slash in it ties it to the folder of the file, one at its end to folders."""
    keeps = anchored = folders_only = False
    if line.startswith(("\\!", "\\#")):
        line = line[1:]
    else:
        keeps = line.startswith("!")
        line = line[keeps:]
        anchored = line.startswith("/")
        line = line[anchored:]
    if line.endswith("/"):
        folders_only = True
        line = line[:-1].removesuffix("\\")
    if not anchored and "/" not in line:
        line = anywhere(line)
    if line.endswith("/**"):
        line += "/*"  # what is in the folder, and not the folder
    text = regex(line)
    return Rule(text, re.compile(text, re.DOTALL).fullmatch, keeps, folders_only)


class Rules:
    """The lines of an ignore file; the last one that fits decides."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._rules = [found for line in lines if (found := rule(_bytes(line)))][::-1]
        # Most paths fit no rule at all, and one look should be enough to know.
        self._any = re.compile("|".join({f"(?:{found.regex})" for found in self._rules}), re.DOTALL)

    def __bool__(self) -> bool:
        return bool(self._rules)

    def ignore(self, path: str, is_folder: bool) -> bool | None:
        """Whether to ignore a path, given from the folder of the file; None if the file does not say."""
        path = _bytes(path)
        if not self._rules or not self._any.fullmatch(path):
            return None
        for found in self._rules:
            if (is_folder or not found.folders_only) and found.matches(path):
                return not found.keeps
        return None


def _bytes(text: str) -> str:
    """A character for each byte."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("latin-1")

"""Globs and ignore files with the semantics of ripgrep: a search without ripgrep must find the same files.

`*` and `?` stop at a slash, `**` between slashes does not, `[!a]` may match one, `{a,b}` nests. A glob always matches
a whole path. In ignore files `?` and a class match a byte of UTF-8, as in git; elsewhere a character.

The regexes take no time that is exponential in the number of stars: what follows a star is matched at the first place
where it fits, and nowhere else, if a later star makes every later place as good. Few stars may be of another kind.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import count

from tau.records.base import Value


class BadGlob(ValueError):
    """An invalid glob. The text says why."""


def compile_glob(glob: str, *, ignore_case: bool = False, across: bool = True) -> re.Pattern[str]:
    """Compile a glob to a regex for `fullmatch` of a path. Not `across`: classes do not match a slash."""
    return re.compile(_Reader(glob, across=across).read(), re.DOTALL | (re.IGNORECASE if ignore_case else 0))


def at_any_depth(glob: str) -> str:
    """The same glob, matching at any depth."""
    return glob if glob.startswith("**/") or glob == "**" else f"**/{glob}"


def glob_regex(glob: str) -> str:
    """The regex of a glob, for `fullmatch` with DOTALL."""
    return _Reader(glob).read()


MAX_BACKTRACKING = 2  # stars before braces, in braces, or before a class that may match a slash
_STAR = "[^/]*"
# Regexes for `**`, by position.
_ALL = ".*"
_PREFIX = "(?:/?|.*/)"
_MIDDLE = "(?:/|/.*/)"
_SUFFIX = "/.*"
_SHORTEST = {_PREFIX: "(?:/??|.*?/)", _MIDDLE: "(?:/|/.*?/)"}
_numbers = count()  # of groups; regexes of several globs may become one
_SEVERAL = "(?:"  # begins a part that may match more than one character, or a slash


class _Reader:
    def __init__(self, glob: str, *, across: bool = True) -> None:
        self._glob = glob
        self._class_prefix = "" if across else "(?!/)"
        self._at = 0
        self._groups: list[list[list[str]]] = [[[]]]  # open braces; their alternatives; the parts of each
        self._backtracking = 0

    def read(self) -> str:
        while self._at < len(self._glob):
            self._token()
        if len(self._groups) > 1:
            raise BadGlob("there is a { without its }")
        parts = self._groups[0][0]
        found = _ALL if parts == [_PREFIX] else self._joined(parts)
        if self._backtracking > MAX_BACKTRACKING:
            raise BadGlob(f"more than {MAX_BACKTRACKING} stars are in braces, or before braces")
        return found

    def _joined(self, parts: list[str]) -> str:
        """The parts up to the next `**`, and so on."""
        doubles = [at for at, part in enumerate(parts) if part in _SHORTEST or part == _SUFFIX]
        if not doubles:
            return self._segments(parts)
        pieces = [self._segments(parts[: doubles[0]])]
        for at, following in zip(doubles, [*doubles[1:], None], strict=True):
            double, rest = parts[at], parts[at + 1 : following]
            text = self._segments(rest)
            if following is None or not rest:
                pieces.append(double + text)
            elif any(part.startswith(_SEVERAL) for part in rest):
                self._backtracking += 1
                pieces.append(double + text)
            else:  # the next `**` begins with a slash, and skips as much as it likes
                pieces.append(_first_match(f"{_SHORTEST[double]}{text}(?=/)"))
        return "".join(pieces)

    def _segments(self, parts: list[str]) -> str:
        pieces: list[str] = []
        at = 0
        while at < len(parts):
            if parts[at] != _STAR:
                pieces.append(parts[at])
                at += 1
                continue
            start = at = next((then for then in range(at, len(parts)) if parts[then] != _STAR), len(parts))
            while at < len(parts) and parts[at] not in (_STAR, "/") and not parts[at].startswith(_SEVERAL):
                at += 1
            following = "".join(parts[start:at])
            if at < len(parts) and parts[at] == _STAR:
                pieces.append(_first_match(f"[^/]*?{following}"))
                continue
            self._backtracking += at < len(parts) and parts[at] != "/"
            pieces.append(_STAR + following)
        return "".join(pieces)

    @property
    def _parts(self) -> list[str]:
        return self._groups[-1][-1]

    def _next(self, ahead: int = 0) -> str:
        return self._glob[self._at + ahead : self._at + ahead + 1]

    def _token(self) -> None:
        character = self._next()
        self._at += 1
        match character:
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
                self._parts.append(re.escape(character))

    def _close(self) -> None:
        if len(self._groups) == 1:
            raise BadGlob("there is a } without its {")
        alternatives = self._groups.pop()
        wild = (_STAR, _PREFIX, _MIDDLE, _SUFFIX)
        self._backtracking += max(sum(part in wild for part in parts) for parts in alternatives)
        # Empty alternatives are ignored.
        texts = filter(None, ("".join(parts) for parts in alternatives))
        text = "|".join(texts)
        self._parts.append(f"(?:{text})" if text else "")

    def _star(self) -> None:
        before = self._glob[self._at - 2 : self._at - 1] if self._at > 1 else ""
        if self._next() != "*":
            self._parts.append(_STAR)
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
            self._parts.append(_STAR)

    def _double(self, kind: str) -> None:
        """`**` consumes the slash before it; repeated `**/` adds nothing."""
        last = self._parts.pop()
        self._parts.append(last if last in (_PREFIX, _SUFFIX) else kind)

    def _class(self) -> None:
        negated = self._next() in ("!", "^") and self._next() != ""
        self._at += negated
        ranges: list[tuple[str, str]] = []
        first, in_range = True, False
        while first or self._next() != "]":
            character = self._next()
            if not character:
                raise BadGlob("there is a [ without its ]")
            self._at += 1
            if in_range:
                low = ranges.pop()[0]
                if low > character:
                    raise BadGlob(f"in the class {low}-{character} the first is greater than the last")
                ranges.append((low, character))
                in_range = False
            elif character == "-" and not first:
                in_range = True
            else:
                ranges.append((character, character))
            first = False
        self._at += 1
        if in_range:
            ranges.append(("-", "-"))
        text = "".join(f"{re.escape(low)}-{re.escape(high)}" for low, high in ranges)
        found = f"{self._class_prefix}[{'^' if negated else ''}{text}]"
        may_be_slash = not self._class_prefix and negated != any(low <= "/" <= high for low, high in ranges)
        self._parts.append(f"(?:{found})" if may_be_slash else found)


def _first_match(regex: str) -> str:
    """As an atomic group, which early releases of Python 3.11 miscompile: a lookahead does not try a second match."""
    name = f"g{next(_numbers)}"
    return f"(?=(?P<{name}>{regex}))(?P={name})"


class IgnoreRule(Value):
    """One line of an ignore file."""

    regex: str
    matches: Callable[[str], object]
    keeps: bool  # the line starts with "!"
    folders_only: bool


def parse_ignore_line(line: str) -> IgnoreRule | None:
    """Parse a line of an ignore file; None for a comment, a blank line or an invalid glob."""
    if line.startswith("#"):
        return None
    if not line.endswith("\\ "):
        line = line.rstrip()
    try:
        return parse_ignore_glob(line) if line else None
    except BadGlob:
        return None


def parse_ignore_glob(line: str) -> IgnoreRule:
    """Parse a glob as in an ignore file: a slash inside anchors it to the folder of the file, one at its end matches
    only folders.
    """
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
        line = at_any_depth(line)
    if line.endswith("/**"):
        line += "/*"  # the contents of the folder, but not the folder
    text = glob_regex(line)
    return IgnoreRule(text, re.compile(text, re.DOTALL).fullmatch, keeps, folders_only)


class IgnoreRules:
    """The rules of an ignore file; the last match decides."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._rules = [found for line in lines if (found := parse_ignore_line(_as_latin1(line)))][::-1]
        # Most paths match no rule: one combined regex rejects them quickly.
        any_rule = "|".join({f"(?:{found.regex})" for found in self._rules})
        self._any = re.compile(any_rule, re.DOTALL) if any_rule else None

    def __bool__(self) -> bool:
        return bool(self._rules)

    def ignore(self, path: str, is_folder: bool) -> bool | None:
        """True if a path, relative to the folder of the file, is ignored; None if no rule matches."""
        path = _as_latin1(path)
        if self._any is None or not self._any.fullmatch(path):
            return None
        for found in self._rules:
            if (is_folder or not found.folders_only) and found.matches(path):
                return not found.keeps
        return None


def _as_latin1(text: str) -> str:
    """Map each UTF-8 byte to one character."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("latin-1")

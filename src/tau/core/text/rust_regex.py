"""Regular expressions of ripgrep (Rust's), said in Python's words: a search without it must find the same lines.

The result is for lines decoded with `surrogateescape`. It finds whether a line
matches, not which part of it: groups catch nothing, and whether a repetition is
lazy is not looked at. What Rust refuses (look-around, references back) is
refused here too. What Rust has and Python has not, such as `\\p{Greek}` or the
intersection of classes, is a BadPattern that says so. One difference is left:
combining marks are word characters in Rust, digits such as `²` are in Python.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

Ranges = Sequence[tuple[int, int]]

NEWLINE = 'the literal "\\n" is not allowed in a regex'


def _literal(number: int) -> str:
    """A character, in a class or outside of it."""
    return re.escape(chr(number))


def _ranges(ranges: Ranges) -> str:
    return "".join(f"{_literal(low)}-{_literal(high)}" for low, high in ranges)


def _without(ranges: Ranges) -> Ranges:
    """Every other character; those are none that stand for a broken byte."""
    rest: list[tuple[int, int]] = []
    start = 0
    for low, high in [*sorted(ranges), (0xDC80, 0xDCFF), (_LAST + 1, _LAST + 1)]:
        if start < low:
            rest.append((start, low - 1))
        start = high + 1
    return rest


# A byte that is not UTF-8 is a lone surrogate here. Rust's `.` and `[^a]` do not match such a byte.
_NO_TEXT = "\udc80-\udcff"
_LAST = 0x10FFFF
_SPACES = [(9, 13), *((number, number) for number in (0x20, 0x85, 0xA0, 0x1680, 0x202F, 0x205F, 0x3000))]
_SPACES += [(0x2000, 0x200A), (0x2028, 0x2029)]
_PERL = {"d": "\\d", "w": "\\w", "s": _ranges(_SPACES)}
_CONTROLS = {"a": 7, "f": 12, "t": 9, "n": 10, "r": 13, "v": 11}
_HEX = {"x": 2, "u": 4, "U": 8}
_ANCHORS = {"A": "^", "z": "$", "b": "\\b", "B": "(?!\\b)", "<": "\\b(?=\\w)", ">": "\\b(?<=\\w)"}
_WORD_EDGES = {
    "start": "\\b(?=\\w)",
    "end": "\\b(?<=\\w)",
    "start-half": "(?<!\\w)",
    "end-half": "(?!\\w)",
}
_POSIX: dict[str, Ranges] = {
    name: [(ord(text[at]), ord(text[at + 1])) for at in range(0, len(text), 2)]
    for name, text in {
        "alnum": "09AZaz",
        "alpha": "AZaz",
        "ascii": "\0\x7f",
        "blank": "\t\t  ",
        "cntrl": "\0\x1f\x7f\x7f",
        "digit": "09",
        "graph": "!~",
        "lower": "az",
        "print": " ~",
        "punct": "!/:@[`{~",
        "space": "\t\r  ",
        "upper": "AZ",
        "word": "09AZ__az",
        "xdigit": "09AFaf",
    }.items()
}


class BadPattern(ValueError):
    """A regular expression that Rust would not read either, or that only Rust can. The text says why."""


def python_pattern(pattern: str, *, ignore_case: bool = False) -> re.Pattern[str]:
    """The same regular expression as Python's."""
    reader = _Reader(pattern, ignore_case)
    text = reader.alternatives()
    if reader.next():
        raise BadPattern("unopened group")
    try:
        return re.compile(text, re.MULTILINE | (re.IGNORECASE if ignore_case else 0))
    except (re.error, OverflowError, RecursionError) as error:
        raise BadPattern(f"{error}; ripgrep is not installed, and Python cannot read this") from None


class _Reader:
    def __init__(self, pattern: str, ignore_case: bool) -> None:
        self._pattern = pattern
        self._at = 0
        self._folds = ignore_case  # (?i)
        self._spaced = False  # (?x)
        self._names: set[str] = set()

    def next(self, ahead: int = 0) -> str:
        return self._pattern[self._at + ahead : self._at + ahead + 1]

    def _take(self, text: str) -> bool:
        found = self._pattern.startswith(text, self._at)
        self._at += len(text) if found else 0
        return found

    def _until(self, end: str, trouble: str) -> str:
        stop = self._pattern.find(end, self._at)
        if stop < 0:
            raise BadPattern(trouble)
        text = self._pattern[self._at : stop]
        self._at = stop + len(end)
        return text

    # Groups

    def alternatives(self) -> str:
        """Up to the end of the group. Flags that are set within last until there, over the bars between."""
        outside = self._folds, self._spaced
        branches = [self._branch(outside[0])]
        while self._take("|"):
            branches.append(self._branch(outside[0]))
        self._folds, self._spaced = outside
        return "|".join(branches)

    def _branch(self, outside: bool) -> str:
        texts: list[str] = []
        part: list[str] = []
        folds = self._folds
        while self.next() not in ("", "|", ")"):
            piece = self._piece()
            if self._folds != folds:  # the piece was a flag
                texts.append(_scoped("".join(part), folds, outside))
                part, folds = [], self._folds
            if piece is not None:
                part.append(self._repeated(piece))
        texts.append(_scoped("".join(part), folds, outside))
        return "".join(texts)

    def _piece(self) -> str | None:
        """One thing that can be repeated; None if there is nothing but a flag, a space or a comment."""
        letter = self.next()
        self._at += 1
        match letter:
            case "(":
                return self._group()
            case "[":
                return self._class()
            case "\\":
                return self._escape()
            case ".":
                return f"[^\\n{_NO_TEXT}]"
            case "^" | "$":
                return f"(?:{letter})"
            case "*" | "+" | "?" | "{":
                raise BadPattern("repetition operator missing expression")
            case "#" if self._spaced:
                self._until("\n", "unclosed group")
                return None
            case _ if self._spaced and letter.isspace():
                return None
            case "\n":
                raise BadPattern(NEWLINE)
            case _:
                return re.escape(letter)

    def _group(self) -> str | None:
        if self._take("?"):
            if self.next() in ("=", "!") or (self.next() == "<" and self.next(1) in ("=", "!")):
                raise BadPattern("look-around, including look-ahead and look-behind, is not supported")
            if self._take("P<") or self._take("<"):
                self._name(self._until(">", "invalid capture group character"))
            elif not self._take(":"):
                return self._flags()
        return self._rest_of_group()

    def _rest_of_group(self) -> str:
        inner = self.alternatives()
        if not self._take(")"):
            raise BadPattern("unclosed group")
        return f"(?:{inner})"

    def _name(self, name: str) -> None:
        if not re.fullmatch(r"[^\W\d][\w.\[\]]*", name):
            raise BadPattern("invalid capture group character")
        if name in self._names:
            raise BadPattern("duplicate capture group name")
        self._names.add(name)

    def _flags(self) -> str | None:
        """(?i) for the rest of the group, (?i:...) for a group of its own."""
        flags = re.compile(r"[^:)]*").match(self._pattern, self._at)
        text = flags[0] if flags else ""
        self._at += len(text)
        if not self.next():
            raise BadPattern("unclosed group")
        if not text:
            raise BadPattern("repetition operator missing expression")
        for at, flag in enumerate(text):
            if flag not in "imsUuxR-" or text.count(flag) > 1 or text.endswith("-"):
                raise BadPattern("unrecognized flag")
            on = "-" not in text[:at]
            if (flag == "u" and not on) or flag == "R":
                raise BadPattern(f"the flag {flag} needs ripgrep, which is not installed")
        off = text.partition("-")[2]
        outside = self._folds, self._spaced
        self._folds = (self._folds or "i" in text) and "i" not in off
        self._spaced = (self._spaced or "x" in text) and "x" not in off
        if self._take(")"):
            return None
        self._at += 1
        folds = self._folds
        text = self._rest_of_group()
        self._folds, self._spaced = outside
        return _scoped(text, folds, outside[0])

    # Repetitions

    def _repeated(self, text: str) -> str:
        while True:
            while self._spaced and self.next().isspace():
                self._at += 1
            if self.next() in ("*", "+", "?") and self.next():
                count = self.next()
                self._at += 1
            elif self._take("{"):
                count = self._count(self._until("}", "unclosed counted repetition"))
            else:
                return text
            self._take("?")
            text = f"(?:{text}{count})"

    def _count(self, text: str) -> str:
        found = re.fullmatch(r"\s*([0-9]+)\s*(?:(,)\s*([0-9]*)\s*)?", text)
        if not found:
            raise BadPattern("repetition quantifier expects a valid decimal")
        low, comma, high = found.groups()
        if high and int(low) > int(high):
            raise BadPattern("invalid repetition count range, the start must be <= the end")
        if max(int(low), int(high or 0)) > 100_000:
            raise BadPattern("repetition count is too big")
        return f"{{{low}{comma or ''}{high or ''}}}"

    # Single characters

    def _escape(self) -> str:
        letter = self.next()
        if letter == "b" and self.next(1) == "{" and (self.next(2).isalpha() or self.next(2) == "-"):
            self._at += 2
            name = self._until("}", "special word boundary assertion is unclosed")
            if name not in _WORD_EDGES:
                raise BadPattern("unrecognized special word boundary assertion")
            return f"(?:{_WORD_EDGES[name]})"
        if letter in _ANCHORS and letter:
            self._at += 1
            return f"(?:{_ANCHORS[letter]})"
        if letter.lower() in _PERL:
            self._at += 1
            inner = _PERL[letter.lower()]
            return f"[{inner}]" if letter.islower() else f"[^{inner}{_NO_TEXT}]"
        number = self._character()
        if number == 10:
            raise BadPattern(NEWLINE)
        return _literal(number)

    def _character(self) -> int:
        """What an escape stands for, where one character is wanted. The backslash is taken already."""
        letter = self.next()
        self._at += 1
        if not letter:
            raise BadPattern("incomplete escape sequence, reached end of pattern prematurely")
        if letter in _CONTROLS:
            return _CONTROLS[letter]
        if letter in _HEX:
            return self._hexadecimal(_HEX[letter])
        if letter.isdigit():
            raise BadPattern("backreferences are not supported")
        if letter in ("p", "P"):
            raise BadPattern(f"\\{letter} needs ripgrep, which is not installed")
        if not letter.isascii() or letter.isalnum() or letter in "<>":
            raise BadPattern("unrecognized escape sequence")
        return ord(letter)

    def _hexadecimal(self, digits: int) -> int:
        if self._take("{"):
            text = self._until("}", "hexadecimal literal is unclosed")
        else:
            text = self._pattern[self._at : self._at + digits]
            self._at += digits
            if len(text) < digits:
                raise BadPattern("invalid hexadecimal digit")
        if not re.fullmatch("[0-9A-Fa-f]+", text):
            raise BadPattern("invalid hexadecimal digit")
        number = int(text, 16)
        if number > _LAST or 0xD800 <= number <= 0xDFFF:
            raise BadPattern("hexadecimal literal is not a Unicode scalar value")
        return number

    # Classes

    def _class(self) -> str:
        negated, inner = self._members()
        return f"[^{inner}\\n{_NO_TEXT}]" if negated else f"[{inner}]"

    def _members(self) -> tuple[bool, str]:
        negated = self._take("^")
        items: list[str] = []
        while self._take("-"):
            items.append("\\-")
        if not items and self._take("]"):
            items.append("\\]")
        while not self._take("]"):
            items.append(self._member())
        return negated, "".join(items)

    def _member(self) -> str:
        if not self.next():
            raise BadPattern("unclosed character class")
        if self.next() == self.next(1) and self.next() in ("&", "-", "~"):
            raise BadPattern(f"{self.next() * 2} in a class needs ripgrep, which is not installed")
        if self._spaced and self.next().isspace():
            self._at += 1
            return ""
        if self.next() == "[":
            return self._inner_class()
        if self.next() == "\\" and self.next(1).lower() in _PERL:
            return self._perl_member()
        low = self._bound()
        if self.next() != "-" or self.next(1) in ("]", "-", ""):
            return _literal(low)
        self._at += 1
        if self.next() == "[" or (self.next() == "\\" and self.next(1).lower() in (*_PERL, "p")):
            raise BadPattern("invalid range boundary, must be a literal")
        high = self._bound()
        if low > high:
            raise BadPattern("invalid character class range, the start must be <= the end")
        return f"{_literal(low)}-{_literal(high)}"

    def _perl_member(self) -> str:
        letter = self.next(1)
        self._at += 2
        if self.next() == "-" and self.next(1) not in ("]", "-", ""):
            raise BadPattern("invalid range boundary, must be a literal")
        if letter.islower():
            return _PERL[letter]
        return _ranges(_without(_SPACES)) if letter == "S" else f"\\{letter}"

    def _bound(self) -> int:
        letter = self.next()
        self._at += 1
        if letter == "\\":
            return self._character()
        return ord(letter)

    def _inner_class(self) -> str:
        posix = re.compile(r"\[:(\^?)(\w+):\]").match(self._pattern, self._at)
        if posix and posix[2] in _POSIX:
            self._at = posix.end()
            ranges = _POSIX[posix[2]]
            return _ranges(_without(ranges) if posix[1] else ranges)
        self._at += 1
        negated, inner = self._members()
        if negated:
            raise BadPattern("a negated class in a class needs ripgrep, which is not installed")
        return inner


def _scoped(text: str, folds: bool, outside: bool) -> str:
    if folds == outside or not text:
        return text
    return f"(?{'i' if folds else '-i'}:{text})"

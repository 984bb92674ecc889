"""Incremental parser for JSON that is still arriving, such as the arguments of a tool call.

Nothing is parsed into values. The scanner remembers how much of the text is valid (`_safe`) and which characters
would close it there, so that a snapshot is a slice and a short suffix, whatever the length. Two invariants make that
simple:

- `_safe` moves only when a value has started or grown, so a key without a value, a comma, half an escape or half a
  number are never inside it;
- when it moves, the containers open at that position are those open now: one stack serves both the scanner and the
  suffix.

Each character is scanned once. The grammar is strict; at the first character that is invalid, or that nests too
deeply, `broken` is set and the valid part before it is kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from tau.records.base import MAX_RECEIVED_NESTING

# The characters that may come next outside strings, numbers and literals.
VALUE = '"{[-0123456789tfn'
FIRST_ELEMENT = VALUE + "]"
KEY = '"'
FIRST_KEY = '"}'
COLON = ":"
NOTHING = ""

OPENING = {"{": (ord("}"), FIRST_KEY), "[": (ord("]"), FIRST_ELEMENT)}
AFTER_VALUE = {ord("}"): ",}", ord("]"): ",]"}
AFTER_COMMA = {ord("}"): KEY, ord("]"): VALUE}
LITERALS = {"t": "true", "f": "false", "n": "null"}

# Regular expressions, compiled when they are first used: most answers have no tool calls.
SPACE = r"[ \t\n\r]*"
# Plain characters and complete escapes of a string, except the first half of a surrogate pair, which must not be
# shown alone. The count is bounded because the regex engine stores a state for each repetition; _string matches again
# for the rest. Possessive quantifiers would need no states, but early releases of Python 3.11 miscompile them.
RUN = r'(?:[^"\\\x00-\x1f]+|\\["\\/bfnrt]|\\u(?![dD][89abAB])[0-9a-fA-F]{4}){0,256}'
ESCAPE = r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})'
PARTIAL_ESCAPE = r"\\(?:u[0-9a-fA-F]{0,3})?"
HIGH_SURROGATE = r"\\u[dD][89abAB]"

DIGITS = "0123456789"
_E = dict.fromkeys("eE", "e")
# State machine of a number: from one part to the next.
NUMBER = {
    "start": {"-": "minus", "0": "zero"} | dict.fromkeys(DIGITS[1:], "whole"),
    "minus": {"0": "zero"} | dict.fromkeys(DIGITS[1:], "whole"),
    "zero": {".": "point"} | _E,
    "whole": {".": "point"} | _E | dict.fromkeys(DIGITS, "whole"),
    "point": dict.fromkeys(DIGITS, "fraction"),
    "fraction": _E | dict.fromkeys(DIGITS, "fraction"),
    "e": dict.fromkeys("+-", "sign") | dict.fromkeys(DIGITS, "exponent"),
    "sign": dict.fromkeys(DIGITS, "exponent"),
    "exponent": dict.fromkeys(DIGITS, "exponent"),
}
COMPLETE_NUMBER = frozenset({"zero", "whole", "fraction", "exponent"})

Step = Callable[["PartialJson", str, int], int]


class PartialJson:
    """JSON text in chunks, and valid JSON for the text so far.

    `broken` is set when the text stops being JSON; everything after that position is ignored.
    """

    def __init__(self) -> None:
        self.broken = False
        self._pieces: list[str] = []
        self._length = 0  # of the chunks before the current one
        self._safe = 0  # how much of the text to keep; 0 while there is no value
        self._quote = ""  # closes the string value that is open at _safe
        self._closers = bytearray()  # of the open containers; bytes, because safe_prefix() reverses them each time
        self._step: Step = PartialJson._structure
        self._allowed = VALUE
        self._escape = ""  # an escape that may continue in the next chunk
        self._literal_rest = ""
        self._number_part = ""

    @property
    def text(self) -> str:
        """The whole text, valid or not."""
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""

    def feed(self, chunk: str) -> None:
        """Add the next chunk of the text, split anywhere."""
        self._pieces.append(chunk)
        at = 0
        while at < len(chunk) and not self.broken:
            at = self._step(self, chunk, at)
        self._length += len(chunk)

    def safe_prefix(self) -> tuple[int, str]:
        """`n, suffix` such that `text[:n] + suffix` is valid JSON. `n` never shrinks."""
        if not self._safe:
            return 0, "{}"
        return self._safe, self._quote + self._closers[::-1].decode()

    def completed(self) -> str:
        """Valid JSON for the text so far; `{}` if nothing of it is usable yet."""
        n, suffix = self.safe_prefix()
        return self.text[:n] + suffix

    # Each step below scans `chunk` from `at`, which is inside it, and returns where it stopped.

    def _structure(self, chunk: str, at: int) -> int:
        at = _end(SPACE, chunk, at)
        if at == len(chunk):
            return at
        char = chunk[at]
        if char not in self._allowed:
            self.broken = True
        elif char == '"':
            if self._allowed not in (KEY, FIRST_KEY):
                self._quote = '"'
                self._keep(at + 1)
            self._step = PartialJson._string
        elif char == ":":
            self._allowed = VALUE
        elif char == ",":
            self._allowed = AFTER_COMMA[self._closers[-1]]
        elif char in OPENING and len(self._closers) == MAX_RECEIVED_NESTING:
            self.broken = True
        elif char in OPENING:
            closer, self._allowed = OPENING[char]
            self._closers.append(closer)
            self._keep(at + 1)
        elif char in "}]":
            self._closers.pop()  # always the matching one: no other was allowed
            self._end_value(at + 1)
        elif char in LITERALS:
            self._literal_rest = LITERALS[char]
            self._step = PartialJson._literal
            return at
        else:
            self._number_part = "start"
            self._step = PartialJson._number
            return at
        return at + 1

    def _string(self, chunk: str, at: int) -> int:
        end = _end(RUN, chunk, at)
        if end > at and self._quote:
            self._keep(end)
        if end == len(chunk):
            return end
        char = chunk[end]
        if end > at and char != '"' and char >= " ":
            return end  # the string continues after the repetitions of one match, or with a split escape
        if char == "\\":
            self._escape = ""
            self._step = PartialJson._in_escape
            return end
        if char != '"':  # a control character, which JSON requires to be escaped
            self.broken = True
        elif self._quote:
            self._quote = ""
            self._end_value(end + 1)
        else:
            self._allowed = COLON
            self._step = PartialJson._structure
        return end + 1

    def _in_escape(self, chunk: str, at: int) -> int:
        self._escape += chunk[at]
        if re.fullmatch(ESCAPE, self._escape):
            # The first half of a surrogate pair is not kept until more follows: its other half or, since JSON
            # allows a lone surrogate, anything else.
            if self._quote and not re.match(HIGH_SURROGATE, self._escape):
                self._keep(at + 1)
            self._step = PartialJson._string
        elif not re.fullmatch(PARTIAL_ESCAPE, self._escape):
            self.broken = True
        return at + 1

    def _literal(self, chunk: str, at: int) -> int:
        found = chunk[at : at + len(self._literal_rest)]
        if not self._literal_rest.startswith(found):
            self.broken = True
        self._literal_rest = self._literal_rest[len(found) :]
        at += len(found)
        if not self._literal_rest and not self.broken:
            self._end_value(at)
        return at

    def _number(self, chunk: str, at: int) -> int:
        while at < len(chunk):
            part = NUMBER[self._number_part].get(chunk[at])
            if part is None:
                break
            self._number_part = part
            at += 1
            if part in COMPLETE_NUMBER:
                self._keep(at)
        else:
            return at
        # Only the character after a number ends it; _structure checks that character.
        if self._number_part in COMPLETE_NUMBER:
            self._expect_after_value()
        else:
            self.broken = True
        return at

    def _keep(self, at: int) -> None:
        self._safe = self._length + at

    def _end_value(self, at: int) -> None:
        self._keep(at)
        self._expect_after_value()

    def _expect_after_value(self) -> None:
        self._allowed = AFTER_VALUE[self._closers[-1]] if self._closers else NOTHING
        self._step = PartialJson._structure


def _end(pattern: str, chunk: str, at: int) -> int:
    """End of the match of a pattern that also matches the empty string."""
    found = _compiled(pattern).match(chunk, at)
    assert found
    return found.end()


@cache  # several times faster than the cache of `re`
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)

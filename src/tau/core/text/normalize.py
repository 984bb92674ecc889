"""Normalized text in which look-alike characters are equal, and the mapping back to the original.

Models write straight quotes for curly ones, a hyphen for any dash, an ordinary space for any other space, composed
letters, no trailing whitespace, and U+FFFD for bytes that are not UTF-8, because such bytes were shown to them that
way.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

# Characters that JavaScript trims, except LF.
WHITESPACE = "\t\v\f\r \u00a0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000\ufeff"
STRAY_BYTES = re.compile("[\udc80-\udcff]+")  # bytes that are not UTF-8, as `surrogateescape` decodes them

_LOOK_ALIKES = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
    }
)


def normalize(text: str) -> str:
    return "\n".join([line.rstrip(WHITESPACE) for line in fold(text).split("\n")])


def fold(text: str) -> str:
    """The normalized form, but with trailing whitespace."""
    if text.isascii():
        return text
    text = STRAY_BYTES.sub(lambda run: run[0].encode("utf-8", "surrogateescape").decode("utf-8", "replace"), text)
    return unicodedata.normalize("NFKC", text).translate(_LOOK_ALIKES)


def fold_positions(line: str) -> Sequence[int | None]:
    """For every position in the folded form of a line, including its end: the position in the line itself.

    None inside of what is one character, or several that combine, in the line.
    """
    if line.isascii():
        return range(len(line) + 1)
    places: list[int | None] = []
    folded_pieces: list[str] = []
    cache: dict[str, str] = {}  # cache: a language has few distinct letters
    for at, run in _pieces(line):
        if run not in cache:
            cache[run] = fold(run)
        folded_pieces.append(cache[run])
        places += [at, *[None] * (len(cache[run]) - 1)]
    if "".join(folded_pieces) != (folded := fold(line)):  # rare scripts that combine more than _joins knows
        places = [0, *[None] * (len(folded) - 1)]
    return [*places, len(line)]


def _pieces(line: str) -> Iterator[tuple[int, str]]:
    """Each character together with those that may combine with it."""
    start = 0
    for at in range(1, len(line) + 1):
        if at == len(line) or not (line[at] > "\u02ff" and _joins(line[at - 1], line[at])):
            yield start, line[start:at]
            start = at


def _joins(before: str, character: str) -> bool:
    if STRAY_BYTES.match(character):
        return STRAY_BYTES.match(before) is not None  # several stray bytes may be shown as one U+FFFD
    # Unicode does not call Hangul vowels and final consonants, and halfwidth Katakana voicing marks, combining.
    hangul_or_kana = "\u1160" <= character <= "\u11ff" or character in "\uff9e\uff9f"
    return hangul_or_kana or unicodedata.combining(character) != 0

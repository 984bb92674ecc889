"""Text in a plain form, in which what looks the same is the same, and the way back from it.

Models write straight quotes for curly ones, a hyphen for any dash, a space for
any other, composed letters, no white space at the end of lines, and U+FFFD for
bytes that are no UTF-8, because that is how such bytes were shown to them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

# What JavaScript trims, except LF.
WHITE = "\t\v\f\r \u00a0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000\ufeff"
STRAY = re.compile("[\udc80-\udcff]+")  # bytes that are no UTF-8, as `surrogateescape` decodes them

_LOOK_ALIKES = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
    }
)


def plain(text: str) -> str:
    return "\n".join([line.rstrip(WHITE) for line in folded(text).split("\n")])


def folded(text: str) -> str:
    """The plain form, but with white space at the end of lines."""
    if text.isascii():
        return text
    text = STRAY.sub(lambda run: run[0].encode("utf-8", "surrogateescape").decode("utf-8", "replace"), text)
    return unicodedata.normalize("NFKC", text).translate(_LOOK_ALIKES)


def traced(line: str) -> Sequence[int | None]:
    """For every place in the folded form of a line, its end included: the place in the line itself.

    None in the middle of what is one character, or several that belong together, in the line.
    """
    if line.isascii():
        return range(len(line) + 1)
    places: list[int | None] = []
    form: list[str] = []
    known: dict[str, str] = {}  # a language has few letters, a line may have many
    for at, piece in _pieces(line):
        if piece not in known:
            known[piece] = folded(piece)
        form.append(known[piece])
        places += [at, *[None] * (len(known[piece]) - 1)]
    if "".join(form) != (whole := folded(line)):  # rare scripts in which more belongs together than we know
        places = [0, *[None] * (len(whole) - 1)]
    return [*places, len(line)]


def _pieces(line: str) -> Iterator[tuple[int, str]]:
    """Each character with those that may merge with it."""
    start = 0
    for at in range(1, len(line) + 1):
        if at == len(line) or not (line[at] > "\u02ff" and _joins(line[at - 1], line[at])):
            yield start, line[start:at]
            start = at


def _joins(before: str, character: str) -> bool:
    if STRAY.match(character):
        return STRAY.match(before) is not None  # several stray bytes may have been shown as one
    # Vowels and final consonants of Hangul, and halfwidth voicing marks of Katakana, are not called combining.
    hangul_or_kana = "\u1160" <= character <= "\u11ff" or character in "\uff9e\uff9f"
    return hangul_or_kana or unicodedata.combining(character) != 0

"""Where graphemes and words begin and end in a line.

Only text near the column is looked at, so that a step in a line of a megabyte is as cheap as in a short one.
"""

from __future__ import annotations

from collections.abc import Callable

from tau.screen.cells import graphemes
from tau.screen.editor.markers import is_marker

WINDOW = 32  # code points after a column that are looked at first

SPACE, WORD, PUNCTUATION, MARKER, HAN, HIRAGANA, KATAKANA = range(7)


def clusters(line: str) -> list[str]:
    """Grapheme clusters of a line, each marker one of its own."""
    if line.isascii():
        return list(line)
    found: list[str] = []
    start = 0
    for at, character in enumerate(line):
        if is_marker(character):
            found += graphemes(line[start:at])
            found.append(character)
            start = at + 1
    return found + graphemes(line[start:])


def next_edge(line: str, column: int) -> int:
    """The end of the cluster that begins at, or contains, `column`."""
    if column >= len(line) or line.isascii():
        return min(column + 1, len(line))
    return _cluster_at(line, column)[1]


def previous_edge(line: str, column: int) -> int:
    """The beginning of the cluster that ends at, or contains, the character before `column`."""
    if column <= 1 or line.isascii():
        return max(column - 1, 0)
    return _cluster_at(line, column - 1)[0]


def nearest_edge(line: str, column: int) -> int:
    """`column` if a cluster begins or ends there, else the end of the cluster around it."""
    if column <= 0 or column >= len(line) or line.isascii():
        return min(max(column, 0), len(line))
    start, end = _cluster_at(line, column)
    return column if start == column else end


def _cluster_at(line: str, column: int) -> tuple[int, int]:
    """The columns at which the cluster of the character at `column` begins and ends."""
    known = _known_edge(line, column)
    window = WINDOW
    while True:
        stop = column + window
        start = known
        for cluster in clusters(line[known:stop]):
            end = start + len(cluster)
            if end > column:
                break
            start = end
        if end < stop or stop >= len(line):
            return start, end
        window *= 4  # the cluster may go on


def _known_edge(line: str, column: int) -> int:
    """A column at or before `column` that is certainly an edge, near it where the script allows."""
    for at in range(column, 0, -1):
        if _simple(line[at - 1]) and _simple(line[at]):
            return at
    return 0


def _simple(character: str) -> bool:
    """Between two of these characters there is always an edge: no marks, no joiners, nothing that combines."""
    if character < "\x7f":
        return True
    return any(first <= character <= last for first, last in _SIMPLE)


_SIMPLE = (
    ("\u00c0", "\u02ff"),  # Latin
    ("\u0370", "\u0482"),  # Greek, Cyrillic
    ("\u048a", "\u052f"),
    ("\u3041", "\u3096"),  # Hiragana
    ("\u4e00", "\u9fff"),  # Han
    ("\uac00", "\ud7a3"),  # Hangul syllables
)


def word_left(line: str, column: int) -> int:
    """The beginning of the word before `column`, over spaces: letters, punctuation, a marker, a run of one script."""
    while column and _kind(line, column - 1) == SPACE:
        column -= 1
    if column:
        kind = _kind(line, column - 1)
        column -= 1
        while kind != MARKER and column and _kind(line, column - 1) == kind:
            column -= 1
    return _settled(line, column, previous_edge)


def word_right(line: str, column: int) -> int:
    """The end of the word after `column`, over spaces."""
    size = len(line)
    while column < size and _kind(line, column) == SPACE:
        column += 1
    if column < size:
        kind = _kind(line, column)
        column += 1
        while kind != MARKER and column < size and _kind(line, column) == kind:
            column += 1
    return _settled(line, column, next_edge)


def _settled(line: str, column: int, outward: Callable[[str, int], int]) -> int:
    """Do not stop inside a cluster."""
    if nearest_edge(line, column) == column:
        return column
    return outward(line, column)


def _kind(line: str, column: int) -> int:
    character = line[column]
    if character.isspace():
        return SPACE
    if is_marker(character):
        return MARKER
    if character.isascii():
        return WORD if character.isalnum() or character == "_" else PUNCTUATION
    if "\u3041" <= character <= "\u309f":
        return HIRAGANA
    if "\u30a1" <= character <= "\u30ff":
        return KATAKANA
    if "\u3400" <= character <= "\u9fff" or "\uf900" <= character <= "\ufaff" or character >= "\U00020000":
        return HAN if character < "\U000e0000" else WORD
    # Marks, joiners and selectors belong to the character before them.
    return WORD if character.isalnum() or not character.isprintable() or _is_mark(character) else PUNCTUATION


def _is_mark(character: str) -> bool:
    return not (character.isalnum() or character.isspace()) and len(graphemes("a" + character)) == 1

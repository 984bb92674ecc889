"""Files named in a text with `@`: `@src/main.py`, `@"with spaces.txt"`."""

from __future__ import annotations

import re

from tau.records.base import Value

# What may stand before a file name: nothing, a space, an opening bracket or quote, "=", and CJK punctuation.
BOUNDARY = r"\s\"'=(\[{<\u3000-\u303f\uff00-\uff0f\uff1a-\uff20\ud800-\udbff"
_MENTION = rf'(?<![^{BOUNDARY}])@(?:"([^"\n]+)"|([^\s"]+))'  # takes long to compile
_TRAILING = ".,;:!?)]}'"


class Mention(Value):
    start: int
    end: int
    path: str


def mentions(text: str) -> list[Mention]:
    """All mentions of a text in order. Punctuation after an unquoted name may belong to it: see `candidates`."""
    return [Mention(found.start(), found.end(), found[1] or found[2]) for found in re.finditer(_MENTION, text)]


def candidates(path: str) -> list[str]:
    """The names that an unquoted mention may mean: itself, then without punctuation at its end."""
    found = [path]
    while path and path[-1] in _TRAILING:
        path = path[:-1]
        if path:
            found.append(path)
    return found


def mention_of(path: str, *, quoted: bool = False) -> str:
    """The mention of a path, in quotes where it needs them."""
    needs_quotes = quoted or any(character.isspace() for character in path) or path[-1:] in tuple(_TRAILING)
    return f'@"{path}"' if needs_quotes and '"' not in path else f"@{path}"

"""Find the line of a value in a JSON text, for error messages."""

from __future__ import annotations

import json
import re

_SPACE = r"[ \t\r\n]*"
_LINE = r"\bline (\d+) column "
_ITEM = r"\[(\d+)\]"


def line_of(text: str, place: str) -> int:
    """Line number of the value at `place`, such as "providers.lab.models[0].cost", or of its nearest existing parent.

    Names may contain dots. `text` must be valid JSON.
    """
    return text.count("\n", 0, _offset(text, _skip(text, 0), place)) + 1


def line_in(error: str) -> int:
    """The line that an error message of the JSON parser names: "... line 3 column 5 (char 40)"."""
    found = re.search(_LINE, error)
    return int(found[1]) if found else 1


def _offset(text: str, at: int, place: str) -> int:
    if text[at : at + 1] == "{":
        places = {name: (key, value) for name, key, value in _members(text, at)}
        candidates = [name for name in places if re.fullmatch(rf"{re.escape(name)}([.\[].*)?", place, re.DOTALL)]
        if candidates:
            name = max(candidates, key=len)
            key, value = places[name]
            rest = place[len(name) :].removeprefix(".")
            inside = _offset(text, value, rest) if rest else key
            return key if inside == value else inside
    elif text[at : at + 1] == "[" and (item := re.match(_ITEM, place)):
        items = list(_items(text, at))
        if int(item[1]) < len(items):
            return _offset(text, items[int(item[1])], place[item.end() :].removeprefix("."))
    return at


def members(text: str, at: int) -> list[tuple[str, int, int]]:
    """Name, and start and end of the value, of every member of the object that starts here."""
    return [(name, value, json.JSONDecoder().raw_decode(text, value)[1]) for name, _, value in _members(text, at)]


def key_positions(text: str, at: int) -> list[int]:
    """Position of the name of every member of the object that starts here."""
    return [key for _, key, _ in _members(text, at)]


def _members(text: str, at: int) -> list[tuple[str, int, int]]:
    """Name, position of the name and position of the value of every member."""
    found = []
    at = _skip(text, at + 1)
    while text[at] != "}":
        name, end = json.JSONDecoder().raw_decode(text, at)
        value = _skip(text, _skip(text, end) + 1)
        found.append((name, at, value))
        at = _next(text, value)
    return found


def _items(text: str, at: int) -> list[int]:
    found = []
    at = _skip(text, at + 1)
    while text[at] != "]":
        found.append(at)
        at = _next(text, at)
    return found


def _next(text: str, value: int) -> int:
    """Position after the value that starts here and its comma."""
    _, end = json.JSONDecoder().raw_decode(text, value)
    end = _skip(text, end)
    return _skip(text, end + 1) if text[end] == "," else end


def _skip(text: str, at: int) -> int:
    return re.compile(_SPACE).match(text, at).end()  # type: ignore[union-attr]

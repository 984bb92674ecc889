"""Where in a JSON text a value stands, so that a person can be sent to the line."""

from __future__ import annotations

import json
import re

_SPACE = re.compile(r"[ \t\r\n]*")
_ITEM = re.compile(r"\[(\d+)\]")


def line_of(text: str, place: str) -> int:
    """The line of the value at `place`, such as "providers.lab.models[0].cost", or of what is there of the way to it.

    Names may have dots themselves. `text` must be JSON.
    """
    return text.count("\n", 0, _found(text, _SPACE.match(text).end(), place)) + 1  # type: ignore[union-attr]


def _found(text: str, at: int, place: str) -> int:
    if text[at : at + 1] == "{":
        members = {name: (key, value) for name, key, value in _members(text, at)}
        fitting = [name for name in members if re.fullmatch(rf"{re.escape(name)}([.\[].*)?", place, re.DOTALL)]
        if fitting:
            name = max(fitting, key=len)
            key, value = members[name]
            rest = place[len(name) :].removeprefix(".")
            inside = _found(text, value, rest) if rest else key
            return key if inside == value else inside
    elif text[at : at + 1] == "[" and (item := _ITEM.match(place)):
        items = list(_items(text, at))
        if int(item[1]) < len(items):
            return _found(text, items[int(item[1])], place[item.end() :].removeprefix("."))
    return at


def _members(text: str, at: int) -> list[tuple[str, int, int]]:
    """The name of every member, where that stands, and where its value does."""
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
    """Where the next one begins, after the value that begins here."""
    _, end = json.JSONDecoder().raw_decode(text, value)
    end = _skip(text, end)
    return _skip(text, end + 1) if text[end] == "," else end


def _skip(text: str, at: int) -> int:
    return _SPACE.match(text, at).end()  # type: ignore[union-attr]

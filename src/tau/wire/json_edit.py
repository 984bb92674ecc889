"""Change members of a JSON object in its text, so that comments, order and layout of everything else survive."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tau.wire.comments import blank_comments, strip_comments
from tau.wire.position import key_positions, members

INDENT = "  "


def set_members(text: str, changes: Mapping[str, Any]) -> str:
    """Return `text` with these members set. An object in `changes` is merged into an existing object, one level deep.

    `text` is a JSON object that may contain comments and trailing commas, without a BOM.
    """
    for name, value in changes.items():
        text = _set(text, 0, name, value, INDENT, merge=True)
    return text


def _set(text: str, start: int, name: str, value: Any, indent: str, *, merge: bool) -> str:
    """Set one member of the first object at or after `start`."""
    plain = strip_comments(text)  # every character has the same position as in `text`
    opening = plain.index("{", start)
    found = members(plain, opening)
    place = next(((at, end) for key, at, end in reversed(found) if key == name), None)
    if place is None:
        member = f"\n{indent}{_dump(name, '')}: {_dump(value, indent)}"
        return _append(text, found[-1][2], member) if found else _fill(text, opening, member, indent)
    at, end = place
    if merge and isinstance(value, Mapping) and plain[at] == "{":
        for inner, inner_value in value.items():
            text = _set(text, at, inner, inner_value, indent + INDENT, merge=False)
        return text
    return text[:at] + _dump(value, indent) + text[end:]


def _append(text: str, end: int, member: str) -> str:
    """Add a member after the last one, whose value ends at `end`, and after the comments that follow it."""
    uncommented = blank_comments(text)
    closing = uncommented.index("}", end)
    has_comma = "," in uncommented[end:closing]
    at = len(text[:closing].rstrip())
    return text[:end] + ("" if has_comma else ",") + text[end:at] + member + ("," if has_comma else "") + text[at:]


def _fill(text: str, opening: int, member: str, indent: str) -> str:
    """Add a member to an object without any."""
    closing = blank_comments(text).index("}", opening)
    return f"{text[:closing].rstrip()}{member}\n{indent.removesuffix(INDENT)}{text[closing:]}"


def _dump(value: Any, indent: str) -> str:
    return json.dumps(value, indent=len(INDENT), ensure_ascii=False).replace("\n", f"\n{indent}")


def remove_member(text: str, path: tuple[str, ...]) -> str:
    """Return `text` without the member at a path of names, such as ("mcpServers", "files"), if there is one.

    `text` is as in `set_members`. Comments before the member stay.
    """
    plain = strip_comments(text)
    start = plain.index("{")
    for name in path[:-1]:
        start = next((at for key, at, _ in reversed(members(plain, start)) if key == name), -1)
        if start < 0 or plain[start] != "{":
            return text
    found, keys = members(plain, start), key_positions(plain, start)
    index = next((index for index in reversed(range(len(found))) if found[index][0] == path[-1]), None)
    if index is None:
        return text
    uncommented, end = blank_comments(text), found[index][2]
    before = text[: keys[index]].rstrip(" \t")
    before = before.removesuffix("\n").removesuffix("\r")
    following = len(uncommented) - len(uncommented[end:].lstrip())
    if uncommented[following] == ",":
        return before + text[following + 1 :]
    if index > 0:  # the last one, and no comma behind it: the one before it goes
        comma = uncommented.index(",", found[index - 1][2])
        before = before[:comma] + before[comma + 1 :]
    return before + text[end:]

"""Changes of files as `diff` content: whole texts if they are short, else hunks. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from tau.acp.updates import Diff
from tau.core.text.diff import Change, changes, split_lines

MAX_TEXT_BYTES = 64 * 1024  # of a text that is sent whole
CONTEXT_LINES = 3


def diffs_of_change(path: str, before: bytes | None, after: bytes) -> list[Diff]:
    """The change of one file. `before` is None for a new file."""
    if max(len(before or b""), len(after)) <= MAX_TEXT_BYTES:
        return [Diff(path, None if before is None else _text(before), _text(after))]
    old, new = split_lines(before or b""), split_lines(after)
    found, size = list[Diff](), 0
    for group in _groups(changes(old, new)):
        first, last = group[0], group[-1]
        lead, tail = min(CONTEXT_LINES, first.start), min(CONTEXT_LINES, len(old) - last.end)
        old_part = b"".join(old[first.start - lead : last.end + tail])
        new_part = b"".join(new[first.new_start - lead : last.new_end + tail])
        size += max(len(old_part), len(new_part))
        if size > MAX_TEXT_BYTES:
            old_part, new_part = old_part[:MAX_TEXT_BYTES], new_part[:MAX_TEXT_BYTES]
        found.append(Diff(path, None if before is None else _text(old_part), _text(new_part)))
        if size > MAX_TEXT_BYTES:
            break
    return found


def diffs_of_patch(path: str, patch: str) -> list[Diff]:
    """The hunks of a unified diff of one file."""
    return [Diff(path, old, new) for old, new in _hunks(patch)]


def _hunks(patch: str) -> Iterator[tuple[str, str]]:
    sides: tuple[list[str], list[str]] | None = None
    last: list[list[str]] = []  # the sides that the last line belongs to
    for line in patch.split("\n"):
        if line.startswith("@@"):
            if sides is not None:
                yield "".join(sides[0]), "".join(sides[1])
            sides = [], []
        elif sides is None or not line:
            continue
        elif line[0] == "\\":  # no newline at the end of the file
            for side in last:
                side[-1] = side[-1].removesuffix("\n")
        else:
            last = [side for side, signs in zip(sides, (" -", " +"), strict=True) if line[0] in signs]
            for side in last:
                side.append(line[1:] + "\n")
    if sides is not None:
        yield "".join(sides[0]), "".join(sides[1])


def _groups(found: list[Change]) -> list[list[Change]]:
    """Group changes whose context lines meet."""
    groups: list[list[Change]] = []
    for change in found:
        if groups and change.start - groups[-1][-1].end <= 2 * CONTEXT_LINES:
            groups[-1].append(change)
        else:
            groups.append([change])
    return groups


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")

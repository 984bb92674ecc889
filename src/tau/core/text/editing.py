"""Replace text in a file and leave every other byte unchanged.

A model sees a file as text with "\\n" at the end of each line. The file may have other line endings, a byte order
mark, and bytes that are not UTF-8. All of them are preserved: the text to replace is mapped back to the file, and
bytes are replaced only where the new text differs from the old text.

If there is no exact match, the normalized text (core/text/normalize.py) is searched. It is searched after an exact
match as well: if other text in the file looks the same, the edit is ambiguous.
"""

# Without `from __future__ import annotations`: NamedTuple would compile every annotation.
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from typing import NamedTuple

from tau.core.text.diff import Change, changes, common_prefix, render_diff, split_lines, unified_patch
from tau.core.text.normalize import STRAY_BYTES, WHITESPACE, fold, fold_positions, normalize
from tau.errors import ToolError

BOM = b"\xef\xbb\xbf"
_ENDING = re.compile(r"\r?\n")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")


class Edit(NamedTuple):
    old: str
    new: str


class EditResult(NamedTuple):
    data: bytes
    diff: str
    first_changed_line: int
    patch: str


class Location(NamedTuple):
    """The location of an old text in a file.

    For each character of the old text, and for its end: the position in the file where a replacement of it starts,
    and where it ends. The two differ at the end of a line with trailing whitespace that the old text does not have.
    None means no position: it is inside of what is one character in the file.
    """

    starts: Sequence[int | None]
    ends: Sequence[int | None]

    @property
    def span(self) -> tuple[int, int]:
        start, end = self.starts[0], self.ends[-1]
        assert start is not None and end is not None
        return start, end


class Hunk(NamedTuple):
    """A range of characters of a file, and its replacement."""

    start: int
    end: int
    text: str


def apply_edits(data: bytes, edits: Sequence[Edit], path: str) -> EditResult:
    """Apply all edits. Each is matched against the original file. `path` is for error messages."""
    mark = BOM if data.startswith(BOM) else b""
    source = FileText(data[len(mark) :].decode("utf-8", "surrogateescape"))
    edits = [_normalize_edit(edit, bool(mark)) for edit in edits]
    several = len(edits) > 1
    places = [_locate(source, edit.old, EditErrors(path, at, several)) for at, edit in enumerate(edits)]
    order = sorted(range(len(edits)), key=lambda at: places[at].span)
    for a, b in pairwise(order):
        if places[a].span[1] > places[b].span[0]:
            raise ToolError(
                f"edits[{a}] and edits[{b}] overlap in {path}. Merge them into one edit or target disjoint regions."
            )

    hunks = [hunk for at in order for hunk in _hunks(source.text, places[at], edits[at], path)]
    text = _apply_hunks(source.text, hunks)
    if text == source.text:
        raise _no_change(path, several)
    body = text.encode("utf-8", "surrogateescape")
    before, after = split_lines(data[len(mark) :]), split_lines(body)
    changed = _line_changes(source.text, hunks, before, after)
    diff = render_diff(before, after, changed)
    return EditResult(mark + body, diff, changed[0].new_start + 1, unified_patch(path, before, after, changed))


def replace_lone_surrogates(text: str) -> str:
    """Replace lone surrogates by U+FFFD, as JavaScript does: they cannot be written to a file."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _normalize_edit(edit: Edit, marked: bool) -> Edit:
    """An edit in terms of the text that the model sees: lines end in LF, and a byte order mark is not part of it."""
    old, new = (replace_lone_surrogates(text).replace("\r\n", "\n") for text in edit)
    if marked and old.startswith("\ufeff"):
        old, new = old[1:], new.removeprefix("\ufeff")
    return Edit(old, new)


class EditErrors(NamedTuple):
    """Error messages for one edit; with several edits, each is named by its index."""

    path: str
    at: int
    several: bool

    def empty(self) -> ToolError:
        name = f"edits[{self.at}].oldText" if self.several else "oldText"
        return ToolError(f"{name} must not be empty in {self.path}.")

    def not_found(self) -> ToolError:
        what, name = (f"edits[{self.at}]", "oldText") if self.several else ("the exact text", "old text")
        rule = f"The {name} must match exactly including all whitespace and newlines."
        return ToolError(f"Could not find {what} in {self.path}. {rule}")

    def not_unique(self, count: int) -> ToolError:
        what, name = (f"edits[{self.at}]", "Each oldText") if self.several else ("the text", "The text")
        rule = f"{name} must be unique. Please provide more context to make it unique."
        return ToolError(f"Found {count} occurrences of {what} in {self.path}. {rule}")


def _no_change(path: str, several: bool) -> ToolError:
    if several:
        return ToolError(f"No changes made to {path}. The replacements produced identical content.")
    guess = "This might indicate an issue with special characters or the text not existing as expected."
    return ToolError(f"No changes made to {path}. The replacement produced identical content. {guess}")


class FileText:
    """A file as text. Bytes that are not UTF-8 are single surrogates in it."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def with_lf(self) -> str:
        """The text as models see it: CRLF becomes LF, even in files with mixed line endings."""
        return self.text.replace("\r\n", "\n")

    @cached_property
    def normalized(self) -> str:
        return normalize(self.text)

    @cached_property
    def line_starts(self) -> list[int]:
        return list(accumulate((len(line) + 1 for line in self.text.split("\n")), initial=0))

    def origin(self, at: int) -> int | None:
        """Map a position in the normalized text to the file; at the end of a line, before trailing whitespace."""
        number, column = _line_and_column(self.normalized, at)
        start, end = self.line_starts[number], self.line_starts[number + 1] - 1
        origin = fold_positions(self.text[start:end])[column]
        return None if origin is None else start + origin

    def trailing_space(self, at: int) -> str:
        """From `at`, the whitespace at the end of a line, without the line ending."""
        end = self.text.find("\n", at)
        return self.text[at:] if end < 0 else self.text[at:end].removesuffix("\r")


def _line_and_column(text: str, at: int) -> tuple[int, int]:
    return text.count("\n", 0, at), at - (text.rfind("\n", 0, at) + 1)


def _locate(source: FileText, old: str, errors: EditErrors) -> Location:
    if not old:
        raise errors.empty()
    count, exact = _occurrences(source.with_lf, old)
    normalized = normalize(old)
    trailing = fold(old)[len(fold(old).rstrip(WHITESPACE)) :]
    similar, similar_span = _occurrences(source.normalized, normalized, trailing) if normalized else (0, None)
    if max(count, similar) > 1:
        raise errors.not_unique(max(count, similar))
    place = (
        _exact_location(source, old, exact[0])
        if exact
        else _normalized_location(source, old, *similar_span)
        if similar_span
        else None
    )
    if place is None:
        raise errors.not_found()
    return place


def _occurrences(text: str, part: str, whitespace: str = "") -> tuple[int, tuple[int, int] | None]:
    """How often a part occurs in a text, and its first span. `whitespace` must follow it, or the end of a line."""
    spans = _spans(text, part, whitespace)
    first, second = next(spans, None), next(spans, None)
    if first is None or second is None:
        return (0 if first is None else 1), first
    return (2 + sum(1 for _ in spans) if whitespace else max(2, text.count(part))), first


def _spans(text: str, part: str, whitespace: str) -> Iterator[tuple[int, int]]:
    at = text.find(part)
    while at >= 0:
        end = at + len(part)
        if text.startswith(whitespace, end):
            yield at, end + len(whitespace)
        elif text[end : end + 1] in ("", "\n"):
            yield at, end
        at = text.find(part, at + 1)


def _exact_location(source: FileText, old: str, at: int) -> Location:
    number, column = _line_and_column(source.with_lf, at)
    start = source.line_starts[number] + column
    if source.text.startswith(old, start):
        return Location(range(start, start + len(old) + 1), range(start, start + len(old) + 1))
    places: list[int | None] = []
    for line in old.split("\n"):
        places += range(start, start + len(line) + 1)
        start += len(line) + (2 if source.text.startswith("\r\n", start + len(line)) else 1)
    return Location(places, places)


def _normalized_location(source: FileText, old: str, start: int, end: int) -> Location | None:
    """Map a span of the normalized text back to the file. None if it starts or ends inside a character there."""
    first, last = old.split("\n")[0], old.split("\n")[-1]
    closed = last != last.rstrip(WHITESPACE) and source.normalized[end : end + 1] in ("", "\n")
    begin, stop = source.origin(start), source.origin(end)
    if begin is None or stop is None:
        return None
    if not first.strip(WHITESPACE) and source.normalized[start] == "\n":
        whitespace = source.trailing_space(begin)
        begin += len(whitespace) - len(first) if fold(whitespace).endswith(fold(first)) else 0
    if closed:
        whitespace, wanted = source.trailing_space(stop), last[len(last.rstrip(WHITESPACE)) :]
        stop += len(wanted if fold(whitespace).startswith(fold(wanted)) else whitespace)

    starts: list[int | None] = []
    ends: list[int | None] = []
    old_lines, found_lines = old.split("\n"), source.text[begin:stop].split("\n")
    for number, (wanted, line) in enumerate(zip(old_lines, found_lines, strict=True), 1):
        is_last = number == len(old_lines)
        their = line if is_last else line.removesuffix("\r")
        my_text, their_text = (
            (wanted, their) if is_last and not closed else (wanted.rstrip(WHITESPACE), their.rstrip(WHITESPACE))
        )
        places: list[int | None] = [None] * (len(wanted) + 1)
        for at, to in zip(
            fold_positions(my_text), fold_positions(their_text), strict=True
        ):  # their normalized forms are equal
            if at is not None and to is not None:
                places[at] = begin + to
        starts += places
        ends += places
        ends[-1] = begin + len(their)
        if wanted != my_text and wanted[len(my_text) :] == their[len(their_text) :]:
            starts[-1] = ends[-1]
        begin += len(line) + 1
    return Location(starts, ends)


def _hunks(text: str, place: Location, edit: Edit, path: str) -> Iterator[Hunk]:
    """The differences between the old text and the new one, as hunks of the file."""
    old, new = edit
    old_lines, new_lines = _LINE.findall(old), _LINE.findall(new)
    old_starts, new_starts = ([*accumulate(map(len, some), initial=0)] for some in (old_lines, new_lines))
    for change in changes(old_lines, new_lines):
        start, end = old_starts[change.start], old_starts[change.end]
        new_start, new_end = new_starts[change.new_start], new_starts[change.new_end]
        head = common_prefix(old[start:end], new[new_start:new_end])
        while place.starts[start + head] is None:
            head -= 1
        start, new_start = start + head, new_start + head
        tail = common_prefix(old[start:end][::-1], new[new_start:new_end][::-1])
        while place.ends[end - tail] is None:
            tail -= 1
        end, new_end = end - tail, new_end - tail

        added = new[new_start:new_end]
        # Trailing whitespace belongs to the line ending, but not to whole lines before it.
        of_lines = old[:end].endswith("\n") and (start < end or added.endswith("\n"))
        yield _hunk(text, place.starts[start], (place.starts if of_lines else place.ends)[end], added, path)


def _hunk(text: str, start: int | None, end: int | None, added: str, path: str) -> Hunk:
    assert start is not None and end is not None
    if "\ufffd" in added and STRAY_BYTES.search(text, start, end):
        raise ToolError(
            f"{path} has bytes that are not UTF-8 in the text to replace, and U+FFFD would be written in their place."
            " Replace only the text before or after them."
        )
    return Hunk(start, end, _with_line_endings(added, text, start, end))


def _with_line_endings(added: str, text: str, start: int, end: int) -> str:
    """New lines end like those they replace, else like the line they are in, else like the first line of the file."""
    first, *rest = added.split("\n")
    if not rest:
        return added
    endings = _ENDING.findall(text, start, end)
    if not endings:
        near = _ENDING.search(text, end) or _ENDING.search(text)
        endings = [near[0] if near else "\n"]
    endings += [endings[-1]] * (len(rest) - len(endings))
    return first + "".join(ending + line for ending, line in zip(endings, rest, strict=False))


def _apply_hunks(text: str, hunks: Sequence[Hunk]) -> str:
    parts = []
    at = 0
    for start, end, added in hunks:
        parts += [text[at:start], added]
        at = end
    return "".join([*parts, text[at:]])


def _line_changes(text: str, hunks: Sequence[Hunk], before: list[bytes], after: list[bytes]) -> list[Change]:
    """The changed lines. All other lines are known to be equal, so only the lines of the hunks are compared."""
    ranges: list[list[int]] = []  # first line, the line after the last, and the number of lines added
    at = number = 0
    for start, end, added in hunks:
        first = number + text.count("\n", at, start)
        number = first + text.count("\n", start, end)
        more = added.count("\n") - (number - first)
        at = end
        if ranges and first <= ranges[-1][1]:
            ranges[-1][1:] = [number + 1, ranges[-1][2] + more]
        else:
            ranges.append([first, number + 1, more])

    found = []
    shift = 0
    for first, end, more in ranges:
        new_first, shift = first + shift, shift + more
        last = end >= len(before)
        old, new = before[first:end], after[new_first : None if last else end + shift]
        found += [
            Change(first + start, first + stop, new_first + new_start, new_first + new_stop)
            for start, stop, new_start, new_stop in changes(old, new)
        ]
    return found

"""The read tool: returns lines of a text file, or an image.

Memory use does not depend on the size of the file, and neither does the time to read its first lines: the file is read
in chunks, and lines are counted to the end only in files of moderate size.
"""

from __future__ import annotations

import base64
import os
import shlex
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, BinaryIO

from tau.core.text.truncate import MAX_BYTES, MAX_LINES, format_size, head
from tau.errors import Aborted, ToolError
from tau.records.events import Outcome
from tau.records.messages import Image, Text
from tau.records.tools import Truncation
from tau.tools import Tool, ToolContext
from tau.tools.images import fit_image
from tau.tools.paths import resolve_existing

if TYPE_CHECKING:
    from tau.tools import Files

CHUNK_BYTES = 1024 * 1024
MAX_COUNTED_BYTES = 64 * 1024 * 1024  # in a larger file, lines after the requested ones are not counted
MAX_IMAGE_BYTES = 20 * 1024 * 1024
SNIFF_BYTES = 4100


async def run(args: dict[str, Any], context: ToolContext) -> Outcome:
    """Read the file. A cancelled call stops reading within one chunk."""
    path, offset, limit = args["path"], args.get("offset"), args.get("limit")
    start = max(0, _whole("offset", offset) - 1) if offset is not None else 0
    lines = _whole("limit", limit) if limit is not None else None
    if lines is not None and lines < 1:
        raise ToolError(f"limit must be at least 1, not {limit}; leave it out to read as much as fits")

    stop = threading.Event()
    try:
        return await context.machine.in_thread(lambda: _read(path, context, start, lines, stop.is_set))
    finally:
        stop.set()


def _whole(name: str, number: float) -> int:
    try:
        return int(number)
    except (OverflowError, ValueError):  # infinity or NaN
        raise ToolError(f"{name} must be a whole number, not {number}") from None


def _read(path: str, context: ToolContext, start: int, limit: int | None, stopped: Callable[[], bool]) -> Outcome:
    files = context.machine.files
    found = resolve_existing(path, context.cwd, existence_test(files))
    with files.open(found) as file:
        context.confirm(path, file.path)
        beginning = file.read(SNIFF_BYTES)
        length = _length(file)
        content = context.seen.track(file.path, read_chunks(file, stopped, beginning))
        if mime_type := image_type(beginning):
            return _image(found, length, content, mime_type, resize=context.resize)
        return _text(path, scan(content, start, limit, count=length <= MAX_COUNTED_BYTES))


def existence_test(files: Files) -> Callable[[str], bool]:
    """Return a function that tests if a path exists. A path that cannot be examined counts as existing: opening it
    then reports the reason.
    """

    def exists(path: str) -> bool:
        try:
            return files.kind(path) is not None
        except ToolError:
            return True

    return exists


def read_chunks(file: BinaryIO, stopped: Callable[[], bool], beginning: bytes = b"") -> Iterator[bytes]:
    """Yield the chunks of a file. `beginning` was read already, because not every file can be read twice."""
    chunk = beginning or file.read(CHUNK_BYTES)
    while chunk:
        yield chunk
        if stopped():
            raise Aborted
        chunk = file.read(CHUNK_BYTES)


def _length(file: BinaryIO) -> int:
    """Return the length of a file; 0 if it has none, as in /proc, where no file is long."""
    with suppress(OSError):
        position = file.tell()
        length = file.seek(0, os.SEEK_END)
        file.seek(position)
        return length
    return 0


# Text


class Scan:
    """The result of a pass through a file. Lines are numbered from 0 here."""

    def __init__(self, start: int, limit: int | None) -> None:
        self.start = start
        self.limit = limit
        self.newlines = 0  # in the part of the file that was read
        self.complete = True  # the file was read to its end
        self.data = bytearray()  # beginning of the selection, up to one byte over the limit
        self.selected_newlines = 0
        self.selected_bytes = 0
        self.first_line = 0  # bytes of the first line of the selection
        self.closed = False  # the selection reached its limit

    def select(self, chunk: bytes) -> None:
        if self.closed:
            return
        newlines = chunk.count(b"\n")
        if self.limit is not None and self.selected_newlines + newlines >= self.limit:
            chunk = chunk[: _after_newline(chunk, self.limit - self.selected_newlines) - 1]
            newlines = self.limit - self.selected_newlines - 1
            self.closed = True
        if not self.selected_newlines:
            self.first_line += chunk.index(b"\n") if newlines else len(chunk)
        self.selected_newlines += newlines
        self.selected_bytes += len(chunk)
        self.data += chunk[: MAX_BYTES + 1 - len(self.data)]

    @property
    def enough(self) -> bool:
        return self.closed or len(self.data) > MAX_BYTES or self.selected_newlines >= MAX_LINES


def scan(content: Iterator[bytes], start: int, limit: int | None, *, count: bool) -> Scan:
    """Select `limit` lines, or all, after the first `start`; then count the following lines or leave them unread."""
    found = Scan(start, limit)
    ahead = start  # lines to skip before the selection
    position = 0
    for chunk in content:
        position += len(chunk)
        newlines = chunk.count(b"\n")
        found.newlines += newlines
        if newlines < ahead:
            ahead -= newlines
            continue
        found.select(chunk[_after_newline(chunk, ahead) :] if ahead else chunk)
        ahead = 0
        if found.enough and not (count and position <= MAX_COUNTED_BYTES):
            found.complete = False
            break
    if ahead:
        raise ToolError(f"Offset {start + 1} is beyond end of file ({found.newlines + 1} lines total)")
    return found


def _after_newline(data: bytes, number: int) -> int:
    """Return the position after newline `number`, counted from 1. The data must contain that many."""
    low, high = 0, len(data)
    while high - low > 1:
        middle = (low + high) // 2
        count = data.count(b"\n", low, middle)
        if count >= number:
            high = middle
        else:
            low, number = middle, number - count
    return high


def _text(path: str, seen: Scan) -> Outcome:
    cut = head(seen.data.decode("utf-8", "replace"))
    if not cut.truncated:
        return Outcome([Text(cut.content + _more(seen))])
    if len(seen.data) < seen.selected_bytes:
        cut = _with_totals(cut, seen)
    text = _too_long(path, seen) if cut.first_line_exceeds_limit else cut.content + _shown(seen, cut)
    return Outcome([Text(text)], {"truncation": cut})


def _with_totals(cut: Truncation, seen: Scan) -> Truncation:
    """Set the totals of a selection whose beginning was kept. They are lower bounds if its end was not read."""
    return Truncation(
        content=cut.content,
        truncated=True,
        truncated_by=cut.truncated_by,
        total_lines=seen.selected_newlines + 1,
        total_bytes=seen.selected_bytes,
        output_lines=cut.output_lines,
        output_bytes=cut.output_bytes,
        last_line_partial=cut.last_line_partial,
        first_line_exceeds_limit=cut.first_line_exceeds_limit,
        max_lines=cut.max_lines,
        max_bytes=cut.max_bytes,
    )


def _more(seen: Scan) -> str:
    if seen.limit is None:
        return ""
    end = seen.start + seen.limit
    more = seen.newlines + 1 - end
    if more <= 0:
        return ""
    return f"\n\n[{f'{more} more' if seen.complete else 'More'} lines in file. Use offset={end + 1} to continue.]"


def _shown(seen: Scan, cut: Truncation) -> str:
    end = seen.start + cut.output_lines
    total = f" of {seen.newlines + 1}" if seen.complete else ""
    limit = "" if cut.truncated_by == "lines" else f" ({format_size(cut.max_bytes)} limit)"
    more = "" if seen.complete else " More lines in file."
    return f"\n\n[Showing lines {seen.start + 1}-{end}{total}{limit}.{more} Use offset={end + 1} to continue.]"


def _too_long(path: str, seen: Scan) -> str:
    number = seen.start + 1
    ended = seen.closed or seen.selected_newlines or seen.complete
    length = format_size(seen.first_line) if ended else f"more than {format_size(MAX_BYTES)}"
    command = f"sed -n '{number}p' {shlex.quote(path)} | head -c {MAX_BYTES}"
    return f"[Line {number} is {length}, exceeds {format_size(MAX_BYTES)} limit. Use bash: {command}]"


# Images


def image_type(data: bytes) -> str | None:
    """Return the MIME type of an image by its first bytes. Magic bytes are not enough: a text can begin with GIF."""
    if data[:8] == b"\x89PNG\r\n\x1a\n" and data[8:16] == b"\0\0\0\rIHDR":
        return "image/png"
    if data[:3] == b"\xff\xd8\xff" and data[3:4] >= b"\xc0" and data[3:4] not in (b"\xf7", b"\xff"):
        return "image/jpeg"
    if data[:6] in (b"GIF87a", b"GIF89a") and _is_gif(data):
        return "image/gif"
    if data[:4] == b"RIFF" and data[8:16] in (b"WEBPVP8 ", b"WEBPVP8L", b"WEBPVP8X"):
        return "image/webp"
    return None


def _is_gif(data: bytes) -> bool:
    """True if an extension, or an image with a valid code size, follows the screen descriptor and its colour table."""
    if len(data) < 13:
        return False
    at = 13 + _colours(data[10])
    match data[at : at + 1]:
        case b"!":
            return data[at + 1 : at + 2] in (b"\x01", b"\xf9", b"\xfe", b"\xff")
        case b"," if len(data) > at + 9:
            code = at + 10 + _colours(data[at + 9])
            return data[code : code + 1] in (b"\2", b"\3", b"\4", b"\5", b"\6", b"\7", b"\x08")
    return False


def _colours(flags: int) -> int:
    """Return the size of a colour table in bytes."""
    return 3 * 2 ** ((flags & 7) + 1) if flags & 0x80 else 0


def _image(path: str, length: int, content: Iterator[bytes], mime_type: str, *, resize: bool) -> Outcome:
    if length > MAX_IMAGE_BYTES:
        raise ToolError(
            f"{path} is an image of {format_size(length)}; at most {format_size(MAX_IMAGE_BYTES)} can be shown"
        )
    data, note = b"".join(content), None
    if resize:
        data, mime_type, note = fit_image(data, mime_type)
    text = f"Read image file [{mime_type}]"
    image = Image(base64.b64encode(data).decode("ascii"), mime_type)
    return Outcome([Text(f"{text}\n{note}" if note else text), image])


TOOL = Tool(
    name="read",
    description=(
        f"Read a file. Text is returned verbatim, at most {MAX_LINES} lines or {MAX_BYTES // 1024}KB per call; use"
        f" offset and limit to read a longer file in parts. Images (png, jpeg, gif, webp) are returned as images."
    ),
    snippet="Read files",
    parameters={
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "The file, relative to the working directory or absolute"},
            "offset": {"type": "number", "description": "The line to start at, counted from 1 (optional)"},
            "limit": {"type": "number", "description": "Maximum number of lines to read (optional)"},
        },
        "required": ["path"],
    },
    run=run,
    guidelines=("Use read instead of cat or sed to look at files; continue a long file with offset.",),
)

"""Results of servers as outcomes of tools: long text and other data go to private files, images are scaled down."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tau.core.text.truncate import MAX_BYTES, MAX_LINES, format_size, truncate_text
from tau.errors import ToolError
from tau.mcp.results import CallResult, FilePart, ImagePart, Part, TextPart
from tau.records.events import Outcome
from tau.records.messages import Image, Text
from tau.tools.images import fit_image
from tau.tools.partial_result import ErrorResult

if TYPE_CHECKING:
    from tau.tools import Machine

NOTHING = "(no output)"


class ResultWriter:
    """`resize`: scale images that are too large for models down."""

    def __init__(self, machine: Machine, *, resize: bool) -> None:
        self._machine = machine
        self._resize = resize

    async def outcome(self, result: CallResult) -> Outcome:
        """Raises ErrorResult with the server's words if the call failed."""
        blocks, file = await self.blocks(result.parts)
        details = result.details
        if file:
            details["mcp"]["file"] = file
        if result.is_error:
            raise ErrorResult(blocks or [Text("It failed.")], details)
        return Outcome(blocks or [Text(NOTHING)], details)

    async def blocks(self, parts: Sequence[Part]) -> tuple[list[Text | Image], str]:
        """The blocks for the model, and the path of the file with the whole text if it was cut."""
        texts: list[str] = []
        images: list[Text | Image] = []
        for part in parts:
            match part:
                case TextPart(text):
                    texts.append(text)
                case ImagePart(data, mime_type):
                    images += await self._image(data, mime_type)
                case FilePart(data, label):
                    path, problem = await self._file(data)
                    where = path or f"it could not be saved: {problem}"
                    texts.append(f"[{label}, {format_size(len(data))}: {where}]")
        text, file = await self._limited("\n".join(texts))
        return [*([Text(text)] if text else []), *images], file

    async def _limited(self, text: str) -> tuple[str, str]:
        shown = truncate_text(text, max_lines=MAX_LINES, max_bytes=MAX_BYTES)
        if shown == text:
            return text, ""
        path, problem = await self._file(text.encode("utf-8", "replace"))
        where = f"is in {path}" if path else f"could not be saved: {problem}"
        return f"{shown}\n[The whole result of {format_size(len(text))} {where}]", path

    async def _file(self, data: bytes) -> tuple[str, str]:
        """Save something to a file. Returns its path, or an empty path and the reason, such as a full disk."""
        return await self._machine.in_thread(lambda: _write(self._machine, data))

    async def _image(self, data: bytes, mime_type: str) -> list[Text | Image]:
        note: str | None = None
        if self._resize:
            try:
                data, mime_type, note = await self._machine.in_thread(_fit(data, mime_type))
            except ToolError as error:
                return [Text(f"[{error}]")]
        image = Image(b64encode(data).decode(), mime_type)
        return [Text(note), image] if note else [image]


def _fit(data: bytes, mime_type: str) -> Callable[[], tuple[bytes, str, str | None]]:
    return lambda: fit_image(data, mime_type)


def _write(machine: Machine, data: bytes) -> tuple[str, str]:
    try:
        spill = machine.spill()
    except OSError as error:
        return "", error.strerror or str(error)
    try:
        spill.write(data)
    finally:
        spill.close()
    return ("", spill.problem) if spill.problem else (spill.path, "")


def progress_outcome(text: str) -> Outcome:
    return Outcome([Text(text)])

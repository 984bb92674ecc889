"""The limits of a result that another program made: its text is truncated, its images are scaled down.

The whole text goes to a private file, whose path the model is told.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence

from tau.core.text.truncate import MAX_BYTES, MAX_LINES, byte_length, format_size, truncate_text
from tau.errors import ToolError
from tau.records.messages import Image, Text
from tau.tools import ToolContext
from tau.tools.images import fit_image

Blocks = list[Text | Image]


async def fit_result(content: Sequence[Text | Image], context: ToolContext) -> Blocks:
    """Return the blocks within the limits of a result."""
    has_images = context.resize and any(isinstance(block, Image) for block in content)
    if not has_images and _fits(content):
        return list(content)
    return await context.machine.in_thread(lambda: _fitted(content, context))


def _fits(content: Sequence[Text | Image]) -> bool:
    texts = [block.text for block in content if isinstance(block, Text)]
    if sum(map(len, texts)) > MAX_BYTES:
        return False
    return sum(map(byte_length, texts)) <= MAX_BYTES and sum(text.count("\n") + 1 for text in texts) <= MAX_LINES


def _fitted(content: Sequence[Text | Image], context: ToolContext) -> Blocks:
    fitted = [part for block in content for part in _scaled(block, resize=context.resize)]
    return fitted if _fits(fitted) else [*_cut(fitted), Text(_note(fitted, context))]


def _scaled(block: Text | Image, *, resize: bool) -> Blocks:
    if isinstance(block, Text) or not resize:
        return [block]
    try:
        data, mime_type, note = fit_image(base64.b64decode(block.data), block.mime_type)
    except ToolError as error:
        return [Text(f"[{error}]")]
    if note is None:
        return [block if mime_type == block.mime_type else Image(block.data, mime_type)]
    return [Image(base64.b64encode(data).decode("ascii"), mime_type), Text(note)]


def _cut(content: Blocks) -> Blocks:
    """The first blocks that fit, and the beginning of the next one. Images stay."""
    lines, size = MAX_LINES, MAX_BYTES
    kept: Blocks = []
    for block in content:
        if isinstance(block, Image):
            kept.append(block)
        elif lines > 1 and size > len(block.text[:1]) + 100:
            shown = truncate_text(block.text, max_lines=lines, max_bytes=size)
            kept.append(Text(shown))
            lines, size = lines - shown.count("\n") - 1, size - byte_length(shown)
    return kept


def _note(content: Blocks, context: ToolContext) -> str:
    text = "\n".join(block.text for block in content if isinstance(block, Text)).encode("utf-8", "replace")
    about = f"The result has {format_size(len(text))}; it is cut to {MAX_LINES} lines or {format_size(MAX_BYTES)}."
    try:
        spill = context.machine.spill()
    except OSError as error:
        return f"[{about} The whole could not be saved: {error.strerror or error}]"
    try:
        spill.write(text)
    finally:
        spill.close()
    return f"[{about} Full output: {spill.path}]"

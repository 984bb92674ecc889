"""Prompts from the command line: piped text, files and messages.

stdin, then every @file, then the first message    the first prompt
every further message                              a prompt of its own
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from tau.records.messages import Image
from tau.runtime.app.attachments import read_attachment
from tau.runtime.app.batch import Prompt


def gather_prompts(words: Sequence[str], *, piped: str = "", resize: bool = True) -> list[Prompt]:
    """Raises UsageError for a file that cannot be read. Blank messages are ignored."""
    files = [word.removeprefix("@") for word in words if word.startswith("@")]
    messages = [word for word in words if not word.startswith("@") and word.strip()]
    file_text, images = "", list[Image]()
    for file in files:
        text, image = read_attachment(file, resize=resize)
        file_text += text
        images += [image] if image is not None else []
    first = file_text + (messages[0] if messages else "")
    if piped:
        first = f"{piped}\n{first}" if first else piped
    if not first:
        return []
    return [Prompt(first, images), *(Prompt(message) for message in messages[1:])]


def read_pipe(handle: int = 0) -> str:
    """The contents of stdin, stripped, unless it is a terminal."""
    chunks = []
    try:
        if os.isatty(handle):
            return ""
        while chunk := os.read(handle, 1 << 20):
            chunks.append(chunk)
    except OSError:  # started without stdin
        return ""
    return b"".join(chunks).decode("utf-8", "replace").strip()

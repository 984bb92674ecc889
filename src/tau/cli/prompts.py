"""What the command line asks: piped text, files and messages, as prompts.

stdin, then every @file, then the first message    the first prompt
every further message                              a prompt of its own
"""

from __future__ import annotations

import binascii
import os
import stat
from collections.abc import Sequence

from tau.errors import ToolError, UsageError
from tau.records.messages import Image
from tau.runtime.app.batch import Prompt
from tau.store.paths import working_folder
from tau.store.procfs import opened_path, shows_process
from tau.tools.images import fitted
from tau.tools.paths import existing
from tau.tools.read import LARGEST_IMAGE, SNIFFED, image_type


def gathered(words: Sequence[str], *, piped: str = "", resize: bool = True) -> list[Prompt]:
    """Raises UsageError for a file that cannot be read. Messages without a word in them count for nothing."""
    files = [word.removeprefix("@") for word in words if word.startswith("@")]
    messages = [word for word in words if not word.startswith("@") and word.strip()]
    told, images = "", list[Image]()
    for file in files:
        text, image = attached(file, resize=resize)
        told += text
        images += [image] if image is not None else []
    first = told + (messages[0] if messages else "")
    if piped:
        first = f"{piped}\n{first}" if first else piped
    if not first:
        return []
    return [Prompt(first, images), *(Prompt(message) for message in messages[1:])]


def read_pipe(handle: int = 0) -> str:
    """What stdin holds, if it is no terminal, without blanks around it."""
    portions = []
    try:
        if os.isatty(handle):
            return ""
        while portion := os.read(handle, 1 << 20):
            portions.append(portion)
    except OSError:  # we were started without it
        return ""
    return b"".join(portions).decode("utf-8", "replace").strip()


def attached(file: str, *, resize: bool = True) -> tuple[str, Image | None]:
    """A file as it stands in a prompt: its text, or an image and its name."""
    try:
        path = existing(file, working_folder())
        with open(path, "rb") as source:
            status = os.fstat(source.fileno())
            if stat.S_ISDIR(status.st_mode):
                raise IsADirectoryError
            if shows_process(source.fileno(), status, opened_path(source.fileno(), path)):
                raise UsageError(f"{path} shows the environment or the memory of a process and cannot be attached")
            data = source.read()
    except FileNotFoundError:
        raise UsageError(f"File not found: {path}") from None
    except IsADirectoryError:
        raise UsageError(f"{path} is a folder; name the files in it") from None
    except ToolError as error:  # no path at all
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"Cannot read {path}: {error.strerror}") from None
    if not data:
        return "", None
    if (mime_type := image_type(data[:SNIFFED])) is None:
        return f'<file name="{path}">\n{data.decode("utf-8", "replace")}\n</file>\n', None
    return _picture(path, data, mime_type, resize)


def _picture(path: str, data: bytes, mime_type: str, resize: bool) -> tuple[str, Image]:
    if len(data) > LARGEST_IMAGE:
        raise UsageError(f"{path} is an image of {len(data) >> 20} MiB; more than {LARGEST_IMAGE >> 20} cannot be sent")
    note: str | None = None
    if resize:
        try:
            data, mime_type, note = fitted(data, mime_type)
        except ToolError as error:
            raise UsageError(f"{path}: {error}") from None
    image = Image(binascii.b2a_base64(data, newline=False).decode(), mime_type)
    return f'<file name="{path}">{note or ""}</file>\n', image

"""Files that a person attaches to a prompt with @: their text, or an image and its name."""

from __future__ import annotations

import binascii
import os
import stat

from tau.core.text.install_hints import install_hint
from tau.errors import ToolError, UsageError
from tau.records.messages import Image
from tau.store.paths import working_folder
from tau.store.procfs import opened_path, shows_process
from tau.tools.images import MAX_BASE64_BYTES, fit_image
from tau.tools.paths import resolve_existing
from tau.tools.read import MAX_IMAGE_BYTES, SNIFF_BYTES, image_type

BINARY_SNIFF_BYTES = 8192
MAX_ODD_SHARE = 0.3  # a text in another encoding has fewer invalid bytes


def read_attachment(file: str, *, resize: bool = True) -> tuple[str, Image | None]:
    """A file for a prompt: its text, or an image and its name."""
    try:
        path = resolve_existing(file, working_folder())
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
    except ToolError as error:  # not a valid path
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"Cannot read {path}: {error.strerror}") from None
    if not data:
        return "", None
    if (mime_type := image_type(data[:SNIFF_BYTES])) is None:
        if is_binary(data):
            raise UsageError(f"{path} is a binary file: only text and images (PNG, JPEG, GIF, WebP) can be attached")
        return f'<file name="{path}">\n{data.decode("utf-8", "replace")}\n</file>\n', None
    return _image(path, data, mime_type, resize)


def is_binary(data: bytes) -> bool:
    """True if the beginning has NUL bytes, or much of it is neither UTF-8 nor printable."""
    start = data[:BINARY_SNIFF_BYTES]
    if b"\0" in start:
        return True
    text = start.decode("utf-8", "replace")
    odd = sum(character == "\ufffd" or (character < " " and character not in "\t\n\r\f\b\x1b") for character in text)
    return odd > len(text) * MAX_ODD_SHARE


def _image(path: str, data: bytes, mime_type: str, resize: bool) -> tuple[str, Image]:
    if len(data) > MAX_IMAGE_BYTES:
        raise UsageError(f"{path} is an image of {len(data) >> 20} MiB; the limit is {MAX_IMAGE_BYTES >> 20} MiB")
    note: str | None = None
    if resize and len(data) * 4 / 3 > MAX_BASE64_BYTES and not _pillow_is_installed():
        # Providers reject it, and then every later prompt of the session.
        raise UsageError(
            f"{path} is too large for a model. To scale it down, {install_hint('images')}; or attach a smaller copy"
        )
    if resize:
        try:
            data, mime_type, note = fit_image(data, mime_type)
        except ToolError as error:
            raise UsageError(f"{path}: {error}") from None
    image = Image(binascii.b2a_base64(data, newline=False).decode(), mime_type)
    return f'<file name="{path}">{note or ""}</file>\n', image


def _pillow_is_installed() -> bool:
    from importlib.util import find_spec

    return find_spec("PIL") is not None

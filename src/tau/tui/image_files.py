"""Images for the prompt: their type and size from the first bytes, and files that were dropped onto the terminal."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tau.records.base import Value
from tau.screen.editor import Image
from tau.store.files import read_small

MAX_IMAGE_BYTES = 20 * 1024 * 1024
MAX_DROPPED_CHARS = 8192
_SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp")


class ImageHeader(Value):
    mime_type: str
    width: int
    height: int


def image_header(data: bytes) -> ImageHeader | None:
    """The type and size of a PNG, JPEG, GIF or WebP image; None for anything else."""
    if data[:8] == b"\x89PNG\r\n\x1a\n" and data[12:16] == b"IHDR" and len(data) >= 24:
        return ImageHeader("image/png", _big(data[16:20]), _big(data[20:24]))
    if data[:6] in (b"GIF87a", b"GIF89a") and len(data) >= 10:
        return ImageHeader("image/gif", _little(data[6:8]), _little(data[8:10]))
    if data[:3] == b"\xff\xd8\xff":
        return ImageHeader("image/jpeg", *_jpeg_size(data))
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return ImageHeader("image/webp", *_webp_size(data))
    return None


def _big(data: bytes) -> int:
    return int.from_bytes(data, "big")


def _little(data: bytes) -> int:
    return int.from_bytes(data, "little")


def _jpeg_size(data: bytes) -> tuple[int, int]:
    """The size in the frame header (SOF); (0, 0) if there is none."""
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        kind = data[at + 1]
        if kind == 0xFF:  # a fill byte
            at += 1
        elif kind in (0x01, *range(0xD0, 0xD9)):  # markers without content
            at += 2
        elif 0xC0 <= kind <= 0xCF and kind not in (0xC4, 0xC8, 0xCC):
            return _big(data[at + 7 : at + 9]), _big(data[at + 5 : at + 7])
        else:
            at += 2 + max(_big(data[at + 2 : at + 4]), 2)
    return 0, 0


def _webp_size(data: bytes) -> tuple[int, int]:
    if len(data) < 30:
        return 0, 0
    match data[12:16]:
        case b"VP8X":
            return _little(data[24:27]) + 1, _little(data[27:30]) + 1
        case b"VP8L":
            bits = _little(data[21:25])
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            return _little(data[26:28]) & 0x3FFF, _little(data[28:30]) & 0x3FFF
    return 0, 0


def image_of(data: bytes, name: str = "", source: str = "") -> Image | None:
    """An image for the editor; None if the data is not an image or too large."""
    header = image_header(data) if len(data) <= MAX_IMAGE_BYTES else None
    if header is None:
        return None
    return Image(data, header.mime_type, name, header.width, header.height, source)


def read_image(path: str) -> Image | None:
    """Read an image file; None if it cannot be read or is not an image. Blocks."""
    try:
        data = read_small(path, MAX_IMAGE_BYTES)
    except (OSError, ValueError):
        return None
    return image_of(data, os.path.basename(path), path)


def dropped_images(text: str) -> list[Image]:
    """The images whose paths were dropped onto the terminal, which sends them as a paste. Blocks.

    Empty unless the text consists of absolute paths of images alone: quoted, with backslashes, or as file: URLs.
    """
    paths = dropped_paths(text)
    images = [read_image(path) for path in paths]
    found = [image for image in images if image is not None]
    return found if len(found) == len(images) else []


def dropped_paths(text: str) -> list[str]:
    """The absolute paths of a text that consists of nothing but paths of images; else an empty list."""
    text = text.strip()
    if not text or len(text) > MAX_DROPPED_CHARS or not text.lower().rstrip("'\"").endswith(_SUFFIXES):
        return []
    if (whole := _absolute(text)) and os.path.isfile(whole):  # with spaces that are not escaped
        return [whole]
    try:
        words = [_absolute(word) for word in shlex.split(text)]
    except ValueError:
        return []
    paths = [word for word in words if word and word.lower().endswith(_SUFFIXES)]
    return paths if len(paths) == len(words) else []


def _absolute(word: str) -> str | None:
    try:
        word = os.path.expanduser(unquote(urlsplit(word).path) if word.startswith("file://") else word)
    except (RuntimeError, ValueError):  # not a URL, or a home folder that does not exist
        return None
    return word if "\0" not in word and Path(word).is_absolute() else None

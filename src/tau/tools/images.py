"""Scales images down until every provider accepts them.

Pillow is imported when the first image is read. Without Pillow, and for an image that it cannot read, the original is
sent.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from tau.errors import ToolError

if TYPE_CHECKING:
    from PIL.Image import Image

LONGEST_SIDE = 2000
LARGEST = 4.5 * 1024 * 1024  # bytes as base64, which is what is sent
SHORTEST_SIDE = 100  # a smaller image shows nothing useful

QUALITY = 80
QUALITIES = (85, 70, 55, 40)
SCALES = (1.0, 0.75, 0.5, 0.35, 0.25)

_LANCZOS = 1  # PIL.Image.Resampling.LANCZOS; PIL is not imported yet
_FORMATS = {"image/png": "PNG", "image/jpeg": "JPEG", "image/gif": "GIF", "image/webp": "WEBP"}


class Encoded(NamedTuple):
    data: bytes
    mime_type: str
    size: tuple[int, int]

    @property
    def fits(self) -> bool:
        return _sent(self.data) <= LARGEST


def fitted(data: bytes, mime_type: str) -> tuple[bytes, str, str | None]:
    """Return an image that models accept, its MIME type, and a note for the model if it is not the original.

    Raises ToolError for an image with too many pixels to decode: the provider would reject the original, and with it
    every later prompt of the session.
    """
    try:
        import PIL.Image as pillow
        import PIL.ImageOps
    except ImportError:
        return data, mime_type, None

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pillow.DecompressionBombWarning)
            picture: Image = pillow.open(io.BytesIO(data), formats=[_FORMATS[mime_type]])
        turned = picture.getexif().get(0x0112) in (5, 6, 7, 8)
        width, height = original = picture.size[::-1] if turned else picture.size
        if max(width, height) <= LONGEST_SIDE and _sent(data) <= LARGEST:
            return data, mime_type, None
        size = _within(original, LONGEST_SIDE)
        picture.draft("RGB", size[::-1] if turned else size)  # a large JPEG need not be decoded in full
        upright = PIL.ImageOps.exif_transpose(picture)
        best = _best(_plain(upright).resize(size, _LANCZOS, reducing_gap=3.0), mime_type)
    except (pillow.DecompressionBombWarning, pillow.DecompressionBombError):
        raise ToolError("The image has too many pixels to be shown; make a smaller copy of it and read that") from None
    except Exception:  # a decoder of untrusted bytes may raise anything
        return data, mime_type, None
    return best.data, best.mime_type, _note(original, best.size)


def _sent(data: bytes) -> int:
    return (len(data) + 2) // 3 * 4


def _within(size: tuple[int, int], side: int) -> tuple[int, int]:
    scale = min(1.0, side / max(size))
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


def _plain(picture: Image) -> Image:
    """Convert to a colour mode that can be scaled and saved."""
    if picture.mode.startswith("I"):  # 16-bit greyscale
        return picture.convert("I").point(lambda value: value * (1 / 256)).convert("L")
    if picture.has_transparency_data:
        return picture.convert("RGBA")
    return picture if picture.mode in ("L", "RGB") else picture.convert("RGB")


def _best(picture: Image, mime_type: str) -> Encoded:
    """Return the first encoding that fits, otherwise the smallest."""
    tried: list[Encoded] = []
    for encoded in _encodings(picture, mime_type):
        if encoded.fits:
            return encoded
        tried.append(encoded)
    return min(tried, key=lambda encoded: len(encoded.data))


def _encodings(picture: Image, mime_type: str) -> Iterator[Encoded]:
    flat = _on_white(picture)
    first = _jpeg(flat, QUALITY)
    if mime_type != "image/jpeg":  # a JPEG never becomes smaller as PNG
        png = _png(picture)
        first = png if len(png.data) < len(first.data) else first
    yield first
    for scale in SCALES:
        size = max(1, round(picture.width * scale)), max(1, round(picture.height * scale))
        if scale < 1 and min(size) < SHORTEST_SIDE:
            return
        smaller = flat if scale == 1 else flat.resize(size, _LANCZOS)
        for quality in QUALITIES:
            yield _jpeg(smaller, quality)


def _on_white(picture: Image) -> Image:
    """Flatten onto white, because JPEG has no transparency."""
    if picture.mode != "RGBA":
        return picture
    flat = picture.convert("RGB")
    flat.paste("white", (0, 0, *picture.size))
    flat.paste(picture, mask=picture.getchannel("A"))
    return flat


def _jpeg(picture: Image, quality: int) -> Encoded:
    out = io.BytesIO()
    picture.save(out, "JPEG", quality=quality)
    return Encoded(out.getvalue(), "image/jpeg", picture.size)


def _png(picture: Image) -> Encoded:
    out = io.BytesIO()
    picture.save(out, "PNG")
    return Encoded(out.getvalue(), "image/png", picture.size)


def _note(original: tuple[int, int], shown: tuple[int, int]) -> str:
    (width, height), (w, h) = original, shown
    return (
        f"[Image: original {width}x{height}, displayed at {w}x{h}."
        f" Multiply coordinates by {width / w:.2f} to map to original image.]"
    )

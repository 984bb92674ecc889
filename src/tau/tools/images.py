"""Scales images down until every provider accepts them.

Pillow is imported when the first image is read. Without Pillow, and for an image that it cannot read, the original is
sent.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tau.errors import ToolError
from tau.records.base import Value

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_SIDE_PIXELS = 2000
MAX_BASE64_BYTES = 4.5 * 1024 * 1024  # bytes as base64, which is what is sent
MIN_SIDE_PIXELS = 100  # a smaller image shows nothing useful

FIRST_QUALITY = 80
LOWER_QUALITIES = (85, 70, 55, 40)
SCALES = (1.0, 0.75, 0.5, 0.35, 0.25)

_LANCZOS = 1  # PIL.Image.Resampling.LANCZOS; PIL is not imported yet
_FORMATS = {"image/png": "PNG", "image/jpeg": "JPEG", "image/gif": "GIF", "image/webp": "WEBP"}


class EncodedImage(Value):
    data: bytes
    mime_type: str
    size: tuple[int, int]

    @property
    def fits(self) -> bool:
        return _sent(self.data) <= MAX_BASE64_BYTES


def fit_image(data: bytes, mime_type: str) -> tuple[bytes, str, str | None]:
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
            image: Image = pillow.open(io.BytesIO(data), formats=[_FORMATS[mime_type]])
        turned = image.getexif().get(0x0112) in (5, 6, 7, 8)
        width, height = original = image.size[::-1] if turned else image.size
        if max(width, height) <= MAX_SIDE_PIXELS and _sent(data) <= MAX_BASE64_BYTES:
            return data, mime_type, None
        size = _within(original, MAX_SIDE_PIXELS)
        image.draft("RGB", size[::-1] if turned else size)  # a large JPEG need not be decoded in full
        upright = PIL.ImageOps.exif_transpose(image)
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


def _plain(image: Image) -> Image:
    """Convert to a colour mode that can be scaled and saved."""
    if image.mode.startswith("I"):  # 16-bit greyscale
        return image.convert("I").point(lambda value: value * (1 / 256)).convert("L")
    if image.has_transparency_data:
        return image.convert("RGBA")
    return image if image.mode in ("L", "RGB") else image.convert("RGB")


def _best(image: Image, mime_type: str) -> EncodedImage:
    """Return the first encoding that fits, otherwise the smallest."""
    tried: list[EncodedImage] = []
    for encoded in _encodings(image, mime_type):
        if encoded.fits:
            return encoded
        tried.append(encoded)
    return min(tried, key=lambda encoded: len(encoded.data))


def _encodings(image: Image, mime_type: str) -> Iterator[EncodedImage]:
    flat = _on_white(image)
    first = _jpeg(flat, FIRST_QUALITY)
    if mime_type != "image/jpeg":  # a JPEG never becomes smaller as PNG
        png = _png(image)
        first = png if len(png.data) < len(first.data) else first
    yield first
    for scale in SCALES:
        size = max(1, round(image.width * scale)), max(1, round(image.height * scale))
        if scale < 1 and min(size) < MIN_SIDE_PIXELS:
            return
        smaller = flat if scale == 1 else flat.resize(size, _LANCZOS)
        for quality in LOWER_QUALITIES:
            yield _jpeg(smaller, quality)


def _on_white(image: Image) -> Image:
    """Flatten onto white, because JPEG has no transparency."""
    if image.mode != "RGBA":
        return image
    flat = image.convert("RGB")
    flat.paste("white", (0, 0, *image.size))
    flat.paste(image, mask=image.getchannel("A"))
    return flat


def _jpeg(image: Image, quality: int) -> EncodedImage:
    out = io.BytesIO()
    image.save(out, "JPEG", quality=quality)
    return EncodedImage(out.getvalue(), "image/jpeg", image.size)


def _png(image: Image) -> EncodedImage:
    out = io.BytesIO()
    image.save(out, "PNG")
    return EncodedImage(out.getvalue(), "image/png", image.size)


def _note(original: tuple[int, int], shown: tuple[int, int]) -> str:
    (width, height), (w, h) = original, shown
    return (
        f"[Image: original {width}x{height}, displayed at {w}x{h}."
        f" Multiply coordinates by {width / w:.2f} to map to original image.]"
    )

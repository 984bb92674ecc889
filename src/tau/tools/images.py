"""Scales images down until every provider accepts them.

Pillow is imported when the first image is read. Without Pillow, and for an image that it cannot read, the original is
sent.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tau.errors import ToolError
from tau.records.base import Value

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_SIDE_PIXELS = 2000
MAX_BASE64_BYTES = 4.5 * 1024 * 1024  # bytes as base64, which is what is sent
MAX_PIXELS = 89_478_485  # more would take too much memory to decode; the limit of Pillow
MIN_SIDE_PIXELS = 100  # a smaller image shows nothing useful

FIRST_QUALITY = 80
LOWER_QUALITIES = (85, 70, 55, 40)
SCALES = (1.0, 0.75, 0.5, 0.35, 0.25)

ORIENTATION_TAG = 0x0112
# What shows an image upright, by its orientation: names of PIL.Image.Transpose.
TURNS: dict[object, str] = {
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}
QUARTER_TURNS = (5, 6, 7, 8)

_LANCZOS = 1  # PIL.Image.Resampling.LANCZOS; PIL is not imported yet
_FORMATS = {"image/png": "PNG", "image/jpeg": "JPEG", "image/gif": "GIF", "image/webp": "WEBP"}
_MAGIC = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}


class EncodedImage(Value):
    data: bytes
    mime_type: str
    size: tuple[int, int]

    @property
    def fits(self) -> bool:
        return _sent(self.data) <= MAX_BASE64_BYTES


def fit_image(data: bytes, mime_type: str) -> tuple[bytes, str, str | None]:
    """Return an image that models accept, its MIME type, and a note for the model if it is not the original.

    Raises ToolError for an image that has too many pixels to decode, and for one that is too large and cannot be
    decoded: the provider would reject the original, and with it every later prompt of the session.
    """
    try:
        import PIL.Image as pillow
    except ImportError:
        return data, mime_type, None

    try:
        actual_type = _actual_type(data) or mime_type
        image = _opened(pillow, data, actual_type)
        if image.width * image.height > MAX_PIXELS:
            raise ToolError("The image has too many pixels to be shown; make a smaller copy of it and read that")
        if max(image.size) <= MAX_SIDE_PIXELS and _sent(data) <= MAX_BASE64_BYTES:
            return data, actual_type, None
        original, best = _scaled_down(image, actual_type)
    except ToolError:
        raise
    except Exception:  # a decoder of untrusted bytes may raise anything
        if _sent(data) > MAX_BASE64_BYTES:
            raise ToolError(
                "The image is too large to be shown, and cannot be scaled down because it is damaged; "
                "make a smaller copy of it and read that"
            ) from None
        return data, mime_type, None
    return best.data, best.mime_type, _note(original, best.size)


def _actual_type(data: bytes) -> str | None:
    """The MIME type that the first bytes tell. Providers reject an image of another type than it is said to be."""
    if data.startswith(b"RIFF"):
        return "image/webp" if data[8:12] == b"WEBP" else None
    return next((mime_type for magic, mime_type in _MAGIC.items() if data.startswith(magic)), None)


def _opened(pillow: Any, data: bytes, mime_type: str) -> Image:
    """Read the header of an image.

    Not with `Image.open`: it warns of large images, and to catch a warning would change the filters of all threads.
    """
    pillow.preinit()
    format = _FORMATS[mime_type]
    if format not in pillow.OPEN:
        pillow.init()
    image: Image = pillow.OPEN[format][0](io.BytesIO(data), "")
    return image


def _scaled_down(image: Image, mime_type: str) -> tuple[tuple[int, int], EncodedImage]:
    """The size of an image as it is shown, and its best encoding that every provider accepts."""
    from PIL.Image import Transpose

    orientation = _orientation(image)
    turn = TURNS.get(orientation)
    original = image.size[::-1] if orientation in QUARTER_TURNS else image.size
    size = _within(image.size, MAX_SIDE_PIXELS)
    image.draft("RGB", size)  # a large JPEG need not be decoded in full
    scaled = _plain(image).resize(size, _LANCZOS, reducing_gap=3.0)
    shown = scaled if turn is None else scaled.transpose(Transpose[turn])
    return original, _best(shown, mime_type)


def _orientation(image: Image) -> object:
    """The orientation in the EXIF data. An image with damaged EXIF data is shown as it is stored."""
    try:
        return image.getexif().get(ORIENTATION_TAG)
    except Exception:
        return None


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
        return image if image.mode == "RGBA" else image.convert("RGBA")
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

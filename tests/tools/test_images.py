from __future__ import annotations

import base64
import io
import random
import struct
import subprocess
import sys
import zlib

import pytest
from PIL import Image

from tau.errors import ToolError
from tau.tools.images import MAX_BASE64_BYTES, fit_image

NOTE = "[Image: original {}, displayed at {}. Multiply coordinates by {} to map to original image.]"


def picture(size: tuple[int, int], kind: str = "PNG", mode: str = "RGB", **options: object) -> bytes:
    out = io.BytesIO()
    Image.new(mode, size, "red" if mode.startswith("RGB") else 1).save(out, kind, **options)
    return out.getvalue()


def noise(width: int, height: int, kind: str = "PNG") -> bytes:
    """What no format can make small."""
    out = io.BytesIO()
    data = random.Random(0).randbytes(3 * width * height)
    Image.frombytes("RGB", (width, height), data).save(out, kind, quality=100)
    return out.getvalue()


def size(data: bytes) -> tuple[int, int]:
    return Image.open(io.BytesIO(data)).size


@pytest.mark.parametrize(("kind", "mime"), [("PNG", "png"), ("JPEG", "jpeg"), ("GIF", "gif"), ("WEBP", "webp")])
def test_a_picture_that_fits_is_left_alone(kind: str, mime: str) -> None:
    data = picture((2000, 20), kind)
    assert fit_image(data, f"image/{mime}") == (data, f"image/{mime}", None)


def test_a_large_picture_is_made_smaller_and_the_model_is_told() -> None:
    data, mime, note = fit_image(picture((4000, 1000)), "image/png")
    assert (size(data), mime, note) == ((2000, 500), "image/png", NOTE.format("4000x1000", "2000x500", "2.00"))


def test_a_photo_stays_one() -> None:
    data, mime, note = fit_image(noise(900, 3000, "JPEG"), "image/jpeg")
    assert (size(data), mime, note) == ((600, 2000), "image/jpeg", NOTE.format("900x3000", "600x2000", "1.50"))


def test_what_is_sent_is_base64_and_that_must_fit() -> None:
    data = noise(1100, 1100)
    assert len(data) < MAX_BASE64_BYTES < len(base64.b64encode(data))
    data, mime, note = fit_image(data, "image/png")
    assert (size(data), mime, note) == ((1100, 1100), "image/jpeg", NOTE.format("1100x1100", "1100x1100", "1.00"))
    assert len(base64.b64encode(data)) <= MAX_BASE64_BYTES


def test_a_turned_photo_is_shown_upright() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    data, _, note = fit_image(picture((3000, 1000), "JPEG", exif=exif), "image/jpeg")
    assert (size(data), note) == ((667, 2000), NOTE.format("1000x3000", "667x2000", "1.50"))


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "I;16"])
def test_every_kind_of_colour_can_be_made_smaller(mode: str) -> None:
    data, _, _ = fit_image(picture((2100, 10), mode=mode), "image/png")
    assert size(data) == (2000, 10)


def test_what_is_transparent_becomes_white_in_a_photo() -> None:
    clear = Image.frombytes("RGBA", (1200, 1200), random.Random(0).randbytes(4 * 1200 * 1200))
    clear.putalpha(0)
    out = io.BytesIO()
    clear.save(out, "PNG")
    data, mime, _ = fit_image(out.getvalue(), "image/png")
    shown = Image.open(io.BytesIO(data))
    assert (mime, shown.getpixel((600, 600))) == ("image/jpeg", (255, 255, 255))


def test_of_an_animation_the_first_picture_is_shown() -> None:
    out = io.BytesIO()
    Image.new("P", (2500, 10)).save(out, "GIF", save_all=True, append_images=[Image.new("P", (2500, 10), 1)])
    data, mime, _ = fit_image(out.getvalue(), "image/gif")
    assert (size(data), mime) == ((2000, 8), "image/png")


@pytest.mark.promise("F22")
@pytest.mark.parametrize(
    "data", [b"", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", picture((3000, 30))[:-30], b"GIF89a" + b"\0" * 99]
)
def test_what_cannot_be_read_stays_as_it_is(data: bytes) -> None:
    assert fit_image(data, "image/png") == (data, "image/png", None)


def bomb(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 10**6)) + chunk(b"IEND", b"")
    )


@pytest.mark.promise("F23")
@pytest.mark.parametrize("side", [10_000, 30_000])
def test_a_picture_that_would_fill_the_memory_is_refused(side: int) -> None:
    with pytest.raises(ToolError, match="too many pixels"):
        fit_image(bomb(side, side), "image/png")


def test_without_pillow_the_original_is_shown() -> None:
    ask = (
        "import sys; sys.modules['PIL'] = None\n"
        "from tau.tools.images import fit_image\n"
        "assert fit_image(b'x', 'image/png') == (b'x', 'image/png', None)"
    )
    subprocess.run([sys.executable, "-c", ask], check=True)


def test_pillow_is_loaded_only_for_a_picture() -> None:
    ask = "import sys; import tau.tools.registry; assert 'PIL' not in sys.modules"
    subprocess.run([sys.executable, "-c", ask], check=True)

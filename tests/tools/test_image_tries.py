"""Images of every kind and size, damaged ones and bombs: scaled down, left alone or refused, never more."""

from __future__ import annotations

import base64
import io
import random
import struct
import subprocess
import sys
import threading
import tracemalloc
import warnings
import zlib
from typing import Any

import pytest
from PIL import Image

from tau.errors import ToolError
from tau.tools.images import MAX_BASE64_BYTES, MAX_PIXELS, fit_image
from tau.tools.read import image_type

MIME = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WEBP": "image/webp"}


def picture(size: tuple[int, int], kind: str = "PNG", mode: str = "RGB", **options: Any) -> bytes:
    out = io.BytesIO()
    Image.new(mode, size).save(out, kind, **options)
    return out.getvalue()


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int, height: int, *extra: bytes) -> bytes:
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"\0" * min((3 * width + 1) * height, 100_000))
    return b"\x89PNG\r\n\x1a\n" + b"".join([chunk(b"IHDR", head), *extra, chunk(b"IDAT", pixels), chunk(b"IEND", b"")])


def shown(data: bytes, mime: str) -> tuple[tuple[int, int], str]:
    """The size and type of what is shown."""
    out, mime, _ = fit_image(data, mime)
    return Image.open(io.BytesIO(out)).size, mime


# Sizes.


@pytest.mark.parametrize("kind", MIME)
@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ((1, 1), (1, 1)),
        ((2000, 1), (2000, 1)),
        ((2001, 1), (2000, 1)),
        ((1, 2001), (1, 2000)),
        ((16_000, 1), (2000, 1)),
        ((3, 9000), (1, 2000)),
        ((2500, 500), (2000, 400)),
    ],
    ids=lambda size: "x".join(map(str, size)),
)
def test_sides_are_at_most_2000_pixels(kind: str, size: tuple[int, int], expected: tuple[int, int]) -> None:
    assert shown(picture(size, kind), MIME[kind])[0] == expected


@pytest.mark.parametrize(
    ("kind", "mode"),
    [("PNG", mode) for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16")]
    + [("JPEG", mode) for mode in ("L", "RGB", "CMYK")]
    + [("GIF", "P"), ("GIF", "L"), ("WEBP", "RGB"), ("WEBP", "RGBA")],
)
def test_every_mode_is_scaled_down(kind: str, mode: str) -> None:
    size, mime = shown(picture((4000, 40), kind, mode), MIME[kind])
    assert size == (2000, 20) and mime in ("image/png", "image/jpeg")


@pytest.mark.parametrize("kind", ["PNG", "GIF", "WEBP"])
def test_of_an_animation_the_first_picture_is_shown(kind: str) -> None:
    more = [Image.new("RGB", (2500, 10), (0, 0, at)) for at in range(3)]
    data = picture((2500, 10), kind, save_all=True, append_images=more)
    assert shown(data, MIME[kind])[0] == (2000, 8)


@pytest.mark.parametrize(
    ("orientation", "turned"), [(1, False), (3, False), (5, True), (6, True), (8, True), (9, False)]
)
def test_a_turned_photo_is_measured_as_it_is_shown(orientation: int, turned: bool) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    size, _ = shown(picture((4000, 1000), "JPEG", exif=exif), "image/jpeg")
    assert size == ((500, 2000) if turned else (2000, 500))


# Damaged ones.

EXIF = {
    "no header": b"Exif\0\0garbage!!",
    "empty": b"Exif\0\0",
    "cut off": b"Exif\0\0MM\0*\0\0\0\x08\0\x05",
    "an offset behind the end": b"Exif\0\0MM\0*\xff\xff\xff\xff",
    "a text as orientation": b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x02\0\0\0\x02A\0\0\0\0\0\0\0",
    "a list as orientation": b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x02\0\x06\0\x06\0\0\0\0",
}


@pytest.mark.parametrize("name", EXIF)
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
@pytest.mark.filterwarnings("ignore:Corrupt EXIF")
def test_damaged_exif_data_does_not_keep_an_image_large(name: str, kind: str) -> None:
    data = picture((3000, 30), kind)
    if kind == "PNG":
        data = data[:33] + chunk(b"eXIf", EXIF[name].removeprefix(b"Exif\0\0")) + data[33:]
    else:
        data = picture((3000, 30), kind, exif=EXIF[name])
    assert shown(data, MIME[kind])[0] == (2000, 20)


@pytest.mark.parametrize("kind", MIME)
def test_a_file_cut_at_any_place_is_left_alone_or_scaled(kind: str) -> None:
    whole = picture((2100, 30), kind)
    for cut in sorted({*range(0, 64, 7), *range(64, len(whole), max(1, len(whole) // 6))}):
        data, mime, note = fit_image(whole[:cut], MIME[kind])
        assert (data, mime) == (whole[:cut], MIME[kind]) or (note and Image.open(io.BytesIO(data)).width == 2000)


@pytest.mark.parametrize("kind", MIME)
def test_bytes_that_are_wrong_raise_nothing(kind: str) -> None:
    chance = random.Random(kind)
    whole = picture((2100, 30), kind)
    for _ in range(12):
        bad = bytearray(whole)
        for _ in range(chance.randint(1, 6)):
            bad[chance.randrange(len(bad))] ^= 1 << chance.randrange(8)
        try:
            data, _, note = fit_image(bytes(bad), MIME[kind])
        except ToolError as error:
            assert "too many pixels" in str(error)
        else:
            assert note is not None or data == bytes(bad)


@pytest.mark.parametrize("kind", MIME)
def test_an_image_of_another_type_than_it_is_said_to_be_gets_its_own(kind: str) -> None:
    """Servers of tools are wrong about it, and providers refuse such an image."""
    for said in MIME.values():
        data = picture((30, 30), kind)
        assert fit_image(data, said) == (data, MIME[kind], None)
        assert shown(picture((3000, 30), kind), said)[0] == (2000, 20)


@pytest.mark.parametrize("kind", ["JPEG", "GIF", "WEBP"])
def test_a_large_image_that_cannot_be_decoded_is_refused(kind: str) -> None:
    """The provider would refuse it, and with it every later prompt of the session."""
    noise = random.Random(0).randbytes(3_600_000)
    data = picture((40, 40), kind)[:30] + noise
    assert len(base64.b64encode(data)) > MAX_BASE64_BYTES
    with pytest.raises(ToolError, match="damaged"):
        fit_image(data, MIME[kind])


# Bombs.


@pytest.mark.parametrize(
    ("name", "data", "mime"),
    [
        ("a PNG of 900 million pixels", png(30_000, 30_000), "image/png"),
        ("a PNG of four billion pixels", png(65_535, 65_535), "image/png"),
        ("a PNG of the largest size", png(2**31 - 1, 2**31 - 1), "image/png"),
        ("a GIF of four billion pixels", b"GIF89a\xff\xff\xff\xff\0\0\0,\0\0\0\0\1\0\1\0\0\2\2D\1\0;", "image/gif"),
        ("a PNG just above the limit", png(MAX_PIXELS // 5000 + 1, 5001), "image/png"),
    ],
    ids=lambda value: value if isinstance(value, str) and " " in value else "",
)
def test_too_many_pixels_are_refused(name: str, data: bytes, mime: str) -> None:
    with pytest.raises(ToolError, match="too many pixels"):
        fit_image(data, mime)


def test_packed_texts_of_a_png_are_not_unpacked_without_limit() -> None:
    pack = zlib.compressobj(1)
    packed = b"".join(pack.compress(bytes(1_000_000)) for _ in range(70)) + pack.flush()
    data = png(40, 40, chunk(b"zTXt", b"x\0\0" + packed))
    tracemalloc.start()
    try:
        assert fit_image(data, "image/png") == (data, "image/png", None)
        assert tracemalloc.get_traced_memory()[1] < 70_000_000
    finally:
        tracemalloc.stop()


# The rest of the program.


def test_reading_an_image_leaves_the_filters_of_warnings_alone() -> None:
    """A program that embeds the agent has filters of its own, and catching a warning changes them for all threads."""
    data, before, interval = picture((30, 30)), warnings.filters, sys.getswitchinterval()
    fit_image(data, "image/png")
    work = threading.Thread(target=lambda: [fit_image(data, "image/png") for _ in range(300)])
    sys.setswitchinterval(1e-6)
    try:
        work.start()
        changed = False
        while work.is_alive():
            changed = changed or warnings.filters is not before
    finally:
        sys.setswitchinterval(interval)
    assert not changed


def test_a_large_image_is_refused_whatever_the_program_allows_pillow() -> None:
    ask = (
        "import sys, warnings; warnings.simplefilter('error')\n"
        "import PIL.Image; PIL.Image.MAX_IMAGE_PIXELS = None\n"
        "from tau.errors import ToolError\n"
        "from tau.tools.images import fit_image\n"
        "try:\n"
        "    fit_image(sys.stdin.buffer.read(), 'image/png')\n"
        "except ToolError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", ask], input=png(30_000, 30_000), capture_output=True, check=True)
    assert b"too many pixels" in done.stdout


@pytest.mark.parametrize(
    ("data", "mime"),
    [
        (picture((2, 2), "PNG"), "image/png"),
        (picture((2, 2), "JPEG"), "image/jpeg"),
        (picture((2, 2), "JPEG", progressive=True), "image/jpeg"),
        (picture((2, 2), "GIF"), "image/gif"),
        (picture((2, 2), "WEBP"), "image/webp"),
        (picture((2, 2), "WEBP", lossless=True), "image/webp"),
        (picture((2, 2), "BMP"), None),
        (picture((2, 2), "TIFF"), None),
        (picture((2, 2), "ICO"), None),
        (picture((2, 2), "PPM"), None),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", None),
        (b"GIF89a is a format for images.\n", None),
        (b"\x89PNG\r\n\x1a\n, as a text begins", None),
        (b"RIFF1234WEBPVP8 ", "image/webp"),
        (b"RIFF1234WAVEfmt ", None),
        (b"\xff\xd8\xff\xff", None),
        (b"\0\0\0\x1cftypavif", None),
        (b"\0\0\0\x18ftypheic", None),
        (b"", None),
    ],
)
def test_an_image_is_known_by_its_first_bytes(data: bytes, mime: str | None) -> None:
    assert image_type(data[:4100]) == mime

from __future__ import annotations

from typing import Any

import pytest

from tau.core.checks.images import accepted
from tau.errors import CommandError
from tau.records.base import decode, encode
from tau.records.commands import ImageGiven
from tau.records.messages import Image

MIME_TYPES = ["image/png", "image/jpeg", "image/gif", "image/webp"]


def given(**fields: Any) -> ImageGiven:
    return decode(ImageGiven, encode({"type": "image", **fields}))


def base64(**fields: Any) -> ImageGiven:
    return given(source={"type": "base64", **fields})


@pytest.mark.parametrize("kind", MIME_TYPES)
def test_both_documented_forms_become_one(kind: str) -> None:
    assert accepted([given(data="QUJD", mimeType=kind), base64(data="QUJD", mediaType=kind)]) == [
        Image("QUJD", kind),
        Image("QUJD", kind),
    ]


def test_no_images_are_fine() -> None:
    assert accepted(None) == accepted([]) == []


@pytest.mark.parametrize(
    ("image", "error"),
    [
        (given(), "images[1].data: missing"),
        (given(data="QUJD"), "images[1].mimeType: missing"),
        (base64(), "images[1].source.data: missing"),
        (base64(data="QUJD"), "images[1].source.mediaType: missing"),
        (given(data="", mimeType="image/png"), "images[1].data: empty"),
        (given(data="QUJ", mimeType="image/png"), "images[1].data: not valid base64"),
        (given(data="QU JD", mimeType="image/png"), "images[1].data: not valid base64"),
        (given(data="data:image/png;base64,QUJD", mimeType="image/png"), "images[1].data: not valid base64"),
        (given(data="é", mimeType="image/png"), "images[1].data: not valid base64"),
        (
            given(data="QUJD", mimeType="image/bmp"),
            f"images[1]: MIME type 'image/bmp' is not one of {', '.join(MIME_TYPES)}",
        ),
        (
            base64(data="QUJD", mediaType="text/html"),
            f"images[1].source: MIME type 'text/html' is not one of {', '.join(MIME_TYPES)}",
        ),
        (
            given(source={"type": "url", "url": "http://x/a.png"}),
            "images[1].source.type: only base64 is supported, not 'url'; send the image's data",
        ),
    ],
)
def test_what_is_wrong_with_an_image_is_said_with_its_place(image: ImageGiven, error: str) -> None:
    with pytest.raises(CommandError) as caught:
        accepted([given(data="QUJD", mimeType="image/png"), image])
    assert str(caught.value) == error

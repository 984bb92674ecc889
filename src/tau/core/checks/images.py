"""Images of a client: both documented forms become one record; errors name the invalid field."""

from __future__ import annotations

import binascii
from collections.abc import Sequence

from tau.errors import CommandError
from tau.records.commands import ImageGiven
from tau.records.messages import Image

MIME_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")


def accepted(images: Sequence[ImageGiven] | None) -> list[Image]:
    return [accepted_image(image, f"images[{at}]") for at, image in enumerate(images or ())]


def accepted_image(image: ImageGiven, where: str, field: str = "data") -> Image:
    """Validate one image. `field` is the client's name for the base64 data."""
    data, mime_type = image.data, image.mime_type
    if source := image.source:
        where += ".source"
        if source.type != "base64":
            raise CommandError(f"{where}.type: only base64 is supported, not {source.type!r}; send the image's data")
        data, mime_type = source.data, source.media_type
    if not isinstance(data, str):
        raise CommandError(f"{where}.{field}: missing")
    if not isinstance(mime_type, str):
        raise CommandError(f"{where}.{'mediaType' if image.source else 'mimeType'}: missing")
    if mime_type not in MIME_TYPES:
        raise CommandError(f"{where}: MIME type {mime_type!r} is not one of {', '.join(MIME_TYPES)}")
    try:
        empty = not binascii.a2b_base64(data, strict_mode=True)
    except (binascii.Error, ValueError):
        raise CommandError(f"{where}.{field}: not valid base64") from None
    if empty:
        raise CommandError(f"{where}.{field}: empty")
    return Image(data, mime_type)

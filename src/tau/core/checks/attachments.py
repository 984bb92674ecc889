"""Files that a client attaches to a prompt: images become image blocks, documents become text."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence

from tau.core.checks.images import checked_image
from tau.errors import CommandError
from tau.records.commands import ImageGiven
from tau.records.messages import Attachment, Image, Text


def attachment_blocks(attachments: Sequence[Attachment] | None) -> list[Text | Image]:
    """The content blocks for the model, in the order of the attachments."""
    return [
        _block(attachment, f"attachments[{index}] ({attachment.file_name})")
        for index, attachment in enumerate(attachments or ())
    ]


def _block(attachment: Attachment, where: str) -> Text | Image:
    if attachment.type == "image":
        image = ImageGiven("image", attachment.content, attachment.mime_type)
        return checked_image(image, where, "content")
    text = attachment.extracted_text
    if not isinstance(text, str):
        text = _text(attachment.content, where)
    return Text(f"\n\n[Document: {attachment.file_name}]\n{text}", is_document=True)


def _text(content: str, where: str) -> str:
    try:
        data = base64.b64decode(content, validate=True)
    except (binascii.Error, ValueError):
        raise CommandError(f"{where}.content: not valid base64") from None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise CommandError(f"{where}: the document is not text; send its text in extractedText")
    return text

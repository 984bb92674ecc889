"""Files a client sends with a prompt: images become image blocks, documents text."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence

from tau.core.checks.images import accepted_image
from tau.errors import CommandError
from tau.records.commands import ImageGiven
from tau.records.messages import Attachment, Image, Text


def attached(attachments: Sequence[Attachment] | None) -> list[Text | Image]:
    """What the model is given of them, in their order."""
    return [_block(one, f"attachments[{at}] ({one.file_name})") for at, one in enumerate(attachments or ())]


def _block(attachment: Attachment, where: str) -> Text | Image:
    if attachment.type == "image":
        given = ImageGiven("image", attachment.content, attachment.mime_type)
        return accepted_image(given, where, "content")
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
        raise CommandError(f"{where}: the document is not text, and there is no extractedText; send its text there")
    return text

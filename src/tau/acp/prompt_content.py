"""Content blocks of a client as the text and the images of a prompt. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import unquote, urlsplit

from tau.acp.errors import AcpError, invalid_params
from tau.acp.requests import AudioBlock, Block, ImageBlock, LinkBlock, Resource, ResourceBlock, TextBlock
from tau.acp.tool_views import fenced
from tau.core.checks.images import checked_image
from tau.errors import CommandError
from tau.records.commands import ImageGiven
from tau.records.messages import Image


def prompt_content(blocks: Sequence[Block]) -> tuple[str, list[Image]]:
    """Raises AcpError that names the wrong block."""
    texts, images = list[str](), list[Image]()
    for at, block in enumerate(blocks):
        where = f"prompt[{at}]"
        match block:
            case TextBlock(text):
                texts.append(text)
            case LinkBlock(uri):
                texts.append(path_or_uri(uri))
            case ResourceBlock(resource) if isinstance(resource.text, str):
                texts.append(f"\n{resource.uri}\n{fenced(resource.text)}\n")
            case ResourceBlock(resource):
                images.append(_blob(resource, f"{where}.resource"))
            case ImageBlock():
                images.append(_image(block.data, block.mime_type, where))
            case AudioBlock():
                raise invalid_params(where, "audio is not supported")
    text = "".join(texts)
    if not text.strip() and not images:
        raise invalid_params("prompt", "empty")
    return text, images


def path_or_uri(uri: str) -> str:
    """The path of a `file:` URI, else the URI itself."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return uri
    return unquote(parts.path) if parts.scheme == "file" and parts.path else uri


def _blob(resource: Resource, where: str) -> Image:
    if not isinstance(resource.blob, str):
        raise invalid_params(where, "it needs text or blob")
    mime_type = resource.mime_type if isinstance(resource.mime_type, str) else ""
    return _image(resource.blob, mime_type, where, "blob")


def _image(data: str, mime_type: str, where: str, field: str = "data") -> Image:
    try:
        return checked_image(ImageGiven("image", data, mime_type), where, field)
    except CommandError as error:
        raise _at(str(error)) from None


def _at(sentence: str) -> AcpError:
    field, _, problem = sentence.partition(": ")
    return invalid_params(field, problem)

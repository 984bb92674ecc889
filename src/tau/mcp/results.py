"""Results of servers as parts for the model: text, images, and data that belongs into a file."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as BadBase64
from collections.abc import Mapping
from typing import Any

from tau.core.checks.schema import validate
from tau.mcp.definitions import shown, shown_address
from tau.records.base import UNSET, BadRecord, Value, encode

IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
MAX_PARTS = 1000
MAX_IMAGES = 50
MAX_DETAIL_BYTES = 1024 * 1024  # of structuredContent and _meta as JSON, each: several events and the session have them


class TextPart(Value):
    text: str


class ImagePart(Value):
    data: bytes
    mime_type: str


class FilePart(Value):
    """Data that is not shown: it is written to a private file. `label` says what it is."""

    data: bytes
    label: str


Part = TextPart | ImagePart | FilePart


class CallResult(Value):
    """The result of `tools/call`. `details` is for clients."""

    parts: list[Part]
    is_error: bool
    details: dict[str, Any]

    @property
    def text(self) -> str:
        return "\n".join(part.text for part in self.parts if isinstance(part, TextPart))


def parse_call_result(result: Any, server: str, tool: str, output_schema: Any = UNSET) -> CallResult:
    """Interpret a result, whatever the server sent."""
    details: dict[str, Any] = {"server": server, "tool": tool}
    if not isinstance(result, Mapping):
        return CallResult([TextPart("The server sent a result that is not an object.")], True, {"mcp": details})
    content = result.get("content")
    parts = content_parts(content if isinstance(content, list) else [])
    structured = result.get("structuredContent", UNSET)
    has_text = any(isinstance(part, TextPart) for part in parts)
    if structured is not UNSET:
        file = _add_detail(details, "structuredContent", structured)
        # Without other text, its JSON is the text, which is saved if it is long.
        parts = [*file, *parts] if has_text else [*parts, TextPart(_json(structured))]
        if isinstance(output_schema, dict) and (problems := validate(output_schema, structured)[1]):
            details["outputSchemaProblems"] = problems[:10]
    if isinstance(result.get("_meta"), Mapping):
        parts = [*_add_detail(details, "_meta", result["_meta"]), *parts]
    return CallResult(parts, result.get("isError") is True, {"mcp": details})


def _add_detail(details: dict[str, Any], name: str, value: Any) -> list[FilePart]:
    """Add a value of the server to the details. One that is too large is a file instead, and the details say so."""
    data = _json(value).encode("utf-8", "replace")
    if len(data) <= MAX_DETAIL_BYTES:
        details[name] = value
        return []
    note = f"{name} is left out, because it is larger than {MAX_DETAIL_BYTES >> 20} MiB. The text names its file."
    details.setdefault("notes", []).append(note)
    return [FilePart(data, name)]


def content_parts(items: list[Any]) -> list[Part]:
    parts: list[Part] = []
    images = 0
    for item in items[:MAX_PARTS]:
        part = _part(item) if isinstance(item, Mapping) else None
        if isinstance(part, ImagePart):
            images += 1
            if images > MAX_IMAGES:
                continue
        if part is not None:
            parts.append(part)
    if len(items) > MAX_PARTS:
        parts.append(TextPart(f"[{len(items) - MAX_PARTS} more parts of this result were left out.]"))
    return parts


def _part(item: Mapping[str, Any]) -> Part | None:
    kind = item.get("type")
    if kind == "text":
        text = item.get("text")
        return TextPart(text) if isinstance(text, str) else None
    if kind in ("image", "audio"):
        data, mime_type = _decoded(item.get("data")), _mime_type(item)
        if data is None:
            return TextPart(f"[The server sent {kind} data that is not base64.]")
        if kind == "image" and mime_type in IMAGE_TYPES:
            return ImagePart(data, mime_type)
        return FilePart(data, f"{kind}, {mime_type or 'of unknown type'}")
    if kind == "resource_link":
        uri, name = _field(item, "uri"), _field(item, "name")
        return TextPart(f"[Resource {shown(name)}: {uri} (read it with read_mcp_resource)]")
    if kind == "resource":
        resource = item.get("resource")
        return resource_part(resource) if isinstance(resource, Mapping) else None
    return TextPart(f"[The server sent content of the unknown type {shown(str(kind))!r}.]")


def resource_part(resource: Mapping[str, Any]) -> Part | None:
    """One of the `contents` of a resource, or an embedded resource."""
    uri, text = _field(resource, "uri"), resource.get("text")
    if isinstance(text, str):
        return TextPart(f"[{uri}]\n{text}" if uri else text)
    data, mime_type = _decoded(resource.get("blob")), _mime_type(resource)
    if data is None:
        return None
    return ImagePart(data, mime_type) if mime_type in IMAGE_TYPES else FilePart(data, f"{uri} {mime_type}".strip())


def _field(item: Mapping[str, Any], name: str) -> str:
    value = item.get(name)
    return shown_address(value) if isinstance(value, str) else ""


def _mime_type(item: Mapping[str, Any]) -> str:
    value = item.get("mimeType")
    return shown(value.partition(";")[0].strip().lower()) if isinstance(value, str) else ""


def _decoded(data: Any) -> bytes | None:
    if not isinstance(data, str):
        return None
    try:
        return b64decode(data, validate=True)
    except (BadBase64, ValueError):
        return None


def _json(value: Any) -> str:
    try:
        return encode(value).decode()
    except BadRecord:
        return "(nested too deeply)"

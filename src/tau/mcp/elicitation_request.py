"""A server's question to the user as one request, for a front end that shows whole forms and addresses.

MCP and the Agent Client Protocol have the same requests. The schema is rebuilt from the parsed form, so that nothing
of a stranger's schema reaches the front end unchecked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tau.mcp.elicitation import BadAnswer, Form, FormField, checked

LIMITS = {"string": ("minLength", "maxLength"), "number": ("minimum", "maximum"), "integer": ("minimum", "maximum")}


def form_request(server: str, form: Form) -> dict[str, Any]:
    properties = {field.name: _property(field) for field in form.fields}
    required = [field.name for field in form.fields if field.required]
    schema = {"type": "object", "properties": properties, "required": required}
    return {"mode": "form", "message": f"{server}: {form.message}", "requestedSchema": schema}


def url_request(server: str, message: str, url: str, id: str) -> dict[str, Any]:
    return {"mode": "url", "message": f"{server}: {message}", "url": url, "elicitationId": id}


def checked_content(form: Form, content: Any) -> dict[str, Any] | None:
    """The answers that the schema allows; None if one is missing or wrong."""
    if content == []:  # an empty object, as Lua and PHP write it
        content = {}
    if not isinstance(content, Mapping):
        return None
    found: dict[str, Any] = {}
    for field in form.fields:
        value = content.get(field.name)
        if value is None:
            if field.required:
                return None
            continue
        try:
            found[field.name] = checked(field, value)
        except BadAnswer:
            return None
    return found


def _property(field: FormField) -> dict[str, Any]:
    shown = {"title": field.title, **({"description": field.description} if field.description else {})}
    options = [{"const": value, "title": label} for label, value in field.options]
    if field.kind == "several":
        return {"type": "array", **shown, "items": {"anyOf": options}}
    if field.kind == "select":
        return {"type": "string", **shown, "oneOf": options}
    limits = {name: field.schema[name] for name in LIMITS.get(field.kind, ()) if _is_limit(field.schema.get(name))}
    default = field.schema.get("default")
    typed = {"boolean": bool, "string": str, "number": int | float, "integer": int}[field.kind]
    fits = isinstance(default, typed) and (field.kind == "boolean" or not isinstance(default, bool))
    return {"type": field.kind, **shown, **limits, **({"default": default} if fits else {})}


def _is_limit(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31

"""Messages, results and elicitation forms of MCP."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tau.mcp.elicitation import BadAnswer, FormField, parse_answer, parse_form
from tau.mcp.messages import (
    ClientProfile,
    McpError,
    header_value,
    modern_headers,
    parse_discovered,
    parse_initialized,
    progress_text,
    with_meta,
)
from tau.mcp.results import FilePart, ImagePart, TextPart, parse_call_result

CLIENT = ClientProfile("1.0", asks=True)
META = "io.modelcontextprotocol/"


def test_only_modern_requests_carry_version_and_capabilities() -> None:
    assert with_meta({"a": 1}, CLIENT, "legacy") == {"a": 1}
    assert with_meta({}, CLIENT, "legacy", 7) == {"_meta": {"progressToken": 7}}
    meta = with_meta({"a": 1}, CLIENT, "modern", 7)["_meta"]
    assert meta[f"{META}protocolVersion"] == "2026-07-28"
    assert meta[f"{META}clientInfo"]["name"] == "tau"
    assert meta[f"{META}clientCapabilities"] == {"roots": {}, "elicitation": {"form": {}, "url": {}}}
    assert meta["progressToken"] == 7
    assert "elicitation" not in ClientProfile("1").capabilities


def test_an_unknown_version_is_an_error_that_names_it() -> None:
    assert parse_initialized({"protocolVersion": "2024-11-05"}).version == "2024-11-05"
    with pytest.raises(McpError, match="1999-01-01"):
        parse_initialized({"protocolVersion": "1999-01-01"})
    with pytest.raises(McpError, match="2030-01-01"):
        parse_discovered({"supportedVersions": ["2030-01-01"]})
    assert parse_discovered({}) is None and parse_discovered([]) is None


def test_a_profile_is_read_tolerantly() -> None:
    found = parse_discovered(
        {"supportedVersions": ["2026-07-28", 4], "capabilities": {"tools": {"listChanged": True}, "prompts": 3},
         "_meta": {f"{META}serverInfo": {"name": "n", "version": 5}}, "instructions": "x" * 9000}
    )  # fmt: skip
    assert found is not None and found.name == "n" and found.server_version == ""
    assert found.has("tools") and found.tells_changes("tools") and not found.has("prompts")
    assert len(found.instructions) <= 2048


@pytest.mark.parametrize(
    ("text", "value"),
    [("plain", "plain"), ("a b", "a b"), (" a", "=?base64?IGE=?="), ("é", "=?base64?w6k=?="),
     ("=?base64?x?=", "=?base64?PT9iYXNlNjQ/eD89?="), ("a\nb", "=?base64?YQpi?=")],
)  # fmt: skip
def test_header_values_that_are_not_plain_are_sent_in_base64(text: str, value: str) -> None:
    assert header_value(text) == value


def test_headers_of_a_call_repeat_its_name_and_marked_parameters() -> None:
    schema = {"properties": {"region": {"x-mcp-header": "Region"}, "deep": {"properties": {"n": {"x-mcp-header": "N"}}},
                             "bad": {"x-mcp-header": "a b"}, "absent": {"x-mcp-header": "Absent"}}}  # fmt: skip
    params = {"name": "tool", "arguments": {"region": "eu", "deep": {"n": True}, "bad": "x"}}
    assert modern_headers("tools/call", params, schema) == {
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": "tool",
        "mcp-param-region": "eu",
        "mcp-param-n": "true",
    }


@pytest.mark.parametrize(
    ("params", "text"),
    [({"progress": 3, "total": 8, "message": "m"}, "3/8 m"), ({"progress": 0.5}, "0.5"), ({"message": "m"}, "m"),
     ({"progress": True, "total": []}, ""), ({"progress": 1e300}, "")],
)  # fmt: skip
def test_progress_is_shown_as_a_fraction(params: dict[str, Any], text: str) -> None:
    assert progress_text(params) == text


# Results.


def parts(*content: Any, **more: Any) -> Any:
    return parse_call_result({"content": list(content), **more}, "s", "t")


def test_contents_become_text_images_and_files() -> None:
    data = base64.b64encode(b"bytes").decode()
    result = parts(
        {"type": "text", "text": "hi"},
        {"type": "image", "data": data, "mimeType": "image/png"},
        {"type": "image", "data": data, "mimeType": "image/tiff"},
        {"type": "audio", "data": data, "mimeType": "audio/wav"},
        {"type": "resource", "resource": {"uri": "a://b", "text": "inside"}},
        {"type": "resource", "resource": {"uri": "a://c", "blob": data}},
        {"type": "resource_link", "uri": "a://d", "name": "n"},
    )
    kinds = [type(part) for part in result.parts]
    assert kinds == [TextPart, ImagePart, FilePart, FilePart, TextPart, FilePart, TextPart]
    assert "[a://b]\ninside" in result.text and "read_mcp_resource" in result.text
    assert data not in result.text


@pytest.mark.parametrize(
    "item",
    [3, None, {}, {"type": "text"}, {"type": "image", "data": "%%", "mimeType": "image/png"}, {"type": "new"},
     {"type": "resource"}, {"type": "resource", "resource": {}}, {"type": "audio"}],
)  # fmt: skip
def test_content_without_sense_does_no_harm(item: Any) -> None:
    assert parts(item, {"type": "text", "text": "ok"}).text.endswith("ok")


def test_structured_content_is_the_text_if_there_is_no_other() -> None:
    assert parts(structuredContent={"a": 1}).text == '{"a":1}'
    result = parts({"type": "text", "text": "t"}, structuredContent={"a": 1}, _meta={"m": 1})
    assert result.text == "t"
    assert result.details == {"mcp": {"server": "s", "tool": "t", "structuredContent": {"a": 1}, "_meta": {"m": 1}}}
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    checked = parse_call_result({"content": [], "structuredContent": {"a": []}}, "s", "t", schema)
    assert checked.details["mcp"]["outputSchemaProblems"] and not checked.is_error


def test_a_result_that_is_no_object_is_an_error() -> None:
    assert parse_call_result([], "s", "t").is_error
    assert parse_call_result({"content": "x", "isError": "yes"}, "s", "t").is_error is False
    many = parse_call_result({"content": [{"type": "text", "text": "x"}] * 1500}, "s", "t")
    assert len(many.parts) == 1001


# Forms.


def field(schema: dict[str, Any], name: str = "f", required: bool = False) -> FormField | None:
    form = parse_form(
        {"message": "m", "requestedSchema": {"properties": {name: schema}, "required": [name] * required}}
    )
    return None if form is None else form.fields[0]


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "string"}, "string"),
        ({"type": "boolean"}, "boolean"),
        ({"type": "integer"}, "integer"),
        ({"type": "number"}, "number"),
        ({"type": "string", "enum": ["a", "b"]}, "select"),
        ({"oneOf": [{"const": "a", "title": "A"}]}, "select"),
        ({"type": "array", "items": {"type": "string", "enum": ["a"]}}, "several"),
        ({"type": "array", "items": {"anyOf": [{"const": "a"}]}}, "several"),
    ],
)
def test_fields_have_a_kind(schema: dict[str, Any], kind: str) -> None:
    found = field(schema)
    assert found is not None and found.kind == kind


@pytest.mark.parametrize(
    ("schema", "name"),
    [
        ({"type": "object", "properties": {}}, "f"),
        ({"type": "array", "items": {"type": "string"}}, "f"),
        ({"type": "string", "format": "password"}, "f"),
        ({"type": "string"}, "api_key"),
        ({"type": "string"}, "password"),
        ({"type": "string", "title": "Your token"}, "f"),
        ({"type": "null"}, "f"),
        ({}, "f"),
    ],
)
def test_forms_that_must_not_be_asked_are_declined(schema: dict[str, Any], name: str) -> None:
    assert field(schema, name) is None


def test_a_form_has_at_most_ten_fields() -> None:
    many = {"properties": {f"f{at}": {"type": "string"} for at in range(11)}}
    assert parse_form({"requestedSchema": many}) is None
    assert parse_form({"requestedSchema": {"properties": {}}}) is None
    assert parse_form({}) is None


def test_answers_are_checked_against_the_schema() -> None:
    number = field({"type": "integer", "minimum": 1})
    assert number is not None and parse_answer(number, "3") == 3
    for wrong in ("x", "0", "1.5", ""):
        with pytest.raises(BadAnswer):
            parse_answer(number, wrong)
    text = field({"type": "string", "minLength": 2, "default": "dd"})
    assert text is not None and text.default == "dd" and parse_answer(text, "ab") == "ab"
    with pytest.raises(BadAnswer):
        parse_answer(text, "a")


def test_labels_of_options_differ() -> None:
    found = field({"oneOf": [{"const": "a", "title": "X"}, {"const": "b", "title": "X"}]})
    assert found is not None and found.options == (("X", "a"), ("X (b)", "b"))

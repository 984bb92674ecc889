"""Names, definitions, exposure and search of tools of MCP servers."""

from __future__ import annotations

from typing import Any

import pytest

from tau.core.checks.schema import check_arguments
from tau.mcp.config import ServerConfig, Source
from tau.mcp.definitions import ToolDefinition, changed_tools, parse_prompts, parse_tools, safe_text
from tau.mcp.exposure import OfferedTool, is_selected, prompt_section, resolve_auto, tool_exposure
from tau.mcp.names import tool_names
from tau.mcp.search import SearchableTool, find_tools


def test_names_have_the_server_in_front_and_no_other_characters() -> None:
    assert tool_names("my-server", ["get.item", "ok"]) == {
        "get.item": "mcp__my_server__get_item",
        "ok": "mcp__my_server__ok",
    }


@pytest.mark.promise("M06")
def test_names_that_collide_all_get_a_hash_and_stay_short() -> None:
    names = tool_names("s", ["a.b", "a-b", "a_c"])
    assert names["a_c"] == "mcp__s__a_c"
    assert names["a.b"].startswith("mcp__s__a_b_") and names["a-b"].startswith("mcp__s__a_b_")
    assert names["a.b"] != names["a-b"]
    long = tool_names("s" * 32, ["x" * 100, "x" * 101])
    assert len(set(long.values())) == 2
    assert all(len(name) == 64 for name in long.values())
    assert tool_names("s", ["a.b", "a-b"]) == {name: names[name] for name in ("a.b", "a-b")}  # the same every time


def test_definitions_without_sense_are_left_out_with_a_note() -> None:
    tool = {"name": "ok", "inputSchema": {"type": "object"}}
    found, notes = parse_tools([3, {}, {"name": ""}, {"name": 4}, {"name": "x" * 300}, tool, {**tool, "title": "2"}])
    assert [tool.name for tool in found] == ["ok"]
    assert len(notes) == 6
    large = {"name": "large", "inputSchema": {"type": "object", "description": "x" * 300_000}}
    assert parse_tools([large])[0] == []


@pytest.mark.parametrize(
    "schema",
    [None, 3, {"type": "array"}, {"type": "object", "properties": []}, {"$ref": "https://evil.example/schema"},
     {"type": "object", "properties": {"a": {"pattern": "("}}}, {"type": "object", "required": "a"}],
)  # fmt: skip
def test_a_schema_that_cannot_be_read_is_not_applied(schema: Any) -> None:
    (tool,), (note,) = parse_tools([{"name": "a", "inputSchema": schema}])
    assert tool.unchecked and "not checked" in note
    assert tool.input_schema == {"type": "object", "properties": {}}


def test_a_schema_with_keywords_that_are_not_checked_is_applied() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "x-mcp-header": "N"}}, "$schema": "x", "if": {}}
    (tool,), notes = parse_tools([{"name": "a", "inputSchema": schema}])
    assert notes == [] and not tool.unchecked
    assert check_arguments(tool.input_schema, {"n": "3"}) == ({"n": 3}, [])


def test_invisible_characters_in_descriptions_are_escaped() -> None:
    hidden = "do\u200b this\u202e \U000e0041"
    schema = {"type": "object", "properties": {"a": {"type": "string", "description": hidden}}}
    (tool,), _ = parse_tools([{"name": "a", "description": hidden, "inputSchema": schema}])
    assert tool.description == tool.input_schema["properties"]["a"]["description"]
    assert tool.description.isascii() and "\\u200b" in tool.description
    assert safe_text("é" * 5000, 4096).encode()[:4096] == safe_text("é" * 5000, 4096).encode()
    assert safe_text(None, 10) == ""


def test_prompts_are_parsed_tolerantly() -> None:
    items: list[Any] = [1, {"name": "p", "arguments": [{"name": "a", "required": True}, 3, {"name": 4}]}, {"name": "p"}]
    (prompt,) = parse_prompts(items)
    assert [(argument.name, argument.required) for argument in prompt.arguments] == [("a", True)]


def test_changed_definitions_are_found() -> None:
    before = [ToolDefinition("a", "one"), ToolDefinition("b", "one"), ToolDefinition("gone")]
    now = [ToolDefinition("a", "one"), ToolDefinition("b", "two"), ToolDefinition("new")]
    assert changed_tools(before, now) == (["b"], ["new", "gone"])


# Exposure.


def server(**fields: Any) -> ServerConfig:
    return ServerConfig(name="s", source=Source("f", "user"), transport="stdio", **fields)


def test_exact_names_come_before_patterns_and_patterns_before_the_server() -> None:
    config = server(exposure="deferred", tool_exposure=(("del_*", "hidden"), ("*", "direct"), ("del_x", "auto")))
    assert tool_exposure(config, "del_x") == "auto"
    assert tool_exposure(config, "del_y") == "hidden"
    assert tool_exposure(config, "other") == "direct"
    assert tool_exposure(server(exposure="deferred"), "other") == "deferred"


def offered(size: int, exposure: Any = "auto") -> OfferedTool:
    return OfferedTool("mcp__s__t", "s", ToolDefinition("t", "x" * size), exposure)


@pytest.mark.parametrize(
    ("sizes", "window", "wanted"),
    [([1000], 200_000, "direct"), ([20_000, 20_000], 200_000, "deferred"), ([10_000], 20_000, "deferred"),
     ([10_000], 0, "direct"), ([], 200_000, "direct")],
)  # fmt: skip
def test_auto_depends_on_the_size_of_all_definitions_together(sizes: list[int], window: int, wanted: str) -> None:
    assert resolve_auto([offered(size) for size in sizes], window) == wanted


def test_tools_that_are_not_auto_do_not_count() -> None:
    assert resolve_auto([offered(100), offered(90_000, "deferred")], 200_000) == "direct"


def test_tool_flags_concern_servers_only_if_they_name_them() -> None:
    assert is_selected("mcp__a__b", None, ())
    assert is_selected("mcp__a__b", ["read", "bash"], ())
    assert is_selected("mcp__a__b", ["read", "mcp__a__*"], ())
    assert not is_selected("mcp__a__b", ["read", "mcp__c__*"], ())
    assert not is_selected("mcp__a__b", None, ["mcp__a__*"])
    assert is_selected("mcp__a__b", None, ["bash"])


def test_the_section_of_the_system_prompt_is_limited_and_says_whose_words_they_are() -> None:
    assert prompt_section({}, {}) == "" and prompt_section({"a": ("", "")}, {}) == ""
    text = prompt_section({"a": ("for tickets", "Call me first."), "b": ("", "x" * 9000)}, {"c": 12})
    assert "for tickets" in text and "The server says about itself:\nCall me first." in text
    assert "xxxx" not in text
    assert "c (12)" in text and "tool_search" in text


# Search.

TOOLS = [
    SearchableTool(
        "mcp__git__create_issue", "Create an issue in a repository.", "GitHub", {"properties": {"repo": {}}}
    ),
    SearchableTool("mcp__git__list_issues", "List issues.", "GitHub", {"properties": {"state": {}}}),
    SearchableTool("mcp__files__read", "Read a file from disk.", "files", {"properties": {"path": {}}}),
    SearchableTool("mcp__db__query", "Run a statement.", "Postgres database", {"properties": {"sql": {}}}),
]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("create issue", "mcp__git__create_issue"),
        ("issues list", "mcp__git__list_issues"),
        ("read file", "mcp__files__read"),
        ("sql", "mcp__db__query"),
        ("postgres", "mcp__db__query"),
        ("createIssue", "mcp__git__create_issue"),
    ],
)
def test_words_are_found_in_names_descriptions_servers_and_parameters(query: str, first: str) -> None:
    assert find_tools(query, TOOLS)[0].name == first


def test_exact_names_are_selected_in_their_order_and_nothing_fits_nothing() -> None:
    names = ["mcp__db__query", "mcp__files__read"]
    assert [tool.name for tool in find_tools(f"select: {', '.join(names)},none", TOOLS)] == names
    assert find_tools("zebra", TOOLS) == find_tools("", TOOLS) == find_tools("read", []) == []
    assert len(find_tools("mcp list create read run", TOOLS, 2)) == 2

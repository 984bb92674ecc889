"""Configuration and messages that a stranger has chosen to do harm; the pure part."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tau.mcp.config import Layer, Source, merge_layers
from tau.mcp.definitions import changed_names, changed_tools, parse_tools
from tau.mcp.elicitation import parse_form
from tau.mcp.imports import import_servers
from tau.mcp.names import passes_for_another
from tau.records.base import MAX_RECEIVED_NESTING
from tau.wire.jsonrpc import InvalidMessage, parse_message


@pytest.mark.parametrize(
    "entry",
    [
        {"url": "http://["},
        {"url": "https://[::1"},
        {"url": "http://host:99999/"},
        {"url": "http://host:port/"},
        {"command": "a\0b"},
        {"command": "a", "args": ["\0"]},
        {"command": "a", "env": {"A": "b\0"}},
        {"command": "a", "env": {"A=B": "c"}},
        {"command": "a", "env": {"": "c"}},
        {"command": "a", "env": {"": 5}},
    ],
)
def test_an_entry_that_nothing_can_be_started_from_is_skipped_alone(entry: dict[str, Any]) -> None:
    layer = Layer(Source("mcp.json", "user"), {"bad": entry, "good": {"command": "x"}})
    found, problems = merge_layers([layer], {}, "/home")
    assert list(found) == ["good"] and [problem.place.split(".")[1] for problem in problems] == ["bad"]


@pytest.mark.parametrize("field", ["http_headers", "env_http_headers", "enabled_tools", "disabled_tools"])
def test_an_entry_of_another_program_with_a_wrong_type_is_copied_without_it(field: str) -> None:
    assert import_servers({"mcp_servers": {"x": {"url": "http://h", field: 5}}}, str) == {"x": {"url": "http://h"}}


def test_a_tool_cannot_have_the_name_of_another_servers_tool() -> None:
    assert passes_for_another("mcp__a__b__x", "a", ["a", "a__b"])
    assert passes_for_another("mcp__a___x", "a", ["a", "a_"])
    assert not passes_for_another("mcp__a__b__x", "a__b", ["a", "a__b"])
    assert not passes_for_another("mcp__a__b__x", "a", ["a", "b"])


def test_a_name_that_means_something_else_is_noticed_however_it_comes_about() -> None:
    def listed(*names: str, description: str = "d") -> Any:
        return parse_tools([{"name": name, "description": description} for name in names])[0]

    name = "mcp__s__a_b"
    assert changed_names("s", listed("a_b"), listed("a_b")) == []
    assert changed_names("s", listed("a_b"), listed("a_b", description="other")) == [name]
    assert changed_names("s", listed("a_b"), listed("a.b")) == [name]  # another tool with the same name
    assert changed_names("s", listed("a_b"), listed()) == [name]  # it may come back as something else
    assert changed_names("s", listed(), listed("a_b")) == [name]
    assert name in changed_names("s", listed("a_b"), listed("a_b", "a.b"))  # both get a hash


def test_a_set_that_a_server_lists_in_another_order_is_no_change() -> None:
    def listed(*order: int, words: str = "Run a command.\nAllowed: {}.", tools: int = 1) -> Any:
        values = [["ls", "cat", "git-log"][at] for at in order]
        one = {"type": "string", "enum": values, "description": "one of " + str(set(values))}
        properties = {value: one for value in values}
        schema = {"type": "object", "properties": properties, "required": values}
        definition = {"description": words.format(", ".join(values)), "inputSchema": schema}
        return parse_tools([{"name": f"t{at % 2}", **definition} for at in range(tools, tools + 2)])[0]

    first = listed(0, 1, 2)
    for again in (listed(2, 0, 1), listed(1, 2, 0, tools=2)):
        assert (changed_tools(first, again), changed_names("s", first, again)) == (([], []), [])
    for other in (listed(0, 1), listed(0, 1, 1), listed(0, 1, 2, words="Run a command.\nForbidden: {}.")):
        assert sorted(changed_tools(first, other)[0]) == ["t0", "t1"]
    prose, turned = ({"name": "t", "description": text} for text in ("Reads a, not b.", "Reads b, not a."))
    assert changed_tools(parse_tools([prose])[0], parse_tools([turned])[0])[0] == ["t"]


@pytest.mark.parametrize(
    "field", [{"type": "string", "enum": 5}, {"type": "string", "minLength": "x"}, {"type": "string", "pattern": "("}]
)
def test_a_form_that_cannot_be_read_is_declined(field: dict[str, Any]) -> None:
    assert parse_form({"requestedSchema": {"properties": {"a": field}}}) is None


def test_answers_to_forms_are_not_matched_against_patterns_of_strangers() -> None:
    form = parse_form({"requestedSchema": {"properties": {"a": {"type": "string", "pattern": "(a+)+$"}}}})
    assert form is not None and "pattern" not in form.fields[0].schema


def test_what_a_peer_sends_can_be_wrapped_in_a_record_and_read_again() -> None:
    deep = json.loads("[" * MAX_RECEIVED_NESTING + "]" * MAX_RECEIVED_NESTING)
    with pytest.raises(InvalidMessage, match="nested too deeply"):
        parse_message(json.dumps({"jsonrpc": "2.0", "id": 1, "result": deep}).encode())

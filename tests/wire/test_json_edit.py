"""Changing a JSON text that has comments."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tau.wire.comments import strip_comments
from tau.wire.json_edit import remove_member, set_members

FILE = """\
{
  // which model
  "defaultModel": "a", // the cheap one
  "retry": {
    "maxRetries": 5, /* flaky network */
  },
  "theme": "dark", // for pi
}
"""


def test_a_changed_value_leaves_everything_else_as_it_is() -> None:
    assert set_members(FILE, {"defaultModel": "b"}) == FILE.replace('"a"', '"b"')


def test_an_object_is_merged_one_level_deep() -> None:
    assert set_members(FILE, {"retry": {"maxRetries": 1}}) == FILE.replace("5", "1")
    assert set_members(FILE, {"retry": {"enabled": False}}) == FILE.replace(
        "network */\n", 'network */\n    "enabled": false,\n'
    )


def test_a_new_member_follows_the_last_one_and_its_comment() -> None:
    assert set_members(FILE, {"new": {"x": [1]}}) == FILE.replace(
        "// for pi\n", '// for pi\n  "new": {\n    "x": [\n      1\n    ]\n  },\n'
    )


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "{ /* } */ }",
        '{"a": {"b": 1}} // end',
        '{"a": {} /* , */}',
        '{"a": 1, "retry": 1, "a": {}, } // twice',
        '// first\n{"a": "}",}',
        '{\n  "retry": 5, // not an object\n}',
        '{"a": "// no comment, }", "b": [1, 2,],}',
        FILE,
    ],
)
@pytest.mark.parametrize("changes", [{"a": 1}, {"retry": {"x": "ü"}}, {"n": None, "a": {"c": [{}]}}])
def test_the_result_is_the_merged_content(text: str, changes: dict[str, Any]) -> None:
    def content(text: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(strip_comments(text))
        return found

    expected = content(text)
    for name, value in changes.items():
        both = isinstance(value, dict) and isinstance(expected.get(name), dict)
        expected[name] = {**expected[name], **value} if both else value
    assert content(set_members(text, changes)) == expected


SERVERS = """\
{
  "mcpServers": {
    // the first
    "a": {"command": "x"}, // with a comment
    "b": {"command": "y"}, /* another */
    "c": {"command": "z"} // the last
  },
  "other": 1
}
"""


@pytest.mark.parametrize("name", ["a", "b", "c"])
def test_a_removed_member_takes_one_comma_with_it_and_leaves_the_comments_of_others(name: str) -> None:
    changed = remove_member(SERVERS, ("mcpServers", name))
    content = json.loads(strip_comments(changed))
    assert content == {
        "mcpServers": {key: {"command": value} for key, value in zip("abc", "xyz", strict=True) if key != name},
        "other": 1,
    }
    kept = {"a": ["another", "the last"], "b": ["the first", "with a comment"], "c": ["the first", "another"]}[name]
    assert all(comment in changed for comment in kept)


def test_the_only_member_and_a_member_that_does_not_exist() -> None:
    assert json.loads(strip_comments(remove_member('{"a": {"b": 1,},}', ("a", "b")))) == {"a": {}}
    assert remove_member(SERVERS, ("mcpServers", "d")) == SERVERS
    assert remove_member(SERVERS, ("nothing", "d")) == SERVERS
    assert remove_member("{}", ("a",)) == "{}"

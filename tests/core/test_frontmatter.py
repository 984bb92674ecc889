from __future__ import annotations

import subprocess
import sys

import pytest

from tau.core.text.frontmatter import MAX_CHARACTERS, MAX_DEPTH, BadFrontmatter, Page, is_true, parse_fields, parse_page


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("just text\n", Page({}, "just text\n")),
        ("", Page({}, "")),
        ("---\nname: x\n---\n\nbody\n\n", Page({"name": "x"}, "body")),
        ("\ufeff---\r\nname: x\r\n---\r\nbody\r\nmore\r\n", Page({"name": "x"}, "body\nmore")),
        ("---\n---\nbody", Page({}, "body")),
        ("---\nname: x\n---", Page({"name": "x"}, "")),
        ("--- \nname: x\n---\t\nbody\n---\nnot a fence", Page({"name": "x"}, "body\n---\nnot a fence")),
        ("---\nname: never ended\n", Page({}, "---\nname: never ended\n")),
        ("\n---\nname: not at the top\n---\n", Page({}, "\n---\nname: not at the top\n---\n")),
        ("----\nname: x\n---\n", Page({}, "----\nname: x\n---\n")),
    ],
)
def test_a_text_is_its_fields_and_its_body(text: str, read: Page) -> None:
    assert parse_page(text) == read


@pytest.mark.parametrize(
    ("head", "read"),
    [
        ("a: one\nb: two words", {"a": "one", "b": "two words"}),
        ("a: \"quoted: text\"\nb: 'it'", {"a": "quoted: text", "b": "it"}),
        ("# a note\na:\n\nb: x", {"a": "", "b": "x"}),
        ("a: no\nb: 2024-01-01\nc: 1.50", {"a": "no", "b": "2024-01-01", "c": "1.50"}),
        ("a: see http://x/y#z", {"a": "see http://x/y#z"}),
        ("argument-hint: <x>", {"argument-hint": "<x>"}),
        # From here on it takes YAML.
        ("a: >\n  folded\n  text\nb: |\n  kept\n  text", {"a": "folded text\n", "b": "kept\ntext"}),
        ("a: goes\n  on", {"a": "goes on"}),
        ("a: [x, yes]\nb:\n  - 1\nc: {d: null}", {"a": ["x", "yes"], "b": ["1"], "c": {"d": "null"}}),
        ('a: "caf\\u00e9"', {"a": "café"}),
        ("a: x # note", {"a": "x"}),
        ("a b: c", {"a b": "c"}),
        ("a: !!python/object/apply:os.system [ls]", {"a": ["ls"]}),
    ],
)
def test_every_scalar_stays_text(head: str, read: dict[str, object]) -> None:
    assert parse_fields(head) == read


@pytest.mark.parametrize(
    ("head", "why"),
    [
        ("argument-hint: [x] [y]", "line 2: did not find expected key"),
        ("a: b: c", "line 2: mapping values are not allowed in this context"),
        ("just words", "the fields are not `key: value` lines"),
        ("a: &x [1]\nb: *x", "YAML aliases (*) are not supported"),
        ("a: " + "[" * 60_000, f"the fields are nested more than {MAX_DEPTH} deep"),
        ("a: x\n" + "#" * MAX_CHARACTERS, f"the fields have more than {MAX_CHARACTERS} characters"),
        ("a: [1\nb: 2", "line 3: did not find expected ',' or ']'"),
    ],
)
def test_unreadable_fields_are_reported_and_do_no_harm(head: str, why: str) -> None:
    with pytest.raises(BadFrontmatter) as told:
        parse_fields(head)
    assert str(told.value) == why


@pytest.mark.process
def test_plain_lines_do_not_load_yaml() -> None:
    ask = (
        "import sys; from tau.core.text.frontmatter import parse_page; "
        "parse_page('---\\nname: x\\ndescription: \"y\"\\n---\\n'); print('yaml' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True).stdout == "False\n"


def test_yes_is_what_yaml_calls_true() -> None:
    assert [is_true(value) for value in ("true", "True", "yes", "false", "", None, ["true"])] == [
        *(True, True, False, False, False, False, False)
    ]

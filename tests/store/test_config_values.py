from __future__ import annotations

import logging

import pytest

from tau.store.config_values import is_command, missing_variables, resolve_value

ENVIRONMENT = {"NAME": "value", "EMPTY": "", "_x1": "under", "SPACED": " padded\n"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("NAME", "value"),
        ("name", "name"),
        ("EMPTY", "EMPTY"),
        ("SPACED", "padded"),
        ("$NAME", "value"),
        ("${NAME}", "value"),
        ("a $NAME b${NAME}c $_x1", "a value bvaluec under"),
        ("$$NAME", "$NAME"),
        ("$!echo no", "!echo no"),
        ("5$", "5$"),
        ("$5", "$5"),
        ("${", "${"),
        ("$EMPTY", None),
        ("a $MISSING", None),
        ("", None),
        ("  ", None),
        ("!echo ' said '", "said"),
        ("!echo $((1 + 1))", "2"),
        ("!exit 3", None),
        ("!true", None),
    ],
)
def test_a_value_is_text_a_variable_or_what_a_command_says(text: str, expected: str | None) -> None:
    assert resolve_value(text, ENVIRONMENT) == expected


@pytest.mark.parametrize(
    ("text", "names"), [("$A ${B} $NAME $$C", ["A", "B"]), ("$EMPTY", ["EMPTY"]), ("!$A", []), ("A", [])]
)
def test_what_is_not_set_can_be_named(text: str, names: list[str]) -> None:
    assert missing_variables(text, ENVIRONMENT) == names


@pytest.mark.parametrize("text", ["MY_KEY", "LAB2_TOKEN", "APIKEY", "MY_SECRET", "A_B"])
def test_a_key_that_can_only_be_the_name_of_a_variable_is_one(text: str) -> None:
    assert (resolve_value(text, {}, is_key=True), missing_variables(text, {}, is_key=True)) == (None, [text])
    assert (resolve_value(text, {}), missing_variables(text, {})) == (text, [])
    assert resolve_value(text, {text: "sk-1"}, is_key=True) == "sk-1"


@pytest.mark.parametrize(
    "text",
    ["EMPTY", "NONE", "NONSENSE", "KEY", "TOKEN", "NO_KEY", "NOT_NEEDED", "DUMMY_KEY", "my_key", "sk-X_KEY", "AKIA2"],
)
def test_any_other_key_is_itself(text: str) -> None:
    assert (resolve_value(text, {}, is_key=True), missing_variables(text, {}, is_key=True)) == (text, [])


def test_only_an_exclamation_mark_in_front_makes_a_command() -> None:
    assert [is_command(text) for text in ("!x", "$!x", " !x", "x")] == [True, False, False, False]


def test_a_command_that_fails_is_reported_without_its_text(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert resolve_value("!echo secret; exit 4", {}) is None
    assert "exit code 4" in caplog.text and "secret" not in caplog.text

from __future__ import annotations

import pytest

from tau.core.conversation.slash_commands import (
    ResourceOrigin,
    Skill,
    fill_template,
    parse_slash_command,
    skill_block,
    split_arguments,
)
from tau.records.base import replace

SKILL = Skill("deploy", "Deploys.", "/s/deploy/SKILL.md", "/s/deploy", False, ResourceOrigin("user", "auto"))


@pytest.mark.parametrize(
    ("text", "called"),
    [
        ("/review", ("review", "")),
        ("/review a  b ", ("review", "a  b")),
        ("/skill:deploy to prod", ("skill:deploy", "to prod")),
        ("/review\nall of it\nplease", ("review", "all of it\nplease")),
        ("review", None),
        (" /review", None),
        ("/ review", None),
        ("/", None),
        ("", None),
    ],
)
def test_a_call_is_a_slash_a_name_and_the_rest(text: str, called: tuple[str, str] | None) -> None:
    assert parse_slash_command(text) == called


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ("  \t\n ", []),
        ("a b\tc\nd", ["a", "b", "c", "d"]),
        ("src/a.ts \"two words\" 'and three more'", ["src/a.ts", "two words", "and three more"]),
        ('--name="a b"c', ["--name=a bc"]),
        ("\"it's\" '\"'", ["it's", '"']),
        ('"" b', ["", "b"]),
        ('a "never closed', ["a", "never closed"]),
        (r"a\ b \"c", ["a\\", "b", "\\c"]),
    ],
)
def test_quotes_keep_words_together_and_nothing_escapes_them(text: str, words: list[str]) -> None:
    assert split_arguments(text) == words


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("$1 then $2, $3, $4.", "a then b c, d, ."),
        ("$@ / $ARGUMENTS", "a b c d / a b c d"),
        ("${@:2} ${@:2:1} ${@:1:2} ${@:0} ${@:9} ${@:2:0}.", "b c d b c a b c a b c d  ."),
        ("${1:-x} ${4:-x} ${4:-} ${@:-x} ${ARGUMENTS:-x}", "a x  a b c d a b c d"),
        ("$10 $0 $$1 $x ${1} ${x:-y} $", "  $a $x ${1} ${x:-y} $"),
        ("$" + "9" * 10_000 + "${@:" + "9" * 10_000 + "}.", "."),
    ],
)
def test_the_places_of_a_template_are_filled(body: str, text: str) -> None:
    assert fill_template(body, ["a", "b c", "d"]) == text


def test_what_was_filled_in_is_not_looked_at_again() -> None:
    assert fill_template("$1 $2 ${@:1:1}", ["$2", "$ARGUMENTS"]) == "$2 $ARGUMENTS $2"


def test_without_arguments_defaults_count() -> None:
    assert fill_template("${1:-main} ${@:-all of it}[$@]", []) == "main all of it[]"


def test_a_skill_says_where_it_is_and_what_is_wanted() -> None:
    begins = '<skill name="deploy" location="/s/deploy/SKILL.md">\nReferences are relative to /s/deploy.\n\n'
    assert skill_block(SKILL, "\n# Deploy\nRun it.\n", "") == f"{begins}# Deploy\nRun it.\n</skill>"
    assert skill_block(SKILL, "x", "to prod") == f"{begins}x\n</skill>\n\nto prod"


def test_a_name_cannot_close_the_block_it_is_in() -> None:
    sly = replace(SKILL, name='x"></skill>')
    assert skill_block(sly, "x", "").startswith('<skill name="x&quot;&gt;&lt;/skill&gt;" location=')

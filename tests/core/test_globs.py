from __future__ import annotations

import pytest

from tau.core.text.globs import BadGlob, Rules, anywhere, compiled, pattern


@pytest.mark.parametrize(
    ("glob", "yes", "no"),
    [
        ("a", "a", "b ab a/a"),
        ("*.py", "a.py .py", "a/b.py a.pyc"),
        ("a?c", "abc a-c", "ac a/c"),
        ("[a-c]x", "ax cx", "dx x"),
        ("[!a]x", "bx /x", "ax"),
        ("[^a]x", "bx", "ax"),
        ("[]-]", "] -", "a"),
        ("[a-]", "a -", "b"),
        ("[\\]", "\\", "]"),
        ("{a,b*}", "a b bc", "c a,b"),
        ("{a,{b,c}}d", "ad bd cd", "d"),
        ("{a,}b", "ab", "b"),
        ("a,b", "a,b", "a"),
        ("\\*\\[", "*[", "a["),
        ("**", "a a/b a/b/c", ""),
        ("**/a", "a b/a c/b/a", "ba a/b"),
        ("a/**", "a/b a/b/c", "a b"),
        ("a/**/b", "a/b a/x/b a/x/y/b", "ab a/xb"),
        ("a/**/**/b", "a/b a/x/y/b", "ab"),
        ("a**b", "ab axb", "a/b"),
        ("{**/a,b}", "a x/a b", "x/b"),
        ("", "", "a"),
    ],
)
def test_what_a_glob_matches(glob: str, yes: str, no: str) -> None:
    matches = compiled(glob).fullmatch
    assert {path: bool(matches(path)) for path in (yes + " " + no).split()} == {
        **dict.fromkeys(yes.split(), True),
        **dict.fromkeys(no.split(), False),
    }


def test_a_newline_is_a_character_like_any_other() -> None:
    assert compiled("a*").fullmatch("a\nb")


def test_case_can_make_no_difference() -> None:
    assert compiled("readme*", ignore_case=True).fullmatch("README.md")


@pytest.mark.parametrize("glob", ["[a", "[", "[]", "[!", "{a", "a}", "{a,{b}", "[b-a]", "a\\"])
def test_what_cannot_be_read_is_said(glob: str) -> None:
    with pytest.raises(BadGlob):
        compiled(glob)


def test_a_glob_for_any_depth() -> None:
    assert [anywhere(glob) for glob in ("a", "a/b", "**/a", "**")] == ["**/a", "**/a/b", "**/a", "**"]


@pytest.mark.parametrize(
    ("line", "files", "folders", "left"),
    [
        ("a", "a x/a", "a x/a", "b a/b"),
        ("/a", "a", "a", "x/a"),
        ("a/b", "a/b", "a/b", "x/a/b"),
        ("a/", "", "a x/a", "b"),
        ("/a/", "", "a", "x/a"),
        ("a/**", "a/b a/b/c", "a/b", "a"),
        ("**/a", "a x/a", "a", "ab"),
        ("*.log", ".log x/a.log", "a.log", "log"),
        ("a  ", "a", "a", "b"),
        ("\\#a", "#a", "#a", "a"),
        ("\\!a", "!a", "!a", "a"),
        ("a\\/", "", "a", "b"),
        ("# a", "", "", "a #"),
        ("   ", "", "", "a"),
        ("[", "", "", "[ a"),
        ("é?", "éa", "éa", "é"),
    ],
)
def test_what_a_line_of_an_ignore_file_takes_out(line: str, files: str, folders: str, left: str) -> None:
    rules = Rules([line])
    assert [path for path in files.split() if not rules.ignore(path, False)] == []
    assert [path for path in folders.split() if not rules.ignore(path, True)] == []
    assert [path for path in left.split() if rules.ignore(path, True) is not None] == []


def test_the_last_line_that_fits_decides() -> None:
    rules = Rules(["*.log", "!keep.log", "/keep.log"])
    assert [rules.ignore(path, False) for path in ("a.log", "x/keep.log", "keep.log", "a")] == [True, False, True, None]


def test_a_character_of_two_bytes_is_two_question_marks_in_an_ignore_file() -> None:
    assert [Rules([glob]).ignore("é", False) for glob in ("?", "??", "é", "[!a][!a]")] == [None, True, True, True]


def test_rules_without_a_line_say_nothing() -> None:
    assert (bool(Rules(())), Rules(()).ignore("", True)) == (False, None)


def test_an_exclamation_mark_turns_a_pattern_round() -> None:
    assert [(pattern(line).keeps, pattern(line).folders_only) for line in ("a", "!a", "!a/")] == [
        (False, False),
        (True, False),
        (True, True),
    ]

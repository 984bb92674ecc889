from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau.core.text.globs import BadGlob, IgnoreRules, at_any_depth, compile_glob, glob_regex, parse_ignore_glob

FIRST = re.compile(r"\(\?=\(\?P<g\d+>(.*?)\)\)(?=\(\?P=)")
BACK = re.compile(r"\(\?P=g\d+\)")


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
    matches = compile_glob(glob).fullmatch
    assert {path: bool(matches(path)) for path in (yes + " " + no).split()} == {
        **dict.fromkeys(yes.split(), True),
        **dict.fromkeys(no.split(), False),
    }


def test_a_newline_is_a_character_like_any_other() -> None:
    assert compile_glob("a*").fullmatch("a\nb")


def test_case_can_make_no_difference() -> None:
    assert compile_glob("readme*", ignore_case=True).fullmatch("README.md")


@pytest.mark.parametrize("glob", ["[a", "[", "[]", "[!", "{a", "a}", "{a,{b}", "[b-a]", "a\\"])
def test_what_cannot_be_read_is_said(glob: str) -> None:
    with pytest.raises(BadGlob):
        compile_glob(glob)


@pytest.mark.parametrize("path", ["a" * 255, "a/" * 2000 + "c"])
@pytest.mark.parametrize(
    "glob", ["*a" * 20 + "b", "*[a]" * 20 + "b", "**/a/" * 20 + "b", "**/*a*/" * 10 + "*b", "a*?" * 20 + "b"]
)
def test_many_stars_take_little_time(glob: str, path: str) -> None:
    assert not compile_glob(glob).fullmatch(path)  # else it would take longer than anyone waits


@pytest.mark.parametrize("glob", ["*{a,b}" * 3, "{" + "*a" * 9 + ",b}", "*[!b]" * 5 + "b", "**/{a,b}/" * 4 + "c"])
def test_stars_that_would_take_long_are_refused(glob: str) -> None:
    with pytest.raises(BadGlob, match="more than 2 stars"):
        compile_glob(glob)


@given(
    st.lists(
        st.sampled_from(["*", "*", "**/", "/**", "a", "b", "?", "[ab]", "[!a]", "{a,b}", "{a*,b}", "/"]), max_size=8
    ),
    st.text("ab/"),
)
def test_the_first_place_that_fits_is_as_good_as_any(tokens: list[str], path: str) -> None:
    """Compared with regexes that try every place."""
    glob = "".join(tokens)
    try:
        regex = glob_regex(glob)
    except BadGlob:
        return
    every = BACK.sub("", FIRST.sub(r"(?:\1)", regex)).replace("*?", "*").replace("??", "?")
    assert bool(re.fullmatch(regex, path, re.DOTALL)) == bool(re.fullmatch(every, path, re.DOTALL))


def test_a_glob_for_any_depth() -> None:
    assert [at_any_depth(glob) for glob in ("a", "a/b", "**/a", "**")] == ["**/a", "**/a/b", "**/a", "**"]


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
    rules = IgnoreRules([line])
    assert [path for path in files.split() if not rules.ignore(path, False)] == []
    assert [path for path in folders.split() if not rules.ignore(path, True)] == []
    assert [path for path in left.split() if rules.ignore(path, True) is not None] == []


def test_the_last_line_that_fits_decides() -> None:
    rules = IgnoreRules(["*.log", "!keep.log", "/keep.log"])
    assert [rules.ignore(path, False) for path in ("a.log", "x/keep.log", "keep.log", "a")] == [True, False, True, None]


def test_a_character_of_two_bytes_is_two_question_marks_in_an_ignore_file() -> None:
    assert [IgnoreRules([glob]).ignore("é", False) for glob in ("?", "??", "é", "[!a][!a]")] == [None, True, True, True]


def test_rules_without_a_line_say_nothing() -> None:
    assert (bool(IgnoreRules(())), IgnoreRules(()).ignore("", True)) == (False, None)


def test_an_exclamation_mark_turns_a_pattern_round() -> None:
    assert [(parse_ignore_glob(line).keeps, parse_ignore_glob(line).folders_only) for line in ("a", "!a", "!a/")] == [
        (False, False),
        (True, False),
        (True, True),
    ]

"""Fuzzy matching: what matches, and in which order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tau.screen.fuzzy import fuzzy_rank, fuzzy_score, subsequence_pattern


def ranked(query: str, *candidates: str, limit: int = 0) -> list[str]:
    return fuzzy_rank(query, candidates, str, limit)


def test_characters_must_be_there_in_order() -> None:
    assert fuzzy_score("ab", "xaxb") is not None
    assert fuzzy_score("ba", "xaxb") is None
    assert fuzzy_score("", "anything") == 0


def test_case_does_not_matter() -> None:
    assert fuzzy_score("AbC", "aBc") == fuzzy_score("abc", "abc")


def test_a_substring_is_better_than_scattered_characters() -> None:
    assert ranked("mod", "my-old-d", "remodel", "model") == ["model", "remodel", "my-old-d"]


def test_beginnings_of_words_are_better() -> None:
    assert ranked("sm", "asmall", "scoped-models") == ["asmall", "scoped-models"]  # a substring first
    assert ranked("sml", "xsxmxl", "scoped-models-l") == ["scoped-models-l", "xsxmxl"]


def test_a_match_in_the_file_name_is_better_than_one_in_a_folder() -> None:
    assert ranked("editor", "editor/very/deep/thing.py", "src/editor.py")[0] == "src/editor.py"


def test_a_name_that_is_the_query_is_the_best() -> None:
    assert ranked("edit", "src/editor.py", "src/deep/tools/edit.py", "src/test_edit.py")[0] == "src/deep/tools/edit.py"


def test_every_word_of_the_query_must_match() -> None:
    assert ranked("son 4", "claude-sonnet-4", "claude-sonnet-3", "opus-4") == ["claude-sonnet-4"]


def test_equal_scores_keep_their_order() -> None:
    assert ranked("a", "a1", "a2", "a3") == ["a1", "a2", "a3"]
    assert ranked("", "b", "a") == ["b", "a"]


def test_a_limit_gives_the_best() -> None:
    assert ranked("a", "xxa", "a", "xa", limit=1) == ["a"]


@given(st.text(max_size=8), st.text(max_size=20))
def test_a_subsequence_always_matches(query: str, candidate: str) -> None:
    rest = iter(candidate.lower())
    contained = all(character in rest for character in query.lower())
    assert (fuzzy_score(query, candidate) is not None) == contained


LINES = st.lists(st.text("ab^]-\\/. ", max_size=8), max_size=6)


@given(st.text("ab^]-\\/. ", min_size=1, max_size=5), LINES)
def test_the_pattern_finds_the_lines_with_a_subsequence(word: str, lines: list[str]) -> None:
    text = "\n".join(["", *lines, ""])
    found = [text.count("\n", 0, match.start()) - 1 for match in subsequence_pattern(word).finditer(text)]
    assert found == [number for number, line in enumerate(lines) if fuzzy_score(word, line) is not None]


def test_the_pattern_does_not_backtrack() -> None:
    """With backtracking this would take longer than the universe is old."""
    assert subsequence_pattern("a" * 30 + "b").search("a" * 10_000) is None

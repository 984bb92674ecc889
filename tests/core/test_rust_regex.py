from __future__ import annotations

import re

import pytest

from tau.core.text.rust_regex import BadPattern, python_pattern


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("foo", ["a foo", "foofoo"], ["fo o", "Foo"]),
        ("^a.c$", ["abc"], ["ac", "xabc", "abcd"]),
        ("a+?b|c{2,3}", ["aab", "cc"], ["b", "c"]),
        ("a**", ["", "b"], []),
        ("a++b", ["aab"], ["b"]),
        ("x{ 2 }", ["xx"], ["x"]),
        (r"\bfoo\b", ["a foo b"], ["foob"]),
        (r"\<foo|bar\>", ["foob", "xbar"], ["xfoo", "barx"]),
        (r"\b{start}a\b{end}", ["a"], ["ab", "ba"]),
        (r"\B", [""], ["a"]),
        (r"\Aa\z", ["a"], ["ab"]),
        (r"\x41\u{e9}\u00e9\t", ["Aéé\t"], ["A"]),
        (r"\.\*\/\-\ \"", ['.*/- "'], ["a"]),
        ("[a-c]x[^d]", ["bxe"], ["dxe", "axd", "ax"]),
        ("[]a]", ["]", "a"], ["b"]),
        ("[^]a]", ["b"], ["]", "a"]),
        ("[-a]b", ["-b", "ab"], ["b"]),
        ("[a-]b", ["-b"], ["b"]),
        (r"[\w.-]\s", ["a ", "- ", ".\t"], ["!", "a"]),
        ("[[:alpha:]_][[:digit:]]", ["a1", "_2"], ["1a"]),
        ("[[:^alpha:]]", ["1"], ["a"]),
        ("[a[bc]]d", ["cd"], ["d"]),
        (r"[^\n]", ["a"], [""]),
        ("(?i)FOO", ["foo"], ["fo"]),
        ("a(?i)b|c", ["aB", "C"], ["Ab"]),
        ("(?i:a)b", ["Ab"], ["AB"]),
        ("(?x) a b", ["ab"], ["a b"]),
        ("(?P<x>a)(?<y>b)(?:c)", ["abc"], ["ab"]),
        ("}]", ["}]"], ["]"]),
        ("", ["", "a"], []),
        ("|a", [""], []),
    ],
)
def test_it_matches_what_ripgrep_matches(pattern: str, yes: list[str], no: list[str]) -> None:
    matches = python_pattern(pattern).search
    assert [line for line in yes if not matches(line)] == []
    assert [line for line in no if matches(line)] == []


@pytest.mark.parametrize("pattern", [".", "[^a]", r"\W", r"\D", r"\S", r"\w", r"[^\d]", r"[\S]"])
def test_a_byte_that_is_no_text_is_matched_by_nothing(pattern: str) -> None:
    assert not python_pattern(pattern).search(b"\xff".decode("utf-8", "surrogateescape"))


def test_case_can_make_no_difference() -> None:
    pattern = python_pattern("a(?-i)b", ignore_case=True)
    assert [bool(pattern.search(line)) for line in ("ab", "Ab", "aB")] == [True, True, False]


@pytest.mark.parametrize(
    ("pattern", "trouble"),
    [
        ("a{", "unclosed counted repetition"),
        ("a{x}", "repetition quantifier expects a valid decimal"),
        ("a{,2}", "repetition quantifier expects a valid decimal"),
        ("a{3,2}", "invalid repetition count range, the start must be <= the end"),
        ("a{200000}", "repetition count is too big"),
        ("*", "repetition operator missing expression"),
        ("(?)", "repetition operator missing expression"),
        ("(", "unclosed group"),
        ("(?i", "unclosed group"),
        (")", "unopened group"),
        ("[", "unclosed character class"),
        ("[]", "unclosed character class"),
        ("[z-a]", "invalid character class range, the start must be <= the end"),
        (r"[a-\d]", "invalid range boundary, must be a literal"),
        (r"[\d-a]", "invalid range boundary, must be a literal"),
        ("(?=a)", "look-around, including look-ahead and look-behind, is not supported"),
        ("(?<!a)", "look-around, including look-ahead and look-behind, is not supported"),
        (r"(a)\1", "backreferences are not supported"),
        (r"\q", "unrecognized escape sequence"),
        ("\\", "incomplete escape sequence, reached end of pattern prematurely"),
        (r"\x4", "invalid hexadecimal digit"),
        (r"\x{110000}", "hexadecimal literal is not a Unicode scalar value"),
        ("(?z)", "unrecognized flag"),
        ("(?P<1>a)", "invalid capture group character"),
        ("(?<a>b)(?<a>b)", "duplicate capture group name"),
        (r"\b{x}", "unrecognized special word boundary assertion"),
        ("a\nb", 'the literal "\\n" is not allowed in a regex'),
        (r"a\nb", 'the literal "\\n" is not allowed in a regex'),
        (r"\p{Greek}", "\\p needs ripgrep, which is not installed"),
        ("[a&&b]", "&& in a class needs ripgrep, which is not installed"),
        ("[a[^b]]", "a negated class in a class needs ripgrep, which is not installed"),
        ("(?-u)a", "the flag u needs ripgrep, which is not installed"),
    ],
)
def test_what_cannot_be_read_is_said(pattern: str, trouble: str) -> None:
    with pytest.raises(BadPattern, match=f"^{re.escape(trouble)}$"):
        python_pattern(pattern)

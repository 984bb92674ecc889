"""Code is highlighted line by line, as if it were whole."""

from __future__ import annotations

import pytest

from tau.core.text.highlight import (
    BUDGET_CHARACTERS,
    LANGUAGES,
    MAX_LINE_CHARACTERS,
    Highlighter,
    Token,
    language_of_file,
)

PYTHON = '''def f(x: int) -> str:
    """A text
    of two lines."""
    return f"{x}" + 'y'  # comment
'''


def roles(language: str, text: str) -> list[list[tuple[str, str]]]:
    highlighter = Highlighter(language)
    return [[(token.text, token.role) for token in highlighter.line(line)] for line in text.split("\n")]


def test_the_state_of_a_line_goes_on_in_the_next() -> None:
    lines = roles("python", PYTHON)
    assert lines[0][:2] == [("def ", "syntaxKeyword"), ("f", "syntaxFunction")]
    assert lines[2] == [('    of two lines."""', "syntaxString")]
    assert lines[3][-1] == ("# comment", "syntaxComment")


@pytest.mark.parametrize("language", ["c", "cpp", "css", "go", "java", "javascript", "rust", "typescript", "scss"])
def test_comments_of_several_lines_are_comments(language: str) -> None:
    lines = roles(language, "/* one\n   two\n three */ x\n/* a */ y")
    assert [line[0] for line in lines[:3]] == [
        ("/* one", "syntaxComment"),
        ("   two", "syntaxComment"),
        (" three */", "syntaxComment"),
    ]
    assert all(role != "syntaxComment" for text, role in lines[3] if "y" in text)


@pytest.mark.parametrize("name", sorted(set(LANGUAGES.values())))
def test_every_language_keeps_its_text(name: str) -> None:
    text = "a = \"b' /* c\n  d */ <e> {f: 1} # g\n@h `i` $j 0x1F\n\n\tend\né日本 \\x"
    highlighter = Highlighter(name)
    for line in text.split("\n"):
        assert "".join(token.text for token in highlighter.preview(line)) == line
        assert "".join(token.text for token in highlighter.line(line)) == line


def test_a_preview_does_not_change_the_state() -> None:
    highlighter = Highlighter("py")
    highlighter.preview('x = """')
    assert highlighter.line("return 1")[0] == Token("return ", "syntaxKeyword")


def test_unknown_languages_long_lines_and_code_beyond_the_budget_stay_plain() -> None:
    assert roles("nonsense", "def f") == [[("def f", "")]]
    long = "x = 1; " * MAX_LINE_CHARACTERS
    assert roles("py", f"{long}\nimport x")[0] == [(long, "")]
    highlighter = Highlighter("py")
    for _ in range(BUDGET_CHARACTERS // 9 + 1):
        highlighter.line("import x")
    assert highlighter.line("import x") == [Token("import x")]


def test_the_language_of_a_file() -> None:
    assert [language_of_file(name) for name in ("a/b.PY", "Makefile", "x", ".bashrc")] == ["python", "make", "", ""]

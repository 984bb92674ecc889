"""Source text as highlighted HTML, line by line. The only file that knows Pygments.

Colour is worth something, but not any price: a block that is long, and whatever
comes after a certain amount of code, stays plain. Only languages in the table
are read, because a lexer is a set of regular expressions that hostile text can
keep busy, and these are the ones that were tried with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from tau.export.text import esc, sound

if TYPE_CHECKING:
    from pygments.lexer import Lexer

LONGEST = 16_000  # characters of a block
MOST_LINES = 200
WIDEST = 160  # characters of a line: a wider one is left out, because lexers are slow to read it
BUDGET = 400_000  # characters of one page, each distinct block counted once

# Pygments' name of the language: how people write it, and how its files end.
_NAMES = {
    "bash": "sh shell zsh bash console shell-session ksh",
    "c": "h",
    "cpp": "c++ cc cxx hpp hh hxx",
    "csharp": "cs c#",
    "css": "",
    "dart": "",
    "diff": "patch udiff",
    "docker": "dockerfile",
    "elixir": "ex exs",
    "erlang": "erl hrl",
    "go": "golang",
    "graphql": "gql",
    "haskell": "hs",
    "html": "htm xhtml",
    "ini": "cfg conf properties editorconfig",
    "java": "",
    "javascript": "js jsx mjs cjs node",
    "json": "jsonl jsonc json5 webmanifest ipynb",
    "kotlin": "kt kts",
    "lua": "",
    "make": "makefile mk",
    "nix": "",
    "php": "",
    "powershell": "ps1 pwsh",
    "protobuf": "proto",
    "python": "py pyi python3 py3",
    "r": "",
    "ruby": "rb rake gemspec",
    "rust": "rs",
    "scala": "sc",
    "scss": "",
    "sql": "sqlite postgres postgresql mysql",
    "swift": "",
    "terraform": "tf hcl",
    "toml": "",
    "typescript": "ts tsx mts cts",
    "xml": "svg xsl xsd plist",
    "yaml": "yml",
    "zig": "",
}
LANGUAGES = {word: name for name, words in _NAMES.items() for word in (name, *words.split())}

# A few classes are enough for the eye, and make a small page.
_CLASSES = {
    "Keyword": "k",
    "Keyword.Type": "t",
    "Operator.Word": "k",
    "Name.Class": "t",
    "Name.Builtin": "t",
    "Name.Exception": "t",
    "Name.Function": "f",
    "Name.Tag": "k",
    "Name.Decorator": "a",
    "Name.Attribute": "a",
    "Name.Variable": "a",
    "Name.Constant": "n",
    "Literal.String": "s",
    "Literal.Number": "n",
    "Literal.Date": "n",
    "Comment": "c",
    "Generic.Prompt": "p",
    "Generic.Inserted": "i",
    "Generic.Deleted": "d",
    "Generic.Heading": "h",
    "Generic.Subheading": "h",
}


def language(file: str) -> str:
    """The language of a file, by its name; empty if we know none."""
    name = file.rpartition("/")[2].lower()
    return LANGUAGES.get(name.rpartition(".")[2], "")


class Highlighter:
    """Highlights until its budget is used up. The same block is highlighted once.

    When there is more code than budget, only what can be seen at first of each
    block is highlighted, so that a long page looks the same at its end.
    """

    def __init__(self, expected: int = 0, budget: int = BUDGET) -> None:
        self._is_sparing = expected > budget
        self._left = budget
        self._known: dict[tuple[str, str], list[str]] = {}

    def beginning(self, text: str, language: str, shown: int) -> list[str]:
        """All lines of `text`; the first `shown` ones are what can be seen at first."""
        rows = text.split("\n")
        if not self._is_sparing or len(rows) <= shown:
            return self.lines(text, language)
        return self.lines("\n".join(rows[:shown]), language) + plain_lines("\n".join(rows[shown:]))

    def lines(self, text: str, language: str) -> list[str]:
        """Each line of `text` as HTML that is whole by itself."""
        name = LANGUAGES.get(language.lower(), "")
        if not name or len(text) > LONGEST or text.count("\n") >= MOST_LINES:
            return plain_lines(text)
        key = name, text
        if (known := self._known.get(key)) is not None:
            return known
        if len(text) > self._left:
            return plain_lines(text)
        self._left -= len(text)
        self._known[key] = rows = _highlighted(sound(text), _lexer(name))
        return rows


def plain_lines(text: str) -> list[str]:
    return esc(text).split("\n")


def _highlighted(text: str, lexer: Lexer) -> list[str]:
    given = text.split("\n")
    wide = {at: esc(line) for at, line in enumerate(given) if len(line) > WIDEST}
    rows = list(_rows("\n".join("" if at in wide else line for at, line in enumerate(given)), lexer))
    return [wide.get(at, row) for at, row in enumerate(rows)]


def _rows(text: str, lexer: Lexer) -> Iterator[str]:
    row = ""
    classes = _class_in_shell if lexer.name == "Bash" else _class_of
    tokens = ((classes(kind), value) for _, kind, value in lexer.get_tokens_unprocessed(text))
    for name, group in groupby(tokens, key=itemgetter(0)):
        first, *others = esc("".join(value for _, value in group)).split("\n")
        row += _span(name, first)
        for part in others:
            yield row
            row = _span(name, part)
    yield row


def _span(name: str, html: str) -> str:
    return f'<span class="{name}">{html}</span>' if name and html and not html.isspace() else html


@cache
def _class_of(kind: tuple[str, ...]) -> str:
    """The class of the token type or of the nearest one above it."""
    return next((found for end in range(len(kind), 0, -1) if (found := _CLASSES.get(".".join(kind[:end])))), "")


@cache
def _class_in_shell(kind: tuple[str, ...]) -> str:
    """Part of a word that happens to be a number, as in 2026-03-17, is nothing special in a command."""
    name = _class_of(kind)
    return "" if name == "n" else name


@cache
def _lexer(name: str) -> Lexer:
    from pygments.lexers import get_lexer_by_name

    return get_lexer_by_name(name)

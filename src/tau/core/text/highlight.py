"""Syntax highlighting: code as pieces of text with a role, line by line, also while it still arrives.

Pygments' lexers are sets of regular expressions with a stack of states. They are driven here one line at a time, so
that a line is highlighted once, when it is complete. Only the languages of the table are supported, because hostile
text can keep a regular expression busy, and these lexers were tested against that. Long lines, and everything beyond
a budget, stay plain.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pygments.lexer import Lexer

MAX_LINE_CHARACTERS = 160  # a longer line stays plain, because lexers are slow on it
BUDGET_CHARACTERS = 60_000  # of one block of code
LINES_CACHED = 1_000  # code in an unfinished list is highlighted again in each frame

# Pygments' name of a language: its other names and file extensions.
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

# Languages whose lexers find a comment of several lines with one regular expression.
_BLOCK_COMMENTS = frozenset(
    "c cpp csharp css dart go graphql java javascript kotlin php protobuf rust scala scss sql swift typescript".split()
)

# Lexers that are not driven by states alone: each line is highlighted by itself.
_LINE_LEXERS = frozenset({"json", "make", "ruby", "terraform", "yaml"})

_ROLES = {
    "Keyword": "syntaxKeyword",
    "Keyword.Type": "syntaxType",
    "Keyword.Constant": "syntaxNumber",
    "Operator": "syntaxOperator",
    "Operator.Word": "syntaxKeyword",
    "Punctuation": "syntaxPunctuation",
    "Name.Class": "syntaxType",
    "Name.Builtin": "syntaxType",
    "Name.Exception": "syntaxType",
    "Name.Function": "syntaxFunction",
    "Name.Tag": "syntaxKeyword",
    "Name.Decorator": "syntaxFunction",
    "Name.Attribute": "syntaxVariable",
    "Name.Variable": "syntaxVariable",
    "Name.Constant": "syntaxNumber",
    "Literal.String": "syntaxString",
    "Literal.Number": "syntaxNumber",
    "Literal.Date": "syntaxNumber",
    "Comment": "syntaxComment",
    "Generic.Inserted": "toolDiffAdded",
    "Generic.Deleted": "toolDiffRemoved",
    "Generic.Heading": "syntaxKeyword",
    "Generic.Subheading": "syntaxKeyword",
}


class Token(NamedTuple):
    text: str
    role: str = ""  # "": no role of its own


def language_of_file(path: str) -> str:
    """The language of a file by its name, or an empty string if it is unknown."""
    name = path.rpartition("/")[2].lower()
    return LANGUAGES.get(name.rpartition(".")[2], "")


def language_of_fence(info: str) -> str:
    """The language that follows a fence: its first word."""
    return info.split(" ")[0].strip("{.}")


class State(NamedTuple):
    """What a lexer knows at the beginning of a line."""

    stack: tuple[str, ...] = ("root",)
    in_comment: bool = False


class Highlighter:
    """Highlights the lines of one block of code, in order."""

    def __init__(self, language: str) -> None:
        self._name = LANGUAGES.get(language.lower(), "")
        self._state = State(("root", "php")) if self._name == "php" else State()
        self._budget = BUDGET_CHARACTERS

    def line(self, text: str) -> list[Token]:
        """The tokens of the next line."""
        if not self._name or self._budget <= 0:
            return [Token(text)]
        self._budget -= len(text) + 1
        if len(text) > MAX_LINE_CHARACTERS:
            return [Token(text)]
        tokens, self._state = _lex(self._name, text, self._state)
        return list(tokens)

    def preview(self, text: str) -> list[Token]:
        """The tokens of the beginning of the next line."""
        if not self._name or self._budget <= 0 or len(text) > MAX_LINE_CHARACTERS:
            return [Token(text)]
        return list(_lex(self._name, text, self._state)[0])


@lru_cache(LINES_CACHED)
def _lex(name: str, text: str, state: State) -> tuple[tuple[Token, ...], State]:
    """The tokens of a line, and the state after it."""
    comment: tuple[Token, ...] = ()
    rest = text
    if state.in_comment:
        inside, end, rest = text.partition("*/")
        comment = (Token(inside + end, "syntaxComment"),) if inside or end else ()
        if not end:
            return comment or (Token(""),), state
    stack = list(state.stack)
    opens = _opens_comment(name, rest, stack)
    source = rest + "*/\n" if opens else rest + "\n"
    tokens = _merged(_tokens(name, source, stack), len(rest))
    return (*comment, *tokens), State(tuple(stack), opens)


def _opens_comment(name: str, text: str, stack: list[str]) -> bool:
    """The line begins a comment and does not end it."""
    if name not in _BLOCK_COMMENTS or text.rfind("/*") < 0 or text.rfind("*/") > text.rfind("/*"):
        return False
    last: tuple[Any, str] = ((), "")
    for kind, value in _tokens(name, text + "*/\n", list(stack)):
        if value.strip():
            last = kind, value
    return tuple(last[0][:1]) == ("Comment",) and last[1].rstrip().endswith("*/")


def _merged(tokens: Iterator[tuple[Any, str]], length: int) -> list[Token]:
    """Join neighbours of the same role; cut at `length`."""
    merged: list[Token] = []
    for kind, value in tokens:
        text = value[:length].rstrip("\n")
        length -= len(value)
        if text:
            role = _role(kind)
            if merged and (merged[-1].role == role or text.isspace()):
                merged[-1] = Token(merged[-1].text + text, merged[-1].role)
            else:
                merged.append(Token(text, role))
        if length <= 0:
            break
    for _ in tokens:  # the states after the line
        pass
    return merged or [Token("")]


@cache
def _role(kind: tuple[str, ...]) -> str:
    """The role of a token type, or of its nearest ancestor."""
    return next((role for end in range(len(kind), 0, -1) if (role := _ROLES.get(".".join(kind[:end])))), "")


def _tokens(name: str, text: str, stack: list[str]) -> Iterator[tuple[Any, str]]:
    """Token types and texts, as RegexLexer.get_tokens_unprocessed yields them; `stack` is changed in place."""
    lexer = _lexer(name)
    if name in _LINE_LEXERS:
        yield from ((kind, value) for _, kind, value in lexer.get_tokens_unprocessed(text))
        return
    states: dict[str, Any] = lexer._tokens
    at = 0
    rules = states[stack[-1]]
    while True:
        for match, action, new_state in rules:
            if (found := match(text, at)) is None:
                continue
            if action is not None:
                if isinstance(action, tuple):
                    yield action, found.group()
                else:
                    for _, kind, value in action(lexer, found):
                        yield kind, value
            at = found.end()
            if new_state is not None:
                _change(stack, new_state)
                rules = states[stack[-1]]
            break
        else:
            if at >= len(text):
                return
            if text[at] == "\n":
                stack[:] = ["root"]
                rules = states["root"]
            yield ("Error",) if text[at] != "\n" else ("Text",), text[at]
            at += 1


def _change(stack: list[str], new_state: Any) -> None:
    for state in new_state if isinstance(new_state, tuple) else (new_state,):
        if isinstance(state, int):
            del stack[max(len(stack) + state, 1) :]
        elif state == "#pop":
            del stack[max(len(stack) - 1, 1) :]
        elif state == "#push":
            stack.append(stack[-1])
        else:
            stack.append(state)


@cache
def _lexer(name: str) -> Lexer:
    from pygments.lexers import get_lexer_by_name

    return get_lexer_by_name(name)

"""Fast syntax highlighting for the languages that sessions contain most: one regular expression per language.

A lexer of Pygments runs a loop in Python for every token; here that is one call for every word, string and comment.
No pattern repeats a part that can match in two ways, so hostile text cannot keep it busy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from html import escape
from re import Match
from typing import NamedTuple

# Marks around a token, followed by its class at the start. Valid text contains no control characters.
_OPEN, _CLOSE = "\x02", "\x03"

_QUOTED = r""" "(?:[^"\\\n]|\\.)*"? """.strip()
_CHARACTER = r"'(?:[^'\\\n]|\\.[^'\n]{0,8})'"
_SINGLE = r"'(?:[^'\\\n]|\\.)*'?"
_TEMPLATE = r"`(?:[^`\\]|\\[\s\S])*`?"
_C_COMMENT = r"//[^\n]*|/\*[\s\S]*?(?:\*/|\Z)"
_NUMBER = r"\b\d(?:[\w.]|(?<=[eE])[-+])*"
_WORD = r"[A-Za-z_$][\w$]*"


class Language(NamedTuple):
    """Patterns in the order in which they are tried, by class; `words` are the classes of words."""

    patterns: Mapping[str, str]
    words: Mapping[str, str]
    defining: Mapping[str, str] = {}  # the class of the word after this one
    word: str = _WORD


def _words(**lists: str) -> dict[str, str]:
    return {word: kind for kind, words in lists.items() for word in words.split()}


def _c_like(keywords: str, types: str, defining: str = "", **patterns: str) -> Language:
    shared = {"c": _C_COMMENT, "s": f"{_QUOTED}|{_CHARACTER}", **patterns, "n": _NUMBER}
    types_follow = ("class", "struct", "interface", "trait")
    after = dict.fromkeys(types_follow, "t") | dict.fromkeys(defining.split(), "f")
    return Language(shared, _words(t=types, k=keywords), after)


_SCRIPT = (
    "async await break case catch class const continue debugger default delete do else export extends false finally "
    "for from function get if import in instanceof let new null of return set static super switch this throw true try "
    "typeof undefined var void while with yield"
)
_C = (
    "auto break case const continue default do else enum extern for goto if inline register restrict return sizeof "
    "static struct switch typedef union volatile while"
)
_C_TYPES = "bool char double float int long short signed unsigned void size_t ssize_t uint8_t uint32_t int32_t"

LANGUAGES: dict[str, Language] = {
    "python": Language(
        {
            "c": r"#[^\n]*",
            "s": r"(?:\b[rRbBuUfF]{1,2})?(?:\"{3}[\s\S]*?(?:\"{3}|\Z)|'{3}[\s\S]*?(?:'{3}|\Z)|" f"{_QUOTED}|{_SINGLE})",
            "a": r"^[ \t]*@[\w.]+",
            "n": _NUMBER,
        },
        _words(
            t="abs all any bool bytearray bytes callable chr dict dir enumerate filter float format frozenset getattr "
            "hasattr hash hex id input int isinstance issubclass iter len list map max min next object open ord print "
            "property range repr reversed round self set setattr slice sorted staticmethod str sum super tuple type "
            "vars zip cls Exception ValueError TypeError KeyError RuntimeError OSError NotImplementedError "
            "IndexError AttributeError AssertionError StopIteration ImportError BaseException",
            k="False None True and as assert async await break case class continue def del elif else except finally "
            "for from global if import in is lambda match nonlocal not or pass raise return try while with yield",
        ),
        {"def": "f", "class": "t"},
        r"(?<!\.)[A-Za-z_]\w*",
    ),
    "javascript": Language(
        {"c": _C_COMMENT, "s": f"{_QUOTED}|{_SINGLE}|{_TEMPLATE}", "n": _NUMBER},
        _words(t="Array Boolean Date Error JSON Map Math Number Object Promise RegExp Set String", k=_SCRIPT),
    ),
    "typescript": Language(
        {"c": _C_COMMENT, "s": f"{_QUOTED}|{_SINGLE}|{_TEMPLATE}", "n": _NUMBER},
        _words(
            t="any bigint boolean never number object string symbol unknown Array Boolean Date Error JSON Map Math "
            "Number Object Promise RegExp Set String",
            k=f"{_SCRIPT} abstract as declare enum implements interface keyof namespace private protected public "
            "readonly satisfies type",
        ),
    ),
    "json": Language(
        {"k": r'"(?:[^"\\\n]|\\.)*"(?=[ \t]*:)', "s": _QUOTED, "c": _C_COMMENT, "n": r"-?\b\d[\w.+-]*"},
        _words(k="true false null"),
    ),
    "bash": Language(
        {
            "c": r"(?:(?<=\s)|^)#[^\n]*",
            "s": r"""\$?"(?:[^"\\]|\\[\s\S])*"?|\$?'[^']*'?""",
            "a": r"\$(?:\w+|\{[^}\n]*\}?|[?!#@*$-])|\b\w+(?==)",
        },
        _words(
            k="if fi else while in do done for then return function case select break continue until esac elif",
            t="alias bg bind builtin caller cd command compgen complete declare dirs disown echo enable eval exec exit "
            "export false fc fg getopts hash help history jobs kill let local logout popd printf pushd pwd read "
            "readonly set shift shopt source suspend test time times trap true type typeset ulimit umask unalias unset "
            "wait",
        ),
        word=r"(?<![-\w./])[A-Za-z_][\w./-]*",
    ),
    "c": _c_like(_C, _C_TYPES, c=rf"{_C_COMMENT}|^[ \t]*#[^\n]*"),
    "cpp": _c_like(
        f"{_C} catch class constexpr delete explicit export false final friend namespace new noexcept nullptr operator "
        "override private protected public template this throw true try typename using virtual",
        f"{_C_TYPES} wchar_t",
        c=rf"{_C_COMMENT}|^[ \t]*#[^\n]*",
    ),
    "java": _c_like(
        "abstract assert break case catch class const continue default do else enum extends false final finally for "
        "if implements import instanceof interface native new null package private protected public record return "
        "static super switch synchronized this throw throws transient true try var volatile while",
        "boolean byte char double float int long short void",
        a=r"@\w+",
    ),
    "go": _c_like(
        "break case chan const continue default defer else fallthrough for func go goto if import interface map "
        "package range return select struct switch type var true false nil iota",
        "any bool byte complex64 complex128 error float32 float64 int int8 int16 int32 int64 rune string uint uint8 "
        "uint16 uint32 uint64 uintptr append cap close copy delete len make new panic print println recover",
        "func",
        s=f"{_QUOTED}|`[^`]*`?|{_CHARACTER}",
    ),
    "rust": _c_like(
        "as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod "
        "move mut pub ref return self static struct super trait true type union unsafe use where while",
        "Box Err None Ok Option Result Self Some String Vec bool char f32 f64 i8 i16 i32 i64 i128 isize str u8 u16 "
        "u32 u64 u128 usize",
        "fn",
        s=r'r#*"[\s\S]*?(?:"#*|\Z)|"(?:[^"\\]|\\[\s\S])*"?|' + _CHARACTER,
        c=rf"{_C_COMMENT}|#!?\[[^\]\n]*\]?",
    ),
}


def highlight(text: str, name: str) -> list[str]:
    """Each line of valid text in one of LANGUAGES, as self-contained HTML."""
    pattern, language = _pattern(name), LANGUAGES[name]
    html = escape(pattern.sub(_marker(language.words, language.defining), text))
    for kind in "acfknst":
        html = html.replace(f"{_OPEN}{kind}{_CLOSE}", "").replace(_OPEN + kind, f'<span class="{kind}">')
    return html.replace(_CLOSE, "</span>").split("\n")


def _marker(words: Mapping[str, str], defining: Mapping[str, str]) -> Callable[[Match[str]], str]:
    """Return a function that marks the tokens of one text."""
    expected = ""  # the class of the next word, after one that defines a name

    def mark(token: Match[str]) -> str:
        nonlocal expected
        kind, text = token.lastgroup, token[0]
        if kind == "w":
            kind = words.get(text) or expected
            expected = defining.get(text, "")
            return f"{_OPEN}{kind}{text}{_CLOSE}" if kind else text
        if "\n" in text:
            text = text.replace("\n", f"{_CLOSE}\n{_OPEN}{kind}")
        return f"{_OPEN}{kind}{text}{_CLOSE}"

    return mark


@cache
def _pattern(name: str) -> re.Pattern[str]:
    language = LANGUAGES[name]
    parts = [f"(?P<{kind}>{pattern})" for kind, pattern in language.patterns.items()]
    return re.compile("|".join([*parts, f"(?P<w>{language.word})"]), re.MULTILINE)

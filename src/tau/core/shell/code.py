"""Code in arguments: the few forms of it that certainly run no other program.

Each function gets the literal code of one language, and returns True only for code that it can read completely.
Everything else counts as code that may run anything.
"""

from __future__ import annotations

import ast
import re

# A regular expression in sed. Brackets that contain a delimiter are rejected: programs disagree where they end.
# A `]` that comes first is a character of the set. Each set can be read in one way only: if `[]]` could be read in two,
# many of them could in two to the power of many.
_SET = r"(?:\](?:(?!{0})[^\]\n])*\]|(?:(?!{0})[^\]\n])+\])"
_BRACKET = rf"\[(?:\^{_SET}|(?!\^){_SET})"
_REGEX = r"/(?:[^/\\\n\[]|\\.|" + _BRACKET.format("/") + r")*/I?"
_ADDRESS = rf"(?:(?:\d+(?:~\d+)?|\$|{_REGEX})(?:,[+~]?(?:\d+|\$|{_REGEX}))?\s*!?\s*)?"
_SUBSTITUTION = (
    r"s([^\w\s\\;{}()\[\]<>])(?:(?!\1)[^\\\n\[]|\\.|" + _BRACKET.format(r"\1") + r")*\1(?:(?!\1)[^\\]|\\.)*\1[gpiIM\d]*"
)
_SED_COMMAND = re.compile(
    rf"\s*{_ADDRESS}(?:[dDgGhHnNpPxzF=]|[lLqQ]\s*\d*|[:btT]\s*[\w-]*|y/[^/\n\\]*/[^/\n\\]*/"
    rf"|[aic](?:[^\\\n]|\\.)*|{_SUBSTITUTION})?\s*(?:[;\n]|$|(?=\}}))|\s*{_ADDRESS}\{{\s*|\s*\}}\s*;?",
    re.DOTALL,
)
_AWK_FORBIDDEN = re.compile(
    r"system|getline|@|(?<!\|)\|(?!\|)|close|fflush|argv|environ|dcngettext|bindtextdomain", re.I
)
_AWK_ALTERNATIVES = re.compile(r"\s*!?/[^/\"]*/\s*(\{[^|\"@]*\})?\s*")
_PERL = re.compile(rf"\s*(?:{_SUBSTITUTION.replace('IM', 'msxor')};?\s*)+", re.DOTALL)
_PERL_CODE = re.compile(r"\(\?|`|[$@](?!\d+(?![\d\[{-])|[/|)#,!:]|$)")
_NODE = re.compile(
    r"\s*(?:console\.log\()?\s*(?:process\.(?:version|versions\.\w+|platform|arch)|require\((['\"])[\w./@-]+\1\)(?:\.\w+)+)\s*\)?;?\s*"
)
_CALLS = frozenset(
    """
    print len str repr int float bool list sorted max min sum round range type
    """.split()
)
_METHODS = frozenset(
    ("get_include", "is_available", "version", "strip", "split", "join", "format", "device_count", "show", "dirname")
)
_PYTHON = (
    *(ast.Module, ast.Import, ast.ImportFrom, ast.alias, ast.Expr, ast.Constant, ast.Name, ast.Attribute, ast.Load),
    *(ast.Call, ast.Assert, ast.Compare, ast.cmpop, ast.BinOp, ast.operator, ast.UnaryOp, ast.unaryop, ast.BoolOp),
    *(ast.boolop, ast.Subscript, ast.Slice, ast.Tuple, ast.List, ast.JoinedStr, ast.FormattedValue, ast.keyword),
)
MAX_CODE = 4000


def is_plain_sed(script: str) -> bool:
    """True for a sed script without `e` and `w`, which run commands and write files."""
    at = 0
    if len(script) > MAX_CODE:
        return False
    while at < len(script):
        found = _SED_COMMAND.match(script, at)
        if found is None or found.end() == at:
            return False
        at = found.end()
    return True


def is_plain_awk(program: str) -> bool:
    """True for an awk program without pipes and functions that run commands.

    Strings are searched as well: a quote in a regular expression could hide one.
    """
    if len(program) > MAX_CODE:
        return False
    if _AWK_ALTERNATIVES.fullmatch(program) and not re.search("system|getline", program):
        return True
    return _AWK_FORBIDDEN.search(program) is None


def writes_files_in_awk(program: str) -> bool:
    return ">" in program


def is_plain_perl(code: str) -> bool:
    """True for substitutions alone, without the flag that evaluates, and without variables or embedded code."""
    return (
        len(code) <= MAX_CODE and _PERL.fullmatch(code) is not None and not _PERL_CODE.search(re.sub(r"\\.", "", code))
    )


def is_plain_node(code: str) -> bool:
    return len(code) <= MAX_CODE and _NODE.fullmatch(code) is not None and "child_process" not in code


def is_plain_python(code: str) -> bool:
    """True for imports, and values that are printed or compared. A call of anything else is not plain."""
    if len(code) > MAX_CODE:
        return False
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return all(isinstance(node, _PYTHON) and _is_plain_node(node) for node in ast.walk(tree))


def _is_plain_node(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name):
            return node.func.id in _CALLS
        # _METHODS contains only names that no function for running programs has.
        return isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS
    if isinstance(node, ast.keyword):
        return node.arg in ("sep", "end", "flush")
    if isinstance(node, ast.ImportFrom):
        return not any(
            alias.name in _CALLS or (alias.asname or "") in _CALLS or alias.name == "*" for alias in node.names
        )
    if isinstance(node, ast.Import):
        return not any((alias.asname or "") in _CALLS for alias in node.names)
    return True

"""No possessive quantifiers and no atomic groups: early releases of Python 3.11 (3.11.2 among them) miscompile both."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import re._constants as operations  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tau

ROOT = Path(__file__).parent.parent
FOLDERS = ("src", "tests", "scripts", "benchmarks", "examples")
FUNCTIONS = {"compile", "match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer", "template"}
FORBIDDEN = {operations.POSSESSIVE_REPEAT, operations.ATOMIC_GROUP}
MENTION = re.compile(rb"\bre\s*\.\s*[a-z]")

Assigned = dict[str, list[ast.expr]]


def forbidden_in(pattern: str | bytes) -> bool:
    """True if the pattern has a possessive quantifier or an atomic group. What is not a pattern has none."""
    try:
        return _has_forbidden(parser.parse(pattern))
    except (re.error, OverflowError):
        return False


def _has_forbidden(part: Any) -> bool:
    if isinstance(part, parser.SubPattern):
        return any(_has_forbidden(item) for item in part.data)
    if isinstance(part, (tuple, list)):
        return any(_has_forbidden(item) for item in part)
    return part in FORBIDDEN if isinstance(part, type(operations.LITERAL)) else False


def patterns_of(tree: ast.AST) -> Iterator[tuple[int, str | bytes]]:
    """Line and text of each pattern that is passed to a function of `re`, as far as the text stands in the file."""
    assigned: Assigned = {}
    calls: list[ast.Call] = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    assigned.setdefault(target.id, []).append(node.value)
        elif isinstance(node, ast.Call) and node.args and _is_of_re(node.func):
            calls.append(node)
    for call in calls:
        yield from ((call.lineno, text) for text in texts(call.args[0], assigned))


def _is_of_re(function: ast.expr) -> bool:
    match function:
        case ast.Attribute(value=ast.Name(id="re"), attr=name):
            return name in FUNCTIONS
    return False


def texts(node: ast.expr, assigned: Assigned, depth: int = 0) -> list[str | bytes]:
    """What an expression may be. A part that is not known is one letter, so that it can be repeated."""
    if depth > 5:
        return []
    match node:
        case ast.Constant(value=str() | bytes() as text):
            return [text]
        case ast.JoinedStr(values=values):
            return ["".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in values)]
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            ends = texts(right, assigned, depth + 1) or ["x"]
            begins = texts(left, assigned, depth + 1) or ["x"]
            return [one + other for one in begins for other in ends if type(one) is type(other)]  # type: ignore[operator]
        case ast.Name(id=name):
            return [text for value in assigned.get(name, ()) for text in texts(value, assigned, depth + 1)]
    return []


def test_no_pattern_in_any_source_file_needs_what_some_python_miscompiles() -> None:
    found = [
        (f"{path.relative_to(ROOT)}:{line}", pattern)
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        if MENTION.search(source := path.read_bytes())  # to parse all the others would take seconds
        for line, pattern in patterns_of(ast.parse(source))
    ]
    assert len(found) > 200, "the scan no longer finds the patterns"
    assert [(place, pattern) for place, pattern in found if forbidden_in(pattern)] == []


def _values(name: str) -> list[object]:
    try:
        return list(vars(importlib.import_module(name)).values())
    except ModuleNotFoundError as error:  # of an extra that is not installed
        assert error.name is not None and not error.name.startswith("tau")
        return []


def test_no_pattern_that_a_module_of_tau_has_compiled_needs_it() -> None:
    names = [found.name for found in pkgutil.walk_packages(tau.__path__, "tau.") if not found.name.endswith("__main__")]
    found = [(name, value.pattern) for name in names for value in _values(name) if isinstance(value, re.Pattern)]
    assert len(found) > 50, "the modules no longer have patterns"
    assert [(name, pattern) for name, pattern in found if forbidden_in(pattern)] == []


@pytest.mark.parametrize(
    "source",
    [
        r're.compile(r"[ \t]*+")',
        r're.match("a++", text)',
        r're.sub(rb"(?:x|y){2,3}+", b"", data)',
        r're.search(r"a?+b", text)',
        r're.fullmatch("(?>ab|a)c", text)',
        'SPACE = "[ ]*+"\nre.match(SPACE, text)',
        'PART = "a"\nre.compile(PART + "++")',
        're.compile(f"{name}*+")',
        r're.compile("(a(?:b|[cd]++))")',
    ],
)
def test_the_scan_finds(source: str) -> None:
    assert any(forbidden_in(pattern) for _, pattern in patterns_of(ast.parse(source)))


@pytest.mark.parametrize(
    "source", ['re.compile("[*+]+")', r're.compile(r"c\++")', 'names = "c++"', 're.split("a+", t)']
)
def test_the_scan_does_not_mistake(source: str) -> None:
    assert not any(forbidden_in(pattern) for _, pattern in patterns_of(ast.parse(source)))

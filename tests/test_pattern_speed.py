"""The time of every regular expression grows with the text, not with its square: a long text must not stop the agent.

Each pattern is given texts of one repeated piece, made of its own characters. Only processor time counts.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import re._parser as parser  # type: ignore[import-not-found]
import signal
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import tau
from test_regular_expressions import FUNCTIONS, Assigned, _is_of_re, operations, texts

LENGTH = 40_000  # a pattern with quadratic time needs seconds for such a text
LIMIT_S = 0.4  # others need milliseconds
COMMON = "a1 -"
AT_START = ("match", "fullmatch")
SOURCE = Path(tau.__path__[0])
# Patterns for short texts, or for texts that only tau writes.
SHORT = {
    "core/shell/code.py _SED_COMMAND": "MAX_CODE",
    "core/shell/code.py _NODE": "MAX_CODE",
    "screen/stream.py _HELD": "MAX_HELD",
    "llm/demo.py re.findall": "the text has no blanks at its end",
    "tui/settings_menu.py re.sub": "descriptions of settings",
    "export/blocks.py _TAG": "HTML with escaped texts",
    "runtime/models/readable_errors.py re.search": "MAX_PAGE_HEAD",
}


class Used(NamedTuple):
    """A pattern, and the function of `re` that it is used with."""

    place: str
    pattern: str | bytes
    flags: int
    function: str


def used_patterns() -> Iterator[Used]:
    sources = {path: path.read_text() for path in sorted(SOURCE.rglob("*.py"))}
    functions: defaultdict[str, set[str]] = defaultdict(set)
    for text in sources.values():
        for name, function in re.findall(rf"(?<!\w)(\w+)\.({'|'.join(FUNCTIONS)})\b", text):
            functions[name].add(function)
    for path, text in sources.items():
        yield from _in_calls(path.relative_to(SOURCE).as_posix(), text)
    for found in pkgutil.walk_packages(tau.__path__, "tau."):
        if found.name.endswith("__main__"):
            continue
        for name, value in _values(found.name).items():
            if isinstance(value, re.Pattern):
                place = f"{found.name.removeprefix('tau.').replace('.', '/')}.py {name}"
                for function in functions[name] - {"compile"}:
                    yield Used(place, value.pattern, value.flags, function)


def _values(name: str) -> dict[str, Any]:
    try:
        return vars(importlib.import_module(name))
    except ModuleNotFoundError as error:  # of an extra that is not installed
        assert error.name is not None and not error.name.startswith("tau")
        return {}


def _in_calls(place: str, source: str) -> Iterator[Used]:
    """Patterns in calls such as re.sub(PATTERN, …)."""
    if "re." not in source:
        return
    tree = ast.parse(source)
    assigned: Assigned = {}
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                assigned.setdefault(name, []).append(value)
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr=function) as called, args=[pattern, *_]) if _is_of_re(called):
                if function != "compile":
                    yield from (Used(f"{place} re.{function}", text, 0, function) for text in texts(pattern, assigned))


def pieces(pattern: str | bytes) -> set[str]:
    """What is repeated: characters of the pattern, alone and two together, and a few common ones."""
    own = sorted(_literals(parser.parse(pattern)))[:7]
    return {*own, *COMMON, *(one + other for one in own[:4] for other in [*own[:4], "a"])}


def _literals(part: Any) -> set[str]:
    if isinstance(part, tuple) and len(part) == 2 and part[0] == operations.LITERAL:
        return {chr(part[1])}
    children = part.data if isinstance(part, parser.SubPattern) else part if isinstance(part, tuple | list) else ()
    return set().union(*map(_literals, children))


class TooSlow(Exception):
    pass


@contextmanager
def limited_time() -> Iterator[None]:
    """Raises TooSlow when so much processor time has passed."""

    def stop(*_: object) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def slow_text(used: Used) -> str | None:
    """The piece that makes the pattern slow; None if there is none."""
    compiled: re.Pattern[Any] = re.compile(used.pattern, used.flags)
    for piece in sorted(pieces(used.pattern)):
        for end in ("", "\0"):
            text: Any = piece * (LENGTH // len(piece)) + end
            text = text.encode() if isinstance(used.pattern, bytes) else text
            try:
                with limited_time():
                    if used.function in AT_START:
                        getattr(compiled, used.function)(text)
                    else:
                        for _ in compiled.finditer(text):
                            pass
            except TooSlow:
                return piece
    return None


def test_no_pattern_is_slow_for_a_long_text() -> None:
    found = {used for used in used_patterns() if used.place not in SHORT}
    assert len(found) > 300, "the scan no longer finds the patterns"
    assert [(used.place, used.pattern, slow) for used in sorted(found, key=str) if (slow := slow_text(used))] == []


@pytest.mark.parametrize(
    ("pattern", "function"),
    [("\r+\n", "sub"), (r"\s*=*\s*x", "fullmatch"), (r'"(?:\\.|[^"\\])*"', "sub"), (r"[A-Za-z]\w*://", "findall")],
)
def test_a_slow_pattern_is_found(pattern: str, function: str) -> None:
    assert slow_text(Used("here", pattern, 0, function))


def test_the_exceptions_exist() -> None:
    assert set(SHORT) - {used.place for used in used_patterns()} == set()

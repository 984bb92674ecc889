"""Which tests hold which rows of the catalogue, read from their source: nothing is imported, nothing is run.

A test is marked where it stands, `@pytest.mark.promise("A02", "A03")`, or one of
its cases is, `pytest.param(b"null", marks=pytest.mark.promise("A02"))`, also if the
cases have a name of their own. `pytestmark` is for all tests of a file.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from support.promise_catalogue import PROMISES, ROWS, SAME, TO_COME, Row

FOLDER = Path(__file__).parent.parent


class Holder(NamedTuple):
    path: str  # from the folder of all tests
    name: str

    @property
    def law(self) -> str:
        """Its name in words."""
        return self.name.removeprefix("test_").replace("_", " ")


class Marks(NamedTuple):
    rows: dict[str, list[Holder]]  # what is named by markers, whether it is in the catalogue or not
    unreadable: list[str]  # markers whose rows are no texts, or that mark no test


def read(folder: Path = FOLDER) -> Marks:
    marks = Marks({}, [])
    for path in sorted(folder.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if "mark.promise" in source:
            _file(ast.parse(source), path.relative_to(folder).as_posix(), marks)
    return marks


def holders(marks: Marks, row: str) -> list[Holder]:
    """The tests of a row, whichever of its names they use."""
    names = [row, *(other for other, first in SAME.items() if first == row)]
    return list(dict.fromkeys(test for name in names for test in marks.rows.get(name, [])))


def of(promise: str) -> list[Row]:
    return [row for row in ROWS.values() if promise in row.promises]


def absent(promise: str) -> str:
    """Why a promise does not apply: none of its rows does."""
    rows = of(promise)
    return rows[0].absent if all(row.absent for row in rows) else ""


def gaps(marks: Marks) -> Iterator[str]:
    """What is wrong, in sentences."""
    for row in ROWS.values():
        held = holders(marks, row.id)
        if row.absent and held:
            yield f"{row.id} does not apply, and yet {held[0].path} holds it"
        if not held and not row.absent and row.id not in TO_COME:
            yield f"{row.id} has no test: {row.fault}"
    for promise in PROMISES:
        if not any(holders(marks, row.id) or row.absent or row.id in TO_COME for row in of(promise.id)):
            yield f"{promise.id} has no test: {promise.says}"
    for name in marks.rows.keys() - ROWS.keys() - SAME.keys():
        yield f"{marks.rows[name][0].path} holds {name}, which is not in tests/support/promise_catalogue.py"
    for place in marks.unreadable:
        yield f"{place} marks no test, or names its rows in a way that cannot be read"


def _file(tree: ast.Module, path: str, marks: Marks) -> None:
    named = {name: node.value for node in tree.body for name, node in _assigned(node)}
    common = [named["pytestmark"]] if "pytestmark" in named else []
    seen: set[ast.Call] = set()
    for function in tree.body:
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) or not function.name.startswith("test_"):
            continue
        calls = dict.fromkeys(_marks([*function.decorator_list, *common], named))
        seen.update(calls)
        for row in dict.fromkeys(row for call in calls for row in _literals(call)):
            marks.rows.setdefault(row, []).append(Holder(path, function.name))
    every = [node for node in ast.walk(tree) if _is_mark(node)]
    marks.unreadable.extend(
        f"{path}:{call.lineno}"
        for call in every
        if isinstance(call, ast.Call) and (call not in seen or not call.args or len(_literals(call)) < len(call.args))
    )


def _assigned(node: ast.stmt) -> Iterator[tuple[str, ast.Assign | ast.AnnAssign]]:
    match node:
        case ast.Assign(targets=[ast.Name(id=name)]):
            yield name, node
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()):
            yield name, node


def _marks(nodes: Iterable[ast.expr], named: dict[str, ast.expr | None]) -> Iterator[ast.Call]:
    """The markers in some expressions, and in what these call by name."""
    waiting, followed = list(nodes), set[str]()
    while waiting:
        for node in ast.walk(waiting.pop(0)):
            if isinstance(node, ast.Call) and _is_mark(node):
                yield node
            elif isinstance(node, ast.Name) and node.id not in followed and (value := named.get(node.id)) is not None:
                followed.add(node.id)
                waiting.append(value)


def _is_mark(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr="promise", value=ast.Attribute(attr="mark"))):
            return True
    return False


def _literals(call: ast.Call) -> list[str]:
    return [arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]

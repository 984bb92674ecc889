"""The module list of docs/architecture.md: the first docstring line of every module, package by package."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "tau"


def modules() -> str:
    folders = [SOURCE, *sorted(path for path in SOURCE.rglob("*") if (path / "__init__.py").is_file())]
    return "\n".join(line for folder in folders for line in _package(folder)).strip()


def _package(folder: Path) -> Iterator[str]:
    name = folder.relative_to(SOURCE).as_posix()
    yield f"### `{'tau' if name == '.' else name}`"
    yield ""
    yield _first_line(folder / "__init__.py")
    yield ""
    files = sorted(file for file in folder.glob("*.py") if file.name != "__init__.py")
    if files:
        yield "| module | |"
        yield "| --- | --- |"
        yield from (f"| `{file.name}` | {_first_line(file).replace('|', chr(92) + '|')} |" for file in files)
        yield ""


def _first_line(file: Path) -> str:
    """The summary of a docstring: its first paragraph on one line."""
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return " ".join(text.partition("\n\n")[0].split())


TABLES = {"modules": modules}

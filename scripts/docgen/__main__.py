"""`python -m docgen`: write the generated documentation; with --check, show what is out of date.

That is docs/schema, and every page NAME.md with a template NAME.in.md, in which `<!-- table: NAME -->` is replaced by
a table. Only a checkout has these files.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from docgen import api, cli, dialects, differences, modules, schema, tables

FOLDER = Path(__file__).parents[2] / "docs"
SUFFIX = ".in.md"
GENERATED_NOTE = "<!-- Made by `make docs` from {template} and the program: change those. -->"
MARKER = re.compile(r"<!-- table: (.+?) -->")
# Pages with their own tables; the others use those of tables.py.
TABLES: dict[str, Mapping[str, Callable[[], str]]] = {
    "dialects.in.md": dialects.TABLES,
    "cli.in.md": cli.TABLES,
    "json-mode.in.md": cli.JSON_TABLES,
    "architecture.in.md": modules.TABLES,
    "api.in.md": api.TABLES,
    "compatibility.in.md": differences.TABLES,
}


def page(template: str, name: str) -> str:
    """Fill in a template. `name` is its file name."""
    tables_of_page = TABLES.get(name, tables.TABLES)
    return f"{GENERATED_NOTE.format(template=name)}\n\n{MARKER.sub(lambda match: tables_of_page[match[1]](), template)}"


def generated_files(folder: Path) -> dict[str, str]:
    """Return the content that each generated file should have."""
    pages = {
        f"{template.name.removesuffix(SUFFIX)}.md": page(template.read_text(encoding="utf-8"), template.name)
        for template in sorted(folder.glob(f"*{SUFFIX}"))
    }
    return {**pages, **schema.files()}


def main(arguments: list[str], folder: Path = FOLDER) -> int:
    if arguments not in ([], ["--check"]):
        print("usage: python -m docgen [--check]", file=sys.stderr)
        return 2
    stale = 0
    for name, text in generated_files(folder).items():
        target = folder / name
        current = target.read_text(encoding="utf-8") if target.exists() else ""
        if current == text:
            continue
        if not arguments:
            target.parent.mkdir(exist_ok=True)
            target.write_text(text, encoding="utf-8")
            continue
        stale = 1
        lines = current.splitlines(), text.splitlines()
        print(*difflib.unified_diff(*lines, f"docs/{name}", "what it should be", n=1, lineterm=""), sep="\n")
        print(f"docs/{name} is out of date: make docs", file=sys.stderr)
    return stale


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

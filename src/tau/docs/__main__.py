"""python -m tau.docs writes the pages that are made; with --check it shows what is out of date, and writes nothing.

The prose of docs/NAME.md stands in docs/NAME.in.md; `<!-- table: NAME -->` there is
replaced by a table. Only a checkout has these files.
"""

from __future__ import annotations

import difflib
import re
import sys
from pathlib import Path

from tau.docs.tables import TABLES

FOLDER = Path(__file__).parents[3] / "docs"
SUFFIX = ".in.md"
NOTE = "<!-- Made by `make docs` from {template} and the program: change those. -->"
MARKER = re.compile(r"<!-- table: (.+?) -->")


def page(template: str, name: str) -> str:
    """`name` is that of the template's file."""
    return f"{NOTE.format(template=name)}\n\n{MARKER.sub(lambda found: TABLES[found[1]](), template)}"


def main(arguments: list[str], folder: Path = FOLDER) -> int:
    if arguments not in ([], ["--check"]):
        print("usage: python -m tau.docs [--check]", file=sys.stderr)
        return 2
    stale = 0
    for template in sorted(folder.glob(f"*{SUFFIX}")):
        target = template.with_name(f"{template.name.removesuffix(SUFFIX)}.md")
        wanted = page(template.read_text(encoding="utf-8"), template.name)
        if not arguments:
            target.write_text(wanted, encoding="utf-8")
        else:
            stale += _shown(target, wanted)
    return 1 if stale else 0


def _shown(target: Path, wanted: str) -> bool:
    """Whether a page is out of date; if so, how."""
    found = target.read_text(encoding="utf-8") if target.exists() else ""
    if found == wanted:
        return False
    name = f"docs/{target.name}"
    lines = found.splitlines(), wanted.splitlines()
    print(*difflib.unified_diff(*lines, name, "what it should be", n=1, lineterm=""), sep="\n")
    print(f"{name} is out of date: make docs", file=sys.stderr)
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""python -m tau.docs writes docs/protocol.md; with --check it shows what is out of date, and writes nothing.

The prose stands in docs/protocol.in.md; a line `<!-- table: NAME -->` there is
replaced by a table. Only a checkout has these files.
"""

from __future__ import annotations

import difflib
import re
import sys
from pathlib import Path

from tau.docs.tables import TABLES

FOLDER = Path(__file__).parents[3] / "docs"
NOTE = "<!-- Made by `make docs` from protocol.in.md and the records: change those. -->"
MARKER = re.compile(r"^<!-- table: (.+) -->$", re.MULTILINE)


def page(template: str) -> str:
    return f"{NOTE}\n\n{MARKER.sub(lambda found: TABLES[found[1]](), template)}"


def main(arguments: list[str], folder: Path = FOLDER) -> int:
    if arguments not in ([], ["--check"]):
        print("usage: python -m tau.docs [--check]", file=sys.stderr)
        return 2
    target = folder / "protocol.md"
    wanted = page((folder / "protocol.in.md").read_text(encoding="utf-8"))
    if not arguments:
        target.write_text(wanted, encoding="utf-8")
        return 0
    found = target.read_text(encoding="utf-8") if target.exists() else ""
    if found == wanted:
        return 0
    lines = found.splitlines(), wanted.splitlines()
    print(*difflib.unified_diff(*lines, "docs/protocol.md", "what it should be", n=1, lineterm=""), sep="\n")
    print("docs/protocol.md is out of date: make docs", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

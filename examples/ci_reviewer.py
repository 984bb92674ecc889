"""A reviewer for CI: reads the changes in a folder, prints the findings, and exits with 1 if there are any.

    python examples/ci_reviewer.py                                  # uncommitted changes here; a script plays the model
    python examples/ci_reviewer.py FOLDER --since origin/main       # the changes of a branch
    python examples/ci_reviewer.py --model anthropic/claude-sonnet-4-5

The exit code is 0 without findings, 1 with findings, 2 if the review failed. The script that plays the model by default
finds TODOs and debug output; it shows how the parts fit together, offline.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import subprocess
import sys
from dataclasses import asdict, dataclass
from typing import Any, Literal

import tau

LEFT_BEHIND = re.compile(r"TODO|FIXME|XXX|breakpoint\(\)|console\.log|print\(.debug", re.IGNORECASE)
INSTRUCTIONS = """Review these changes. Report mistakes only: what is wrong, unsafe or left behind, not matters of
taste. Read related files where necessary. No findings is a good result.

"""


@dataclass
class Finding:
    file: str
    line: int
    severity: Literal["error", "warning"]
    what: str


@dataclass
class Review:
    summary: str
    findings: list[Finding]


def changes(folder: str, since: str) -> str:
    command = ["git", "-C", folder, "diff", "--unified=3", since, "--"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def script(diff: str) -> list[dict[str, Any]]:
    """The answer of the scripted model to this diff: one call of the tool that takes the result."""
    findings, file, line = [], "", 0
    for row in diff.splitlines():
        if row.startswith("+++ "):
            file = row[4:].removeprefix("b/")
        elif place := re.match(r"@@ .* \+(\d+)", row):
            line = int(place[1]) - 1
        elif row[:1] in ("+", " "):
            line += 1
            if row[0] == "+" and (found := LEFT_BEHIND.search(row)):
                findings.append(Finding(file, line, "warning", f"{found[0]} was left behind"))
    review = Review(f"{len(findings)} things were left behind", findings)
    return [{"blocks": [{"tool": "return_result", "arguments": asdict(review)}]}]


async def review(folder: str, diff: str, model: str | None) -> tau.Result:
    source: dict[str, Any] = {"model": model} if model else {"script": script(diff)}
    budget = tau.Budget(max_turns=20, time_limit=600)
    tools = ["read", "grep", "find", "ls"]  # read-only
    async with tau.open(folder, session=False, tools=tools, budget=budget, trust=False, **source) as agent:
        return await agent.prompt(INSTRUCTIONS + diff, output_schema=Review)


def main() -> int:
    parser = argparse.ArgumentParser(description="Review what git diff says of a folder.")
    parser.add_argument("folder", nargs="?", default=".")
    parser.add_argument("--since", default="HEAD", help="compare with this commit (default: HEAD)")
    parser.add_argument("--model", help="a real model; without it a script plays one")
    given = parser.parse_args()
    try:
        diff = changes(given.folder, given.since)
    except (OSError, subprocess.CalledProcessError) as error:
        print(getattr(error, "stderr", "") or error, file=sys.stderr)
        return 2
    if not diff:
        print("Nothing has changed.")
        return 0
    result = asyncio.run(review(given.folder, diff, given.model))
    found = result.output
    if not isinstance(found, Review):
        print(f"There is no review: {result.error}", file=sys.stderr)
        return 2
    for finding in found.findings:
        print(f"{finding.file}:{finding.line}: {finding.severity}: {finding.what}")
    print(found.summary)
    return 1 if found.findings else 0


if __name__ == "__main__":
    sys.exit(main())

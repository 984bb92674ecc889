"""Exporting a session, and searching a big tree."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

from benchmarks import search, sessions
from benchmarks.job import ALONE, Job, Place, Target, Values
from benchmarks.measure import MB, Failed
from benchmarks.peers import Contender, work
from tau.tools.ripgrep import find_ripgrep

ENTRIES = 5_000
FILES = 20_000


def export(place: Place, contender: Contender) -> Values:
    session = _session(place)
    with place.home() as home:
        contender.prepare(home, "http://127.0.0.1:9")
        page = home / "page.html"
        argv = [*contender.argv, "--export", str(session), str(page)]
        return _timed(argv, work(home), contender.environment(home), page)


def _session(place: Place) -> Path:
    session = place.shared("export.jsonl")
    if not session.exists():
        sessions.make(session, place.folder, ENTRIES)
    return session


def _timed(argv: list[str], cwd: Path, env: dict[str, str], page: Path) -> Values:
    before = time.perf_counter()
    process = subprocess.Popen(argv, cwd=cwd, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    taken = time.perf_counter() - before
    if process.returncode or not page.exists():
        raise Failed(f"exit code {process.returncode}")
    return {
        "wall": taken * 1e3,
        "CPU": (used.ru_utime + used.ru_stime) * 1e3,
        "peak memory": used.ru_maxrss * 1024 / MB,
        "page": page.stat().st_size / MB,
    }


ESCAPED = """\
import html, json, sys
with open(sys.argv[2], "w") as page:
    for line in open(sys.argv[1]):
        content = json.loads(line).get("message", {}).get("content", [])
        for block in content:
            page.write(f"<p>{html.escape(block.get('text') or json.dumps(block))}</p>")
"""


def escaped_text(place: Place) -> Values:
    """The least for a page: every text of the session, escaped. No Markdown, no list, no colours."""
    session = _session(place)
    with place.home() as home:
        argv = [sys.executable, "-c", ESCAPED, str(session), str(home / "page.html")]
        return _timed(argv, home, {"PATH": os.environ["PATH"]}, home / "page.html")


def searching(place: Place, contender: Contender) -> Values:
    """In process: the tools themselves, beside the same question asked of ripgrep."""
    rg = find_ripgrep("/")
    if rg is None:
        raise Failed("there is no ripgrep to compare with")
    tree = place.shared("tree")
    if not tree.exists():
        tree.mkdir()
        search.make_tree(tree, FILES)
    found = {question.name: asyncio.run(search.measure(question, tree, rg, 25)) for question in search.QUESTIONS}
    values = {name: tool * 1e3 for name, (_, tool) in found.items()}
    return {**values, "worst, to ripgrep": max(tool / theirs for theirs, tool in found.values())}


JOBS = [
    Job(
        "export",
        f"a session of {ENTRIES:,} entries as an HTML page",
        export,
        {"wall": "ms", "CPU": "CPU ms", "peak memory": "MB", "page": "MB"},
        [Target("wall", 3_000, ALONE, "4")],
        floors={"escaped text": escaped_text},
    ),
    Job(
        "search",
        f"grep and find on {FILES:,} files",
        searching,
        {**{question.name: "ms" for question in search.QUESTIONS}, "worst, to ripgrep": ""},
        [Target("worst, to ripgrep", search.ALLOWED, ALONE, "3")],
        takes=lambda version: False,
        rounds=1,
        watched=False,  # ripgrep's processor time counts as that of others; each value is the best of 25
    ),
]

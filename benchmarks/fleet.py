"""A fleet of scripted tasks on this machine: wall and CPU time, memory, tasks per second, size of the ledger.

    python benchmarks/fleet.py [TASKS] [--workers N] [--per-worker N] [--kind text|bash|worktree] [--json]

`text` answers at once, `bash` runs one command, `worktree` changes a file in a work tree of a repository with
--files files. The model is scripted, so what is measured is tau and not a provider.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from tau.records.fleet import Result, Task
from tau.store.ledger import Ledger

EVERY_S = 0.2
PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")
ANSWERS: dict[str, list[dict[str, Any]]] = {
    "text": [{"text": "ok"}],
    "bash": [{"blocks": [{"tool": "bash", "arguments": {"command": "echo hello"}}]}, {"text": "ok"}],
    "worktree": [{"blocks": [{"tool": "write", "arguments": {"path": "new.txt", "content": "x\n"}}]}, {"text": "ok"}],
}


class Watch:
    """Samples the coordinator and the processes below it: memory of all, CPU of the coordinator itself."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.peak = 0
        self.coordinator_s = 0.0
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(EVERY_S):
            found = [self._pid, *descendants(self._pid)]
            self.peak = max(self.peak, sum(map(rss, found)))
            self.coordinator_s = max(self.coordinator_s, cpu(self._pid))

    def end(self) -> None:
        self._stop.set()
        self._thread.join()


def descendants(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [one for child in map(int, children) for one in (child, *descendants(child))]


def rss(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
    except (OSError, IndexError):
        return 0


def cpu(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS


def repository(folder: Path, files: int) -> None:
    folder.mkdir()
    for number in range(files):
        path = folder / f"d{number % 30}" / f"f{number}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{number}\n" * 40)
    who = ["-c", "user.name=b", "-c", "user.email=b@b"]
    for words in (["init", "-q"], ["add", "."], [*who, "commit", "-q", "-m", "first"]):
        subprocess.run(["git", *words], cwd=folder, check=True)


def measure(folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    script, tasks, out = folder / "script.json", folder / "tasks.jsonl", folder / "out"
    script.write_text(json.dumps({"answers": ANSWERS[given.kind]}))
    usual: dict[str, Any] = {"prompt": "Do it.", "model": "scripted", "script": str(script)}
    if given.kind == "worktree":
        repository(folder / "repo", given.files)
        usual["repo"] = str(folder / "repo")
    tasks.write_text("".join(json.dumps({**usual, "id": f"t{number}"}) + "\n" for number in range(given.tasks)))
    flags = ["--workers", str(given.workers), "--per-worker", str(given.per_worker), "--sandbox", "none"]
    flags += ["--concurrency", str(given.workers * given.per_worker)]
    argv = [sys.executable, "-m", "tau", "fleet", "run", str(tasks), "--out", str(out), *flags]
    (folder / "agent").mkdir()
    started = time.monotonic()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            argv, env={**os.environ, "PI_CODING_AGENT_DIR": str(folder / "agent")}, stdout=log, stderr=log
        )
        watch = Watch(process.pid)
        _, status, used = os.wait4(process.pid, 0)
        wall = time.monotonic() - started
        watch.end()
    results = sum(1 for _ in (out / "results.jsonl").open())
    return {
        "kind": given.kind,
        "tasks": given.tasks,
        "exit": os.waitstatus_to_exitcode(status),
        "results": results,
        "wall_s": round(wall, 2),
        "cpu_s": round(used.ru_utime + used.ru_stime, 2),
        "coordinator_ms_per_task": round(1000 * watch.coordinator_s / given.tasks, 3),
        "cpu_ms_per_task": round(1000 * (used.ru_utime + used.ru_stime) / given.tasks, 2),
        "peak_mb": round(watch.peak / 1e6, 1),
        "tasks_per_s": round(results / wall, 1),
        "ledger_mb": round((out / "ledger.db").stat().st_size / 1e6, 2),
        "results_mb": round((out / "results.jsonl").stat().st_size / 1e6, 2),
    }


def measure_ledger(folder: Path, count: int) -> dict[str, Any]:
    """Claims one by one, as they come when tasks end one by one; the slowest of a hundred."""
    ledger = Ledger(folder / "claims.db")
    ledger.add([(f"t{number}", "h", Task(prompt="x")) for number in range(count)], 0.0)
    times, used = [], []
    for number in range(count):
        start, cpu_start = time.perf_counter(), time.thread_time()
        ledger.claim([(f"t{number}", 1, "w1")], 0.0)
        times.append(time.perf_counter() - start)
        used.append(time.thread_time() - cpu_start)
        ledger.finish([Result(f"t{number}", 1, "done", "h")], 0.0)
    ledger.close()
    return {
        "claim_p50_ms": _quantile(times, 0.5),
        "claim_p99_ms": _quantile(times, 0.99),
        "claim_cpu_p99_ms": _quantile(used, 0.99),
    }


def _quantile(seconds: list[float], share: float) -> float:
    return round(1000 * sorted(seconds)[int(len(seconds) * share)], 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", type=int, nargs="?", default=10_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--per-worker", type=int, default=50)
    parser.add_argument("--kind", choices=sorted(ANSWERS), default="text")
    parser.add_argument("--files", type=int, default=762)
    parser.add_argument("--folder", type=Path, help="kept; default: a temporary one")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="tau-fleet-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        found = {**measure(folder, given), **measure_ledger(folder, 2000)}
    finally:
        if given.folder is None:
            shutil.rmtree(folder, ignore_errors=True)
    if given.json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        print(f"{name:24} {value}")


if __name__ == "__main__":
    main()

"""Do the same tasks with the same keys in real pi and in tau, and compare the session files.

    python scripts/twenty_tasks [--only TASK] [--tau COMMAND] [--pi COMMAND] [--version 0.87.1] [--keep FOLDER]

Both run in the same pseudo terminal, with the same model on this machine. pi comes from the cache of the benchmarks, or
from npm. Prints one line per task, and what differs. Exit code 1 if a task differs.
"""

from __future__ import annotations

import argparse
import difflib
import json
import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "scripts"), str(ROOT / "src")]

from twenty_tasks.driver import Driver, environment  # noqa: E402
from twenty_tasks.model import serving  # noqa: E402
from twenty_tasks.session_files import comparable  # noqa: E402
from twenty_tasks.tasks import TASKS, Task  # noqa: E402


def run(task: Task, argv: Sequence[str], home: Path) -> list[list[Any]]:
    """Returns what the session files say after the task."""
    with serving() as model:
        person = Driver(argv, environment(home), home, model)
        try:
            task(person)
        finally:
            person.close()
    return comparable(person.sessions)


def lines(found: list[list[Any]]) -> list[str]:
    return [json.dumps(entry, ensure_ascii=False, sort_keys=True) for entries in found for entry in entries]


def attempt(task: Task, argv: Sequence[str], home: Path) -> list[str]:
    try:
        return lines(run(task, argv, home))
    except AssertionError as error:
        return [f"failed: {line}" for line in str(error).splitlines()[:45]]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--tau", default=str(Path(sys.executable).with_name("tau")))
    parser.add_argument("--pi")
    parser.add_argument("--version", default="0.87.1")
    parser.add_argument("--keep")
    return parser.parse_args()


def pi_command(version: str) -> list[str]:
    from benchmarks.peers import peer

    return list(peer(version).argv)


def main() -> int:
    chosen = arguments()
    programs = {
        f"pi {chosen.version}": shlex.split(chosen.pi) if chosen.pi else pi_command(chosen.version),
        "tau": shlex.split(chosen.tau),
    }
    tasks = [task for task in TASKS if not chosen.only or task.__name__ in chosen.only]
    same = 0
    with tempfile.TemporaryDirectory(prefix="tau-tasks-") as folder:
        for task in tasks:
            place = Path(chosen.keep or folder, task.__name__)
            said = [attempt(task, argv, place / name.split()[0]) for name, argv in programs.items()]
            equal = said[0] == said[1] and not said[0][0].startswith("failed")
            same += equal
            print(f"{'same   ' if equal else 'differs'}  {task.__name__.replace('_', ' ')}", flush=True)
            if not equal:
                print("\n".join(difflib.unified_diff(*said, *programs, lineterm="", n=1)), flush=True)
    print(f"{same} of {len(tasks)} tasks: the session files say the same")
    return 0 if same == len(tasks) else 1


if __name__ == "__main__":
    sys.exit(main())

"""Flags of `tau fleet run`: which tasks, what fills in their fields, and how the fleet runs."""

from __future__ import annotations

import argparse
import os
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tau.core.fleet.tasks import defaults_problem
from tau.errors import UsageError
from tau.fleet.selection import Selection
from tau.fleet.task_files import load_defaults

# Flag to field of a task; a field of the budget follows a dot.
TASK_FLAGS = {
    "model": "model",
    "provider": "provider",
    "thinking": "thinking",
    "script": "script",
    "repo": "repo",
    "base": "base",
    "setup": "setup",
    "check": "check",
    "retries": "retries",
    "max_turns": "budget.maxTurns",
    "max_tokens": "budget.maxTokens",
    "time_limit": "budget.timeLimit",
    "max_cost_per_task": "budget.maxCost",
}


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def _dollars(text: str) -> float:
    amount = float(text)
    if not 0 < amount < float("inf"):
        raise argparse.ArgumentTypeError("must be more than 0")
    return amount


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds < float("inf"):
        raise argparse.ArgumentTypeError("must not be negative")
    return seconds


def add_run_options(run: argparse.ArgumentParser) -> None:
    """The flags of `run` that are about tasks, limits and what is shown."""
    chosen = run.add_argument_group("which tasks")
    chosen.add_argument(
        "--only", action="append", default=[], metavar="GLOB", help="tasks whose id matches; repeatable"
    )
    chosen.add_argument("--shuffle", action="store_true", help="in random order")
    chosen.add_argument("--seed", type=int, help="of --shuffle, which it implies")
    chosen.add_argument("--first", type=positive, metavar="N", help="only the first N; with --shuffle a random sample")
    chosen.add_argument("--changed", choices=("refuse", "redo", "keep"), default="refuse", help="tasks that changed")
    filled = run.add_argument_group("fields for tasks that lack them")
    filled.add_argument("--defaults", type=Path, metavar="FILE", help="a JSON file with fields")
    filled.add_argument("--model")
    filled.add_argument("--provider")
    filled.add_argument("--thinking", metavar="LEVEL")
    filled.add_argument("--script", help="script of the scripted model")
    filled.add_argument("--repo")
    filled.add_argument("--base", metavar="COMMIT")
    filled.add_argument("--setup", metavar="COMMAND", help="before the prompt")
    filled.add_argument("--check", metavar="COMMAND", help="after it: the task is solved if it ends with 0")
    filled.add_argument("--retries", type=int, metavar="N")
    filled.add_argument("--max-turns", type=positive, metavar="N")
    filled.add_argument("--max-tokens", type=positive, metavar="N")
    filled.add_argument("--max-cost-per-task", type=_dollars, metavar="DOLLARS")
    filled.add_argument("--time-limit", type=_seconds, metavar="SECONDS", help="an hour, if a task names none")
    limits = run.add_argument_group("limits of the fleet")
    limits.add_argument("--concurrency", type=positive, default=8, metavar="N", help="agents at once (%(default)s)")
    limits.add_argument("--concurrency-per-provider", type=positive, metavar="N")
    limits.add_argument("--concurrency-per-repo", type=positive, metavar="N")
    limits.add_argument("--max-cost", type=_dollars, metavar="DOLLARS", help="for the whole fleet")
    limits.add_argument("--drain", type=_seconds, default=600.0, help="seconds for tasks to end after Ctrl+C")
    folders = run.add_argument_group("work folders")
    folders.add_argument("--sandbox", choices=("workspace", "strict", "none"), default="workspace")
    folders.add_argument("--keep", choices=("never", "failed", "always"), default="never", help="keep work folders")
    folders.add_argument("--mirror", metavar="DIR", help="copies of repositories that a URL names")
    faults = run.add_argument_group("after a kill")
    faults.add_argument(
        "--after-loss",
        choices=("restart", "continue"),
        default="restart",
        help="a task whose worker was lost begins again, or goes on with its session and files (same machine)",
    )
    faults.add_argument(
        "--orphans",
        choices=("stop", "keep"),
        default="stop",
        help="workers of a killed coordinator stop, or go on for ten minutes and are found by the next run",
    )
    shown = run.add_argument_group("output")
    shown.add_argument("--watch", action="store_true", help="a table that is updated, at a terminal")
    shown.add_argument("--serve", action="store_true", help="list running sessions in `tau serve` of the same user")
    shown.add_argument("--dry-run", action="store_true", help="check everything and start nothing")


def task_defaults(given: argparse.Namespace) -> dict[str, Any]:
    """Fields for tasks that lack them: flags, then the file of --defaults. Raises UsageError."""
    found = load_defaults(given.defaults) if given.defaults is not None else {}
    for flag, field in TASK_FLAGS.items():
        if (value := getattr(given, flag)) is None:
            continue
        if flag in ("repo", "script"):  # of a flag, paths are relative to the working folder
            value = _absolute(value)
        _fill(found, field, value)
        if (problem := defaults_problem(found)) is not None:
            raise UsageError(f"--{flag.replace('_', '-')}: {problem}")
    return found


def _fill(fields: dict[str, Any], field: str, value: Any) -> None:
    name, _, inner = field.partition(".")
    if inner:
        fields[name] = {**fields.get(name, {}), inner: value}
    else:
        fields[name] = value


def _absolute(path: str) -> str:
    return path if "://" in path or not os.path.exists(path) else str(Path(path).absolute())


def selection(given: argparse.Namespace) -> Selection:
    seed = given.seed
    if given.shuffle and seed is None:
        seed = random.SystemRandom().randrange(2**32)
    return Selection(given.only, seed, given.first)


def fleet_config(given: argparse.Namespace) -> Mapping[str, Any]:
    """The fields of FleetConfig that these flags give."""
    return {
        "concurrency": given.concurrency,
        "per_provider": given.concurrency_per_provider,
        "per_repo": given.concurrency_per_repo,
        "max_cost": given.max_cost,
        "sandbox": given.sandbox,
        "keep": given.keep,
        "changed": given.changed,
        "drain_s": given.drain,
        "after_loss": given.after_loss,
        "orphans": given.orphans,
        "serve": given.serve,
        "mirror": given.mirror and str(Path(given.mirror).absolute()),
    }

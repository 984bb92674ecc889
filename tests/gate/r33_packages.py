"""R33: an installation that is killed leaves the old state or the new one; a TypeScript extension harms only itself."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from itertools import product
from pathlib import Path

from gate.figure import Figure
from gate.lots import failures
from gate.portion import portion
from long.package_kills import SOURCES, STEPS, Trial
from node import test_faults
from support.node_program import find_node
from support.npm_registry import serve_registry

MOMENTS = 20  # of each command with each kind of package
SECONDS = 7200.0


def measure(scale: float, seed: int) -> list[Figure]:
    moments = max(1, round(MOMENTS * scale))
    kinds = [kind for kind in SOURCES if shutil.which(kind)]
    if "npm" not in kinds:
        print("*** R33: NO NPM HERE: its packages were not tried ***", file=sys.stderr)
    jobs = portion(list(product(kinds, ("installs", "updates"), ("moments", "steps"))), min(scale, 1), seed)

    def killed(number: int, amount: int, folder: Path) -> None:
        kind, what, when = jobs[number]
        with serve_registry() as registry:
            trial = Trial(folder, kind, registry if kind == "npm" else None)
            if when == "steps":
                trial.steps(what.removesuffix("s"))
            else:
                getattr(trial, what)(moments)

    tried = sum(2 * len(STEPS) if when == "steps" else moments for _, _, when in jobs)
    wrong = failures(len(jobs), 1, killed)
    packages = Figure("R33", "commands killed at every step: neither the old state nor the new", tried, wrong, 0)
    return [packages, *_extensions(scale, seed)]


def _extensions(scale: float, seed: int) -> list[Figure]:
    if find_node()[0] is None:
        print(f"*** R33: {find_node()[1]} ***", file=sys.stderr)
        return []
    cases: list[Callable[[Path], None]] = [
        *(lambda folder, fault=fault: _gate(folder, fault) for fault in test_faults.GATES),  # type: ignore[misc]
        test_faults.test_a_busy_loop_is_ended_and_python_extensions_do_not_notice,
        test_faults.test_what_cannot_be_json_is_an_error_of_the_call,
        test_faults.test_a_line_that_is_no_message_ends_the_process,
        test_faults.test_a_process_that_ends_during_a_tool_call_is_reported_once_and_started_again,
        test_faults.test_extensions_share_a_process_until_its_second_end_and_then_each_has_its_own,
        test_faults.test_an_extension_that_cannot_be_loaded_leaves_the_others_alone,
    ]
    chosen = portion(cases, scale, seed)
    harm = 0
    for case in chosen:
        with tempfile.TemporaryDirectory(prefix="tau-gate-") as folder:
            try:
                case(Path(folder))
            except Exception as error:
                harm += 1
                print(f"R33: {type(error).__name__}: {error}", file=sys.stderr)
    return [Figure("R33", "faults of TypeScript extensions that did harm to others", len(chosen), harm, 0)]


def _gate(folder: Path, fault: str) -> None:
    test_faults.test_a_gate_that_fails_blocks_and_is_reported_once_and_works_again(folder, fault)

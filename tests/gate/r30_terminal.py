"""R30: at a terminal nothing of others is a control, no key is stolen, and it is restored; a stall costs little."""

from __future__ import annotations

import random
import signal
import sys
import tempfile
from itertools import product
from pathlib import Path

from gate.figure import Figure
from gate.lots import failures
from gate.portion import portion
from long.slow_terminal import MAX_LATE_S, MAX_MEMORY_MB, stalled
from screen.test_safe_text import CONTROLS, assert_safe, hostile_rows
from support.question_trials import run_trials
from support.terminal_fuzz import fuzz
from tau.screen.look import Look
from tui import test_ends, test_hostile_text

TEXTS = 2_000
TERMINALS = (
    test_hostile_text.test_no_text_of_model_tools_and_files_is_a_control_at_the_terminal,
    test_hostile_text.test_no_text_of_an_extension_is_a_control_at_the_terminal,
    test_hostile_text.test_a_hostile_name_of_the_folder_is_spelled_out,
)
QUESTIONS = 1_000
KEYS = 50
FROM_KEYS = (signal.SIGINT, signal.SIGQUIT)  # while another program has the terminal, these are for it
ENDS = [
    (number, state)
    for number, state in product((signal.SIGTERM, signal.SIGHUP, *FROM_KEYS), test_ends.STATES)
    if state is not test_ends.editing or number not in FROM_KEYS
]
EVENTS = 100_000
LOT = 2_000  # events of one terminal
STALL_S = 30
SECONDS = 7200.0


def measure(scale: float, seed: int) -> list[Figure]:
    texts, questions = max(20, round(TEXTS * scale)), max(8, round(QUESTIONS * scale))
    events, stall = max(LOT, round(EVENTS * scale)), max(5, round(STALL_S * min(scale, 1)))
    ends = portion(ENDS, scale, seed)

    def shown(number: int, amount: int, folder: Path) -> None:
        TERMINALS[number](folder)

    def ended(number: int, amount: int, folder: Path) -> None:
        test_ends.test_a_signal_ends_the_program(*ends[number], folder)

    def fuzzed(number: int, amount: int, folder: Path) -> None:
        fuzz(folder, amount, seed + number)

    with tempfile.TemporaryDirectory(prefix="tau-gate-", ignore_cleanup_errors=True) as name:
        asked = run_trials(Path(name) / "questions", questions, KEYS, seed, processes=4)
        memory, late, _, _ = stalled(Path(name) / "stalled", stall)
    left = failures(len(ends), 1, ended)
    late, memory = max(0.0, round(late, 2)), max(0.0, round(memory, 1))
    return [
        Figure("R30", "texts of controls, one of which reaches a line", texts, _unsafe(texts, seed), 0),
        Figure("R30", "terminals that a control of others reaches", len(TERMINALS), failures(3, 1, shown), 0),
        Figure("R30", "questions answered by keys that were meant for the editor", asked.trials, asked.answered, 0),
        Figure("R30", "texts typed during a question that are not whole", asked.trials, asked.lost, 0),
        Figure("R30", "ends by a signal, in any state, that leave something on", len(ends), left, 0),
        Figure("R30", "lots of random keys, pastes and sizes with a finding", events, failures(events, LOT, fuzzed), 0),
        Figure("R30", "memory for a terminal that is not read", stall, memory, MAX_MEMORY_MB, "MB"),
        Figure("R30", "the answer later than at a terminal that is read", stall, late, MAX_LATE_S, "s"),
    ]


def _unsafe(count: int, seed: int) -> int:
    """Random sequences of controls, in every place where text of others is drawn."""
    dice = random.Random(seed)
    parts = [*CONTROLS.values(), *"[]0;m?1a\\ "]
    wrong = 0
    for _ in range(count):
        bad = "".join(dice.choices(parts, k=dice.randint(1, 12)))
        try:
            for source, rows in hostile_rows(bad, Look(dice.choice((0, 20, 80)))):
                assert_safe(source, rows)
        except AssertionError as error:
            wrong += 1
            print(f"R30: {bad!r}: {error}", file=sys.stderr)
    return wrong

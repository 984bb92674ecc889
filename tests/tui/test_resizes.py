"""Resizes of the whole interface in a terminal that does not reflow; test_tmux.py has one that does."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from support.interface import REDRAW, RULE, Interface
from support.rpc_process import Json

STORM = 200


def words(count: int, delay_ms: int = 0) -> Json:
    pieces = [f"w{number}." + ("\n\n" if number % 12 == 11 else " ") for number in range(count)]
    return {"blocks": [{"text": pieces}], "delayMs": delay_ms}


@pytest.mark.promise("T13")
def test_a_storm_of_sizes_while_an_answer_arrives_leaves_one_box(tmp_path: Path) -> None:
    source = random.Random(21)
    sizes = [(1, 1), (500, 200), (1, 200), (500, 1), (2, 2), (4, 20), (3, 19)]
    sizes += [(source.randint(1, 60), source.randint(1, 200)) for _ in range(STORM - len(sizes))]
    source.shuffle(sizes)
    with Interface(tmp_path, answers="xterm", script=[words(3000, 1), {"text": "done"}], keys=REDRAW) as tau:
        tau.start().send("go")
        tau.wait("w3.")
        for columns, rows in sizes:
            tau.resize(rows, columns)
            time.sleep(source.uniform(0, 0.03))  # the pace of a mouse
        tau.resize(30, 90)
        # Where the machine is slow, the answer has ended on a screen of a few columns, and is in the history.
        tau.wait(lambda shown: RULE in shown and ("w2999." in shown or "Working" not in shown))
        tau.settle()
        tau.wait(lambda _: len([row for row in tau.screen() if RULE in row]) == 2)
        tau.assert_redraw_changes_nothing()
        tau.send("next")
        tau.wait("done")
        tau.settle()
        tau.press("ctrl+d")
        assert tau.wait_end() == 0
        tau.assert_restored()


@pytest.mark.promise("T13")
@pytest.mark.parametrize("size", [(1, 1), (24, 1), (4, 20), (200, 500)])
def test_every_size_can_be_started_used_and_left(size: tuple[int, int], tmp_path: Path) -> None:
    rows, columns = size
    with Interface(tmp_path, rows=rows, cols=columns, script=[{"text": "fine"}]) as tau:
        tau.wait_raw(b"\x1b[?2026h")
        tau.wait_quiet()
        tau.type("hello\r")
        tau.wait_quiet()
        tau.resize(24, 80)
        tau.wait(RULE)
        tau.wait(lambda shown: "fine" in "\n".join([*tau.history(), shown]))
        tau.press("ctrl+d")
        assert tau.wait_end() == 0
        tau.assert_restored()
    assert tau.prompts() == ["hello"]

"""Resizes of the whole interface: storms in a terminal that does not reflow, and sizes in tmux, which does."""

from __future__ import annotations

import random
import re
import shlex
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cli_process import PI, scripted
from support.interface import REDRAW, RULE, Interface
from support.rpc_process import Json, surroundings
from support.tmux import SIZES, Tmux, tmux_or_skip

STORM = 200


def words(count: int, delay_ms: int = 0) -> Json:
    pieces = [f"w{number}. " for number in range(count)]
    return {"blocks": [{"text": pieces}], "delayMs": delay_ms}


def words_of(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\bw(\d+)\.", text)]


@pytest.mark.parametrize("answers", ["xterm", "kitty"])
def test_a_storm_of_sizes_while_an_answer_arrives_leaves_one_box(answers: str, tmp_path: Path) -> None:
    source = random.Random(21)
    sizes = [(1, 1), (500, 200), (1, 200), (500, 1), (2, 2), (4, 20), (3, 19)]
    sizes += [(source.randint(1, 60), source.randint(1, 200)) for _ in range(STORM - len(sizes))]
    source.shuffle(sizes)
    with Interface(tmp_path, answers=answers, script=[words(3000, 1), {"text": "done"}], keys=REDRAW) as tau:
        tau.start().send("go")
        tau.wait("w3.")
        for columns, rows in sizes:
            tau.resize(rows, columns)
            time.sleep(source.uniform(0, 0.03))  # the pace of a mouse
        tau.resize(30, 90)
        tau.wait(lambda shown: shown.count("Working") <= 1 and "w2999." in shown)
        tau.settle()
        tau.wait(lambda _: len([row for row in tau.screen() if RULE in row]) == 2)
        tau.assert_redraw_changes_nothing()
        tau.send("next")
        tau.wait("done")
        tau.settle()
        tau.press("ctrl+d")
        assert tau.wait_end() == 0
        tau.assert_restored()


@pytest.mark.parametrize("size", [(1, 1), (1, 80), (24, 1), (2, 2), (3, 30), (4, 20), (200, 500)])
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


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Tmux]:
    with tmux_or_skip(tmp_path) as tmux:
        yield tmux


def run_tau(tmux: Tmux, folder: Path, *script: Json) -> None:
    environment = surroundings(folder)
    names = ("HOME", "PI_CODING_AGENT_DIR", "TAU_WARM_DIR")
    settings = [f"{name}={environment[name]}" for name in names]
    tau = ["env", "-u", "SSH_CONNECTION", *settings, *PI, *scripted(folder, *script)]
    tmux.shell(f"echo earlier line; cd {shlex.quote(str(folder / 'work'))}; {shlex.join(tau)}; echo printed after; cat")
    tmux.wait(RULE)


def rules(tmux: Tmux) -> list[str]:
    return [row for row in tmux.screen().split("\n") if RULE in row]


def wait_for_box(tmux: Tmux, columns: int) -> None:
    """Until the box has the width of the screen."""
    deadline = time.monotonic() + 20
    while [len(row) for row in rules(tmux)] != [columns - 1] * 2:
        assert time.monotonic() < deadline, tmux.screen()


def test_twelve_sizes_at_rest_in_tmux_leave_one_box_and_every_word_once(tmux: Tmux, tmp_path: Path) -> None:
    run_tau(tmux, tmp_path, words(300))
    tmux.type("go")
    tmux.wait("w299.")
    for columns, rows in SIZES:
        tmux.resize(columns, rows)
        wait_for_box(tmux, columns)
    shown = tmux.text()
    assert shown.count("earlier line") == 1
    assert words_of(shown) == list(range(300))
    assert sum(RULE in row for row in shown.split("\n")) == 2
    tmux.run("send-keys", "C-d")
    shown = tmux.wait("printed after")
    assert RULE not in shown
    assert words_of(shown) == list(range(300))


def test_random_sizes_in_tmux_while_an_answer_arrives_lose_no_word(tmux: Tmux, tmp_path: Path) -> None:
    source = random.Random(4)
    count = 400
    run_tau(tmux, tmp_path, words(count, 10))
    tmux.type("go")
    tmux.wait("w0.")
    columns = rows = 0
    while f"w{count - 1}." not in tmux.text():
        columns, rows = source.randint(40, 120), source.randint(12, 40)
        tmux.resize(columns, rows)
        time.sleep(source.uniform(0.05, 0.7))  # the pace of a mouse
    wait_for_box(tmux, columns)
    shown = tmux.text()
    found = words_of(shown)
    assert sorted(set(found)) == list(range(count))
    assert len(found) - count <= count // 10
    assert shown.count("earlier line") == 1

"""The state of a mixed load: figures of several runs add up, and a run goes on where the last one ended."""

from __future__ import annotations

from pathlib import Path

from long.mixed_lanes import Found
from long.mixed_results import State, table
from long.witness import Figures


def found(*, lost: int = 0, grown_kib: float = 10.0, descriptors: int = 0) -> dict[str, object]:
    one = Found()
    one.acknowledged, one.prompts, one.responses = 100, 50, 200
    one.lost = [f"accepted: {number}" for number in range(lost)]
    one.grown_kib, one.grown_prompts, one.more_descriptors = grown_kib, 40, descriptors
    one.slowest = {"prompt": 0.1 * (1 + lost)}
    return vars(one)


def test_the_figures_of_runs_add_up(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    State(path).add(60.0, {"rpc": found(), "acp": found()})
    state = State(path)
    state.add(30.0, {"rpc": found(grown_kib=30.0)})
    figures = {(figure.goal, figure.what): figure for figure in State(path).figures()}
    assert figures["rpc", "acknowledged entries lost"].tried == 200
    assert figures["acp", "acknowledged entries lost"].tried == 100
    assert figures["rpc", "memory for each prompt"].found == 0.5  # 40 KiB for 80 prompts
    assert all(figure.holds for figure in figures.values())
    assert (state.content["seconds"], len(state.content["runs"])) == (90.0, 2)


def test_runs_at_the_same_time_share_a_file(tmp_path: Path) -> None:
    first, second = State(tmp_path / "state.json"), State(tmp_path / "state.json")
    first.add(60.0, {"rpc": found()})
    second.add(30.0, {"rpc": found(lost=1)})
    first.add(10.0, {"acp": found()})
    assert first.content["seconds"] == 100.0
    assert [len(one["lost"]) for one in first.content["lanes"].values()] == [1, 0]


def test_what_is_too_much_is_said(tmp_path: Path) -> None:
    state = State(tmp_path / "state.json")
    state.add(60.0, {"server": found(lost=2, grown_kib=400.0, descriptors=1)})
    shown = table(state)
    assert shown.count("TOO MUCH") == 3
    assert "server lost: accepted: 1" in shown
    assert "slowest: prompt 0.30 s" in shown


def test_growth_is_that_of_most_pairs_of_rests() -> None:
    one = Found()
    rests = [(prompts, Figures(10_000 + prompts // 2, ("a",), 3)) for prompts in range(0, 400, 20)]
    rests[7] = (140, Figures(90_000, ("a", "b"), 9))  # a moment that was off
    one.add_rests(rests)
    assert one.grown_prompts == 280
    assert round(one.grown_kib / one.grown_prompts, 2) == 0.5
    assert (one.more_descriptors, one.more_threads) == (0, 0)

"""A session cut at two hundred bytes, and each of its lines destroyed; tests/long/torn.py does more of it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from long.torn import GARBAGE, Sound, cuts, destroyed, nul_tails


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Sound:
    return Sound(tmp_path_factory.mktemp("sound"))


@pytest.mark.promise("D01", "D20")
def test_a_cut_at_any_byte_loses_what_was_cut_and_nothing_else(sound: Sound, tmp_path: Path) -> None:
    offsets = random.Random(4).sample(range(len(sound.data)), 200)
    assert cuts(sound, offsets, tmp_path / "torn.jsonl")[0] == 200


@pytest.mark.promise("D06")
def test_a_file_that_ends_in_its_header_is_no_session_and_left_alone(sound: Sound, tmp_path: Path) -> None:
    size = len(sound.lines[0])
    assert cuts(sound, range(size + 10), tmp_path / "torn.jsonl") == (size + 10, size - 1)


@pytest.mark.promise("D02")
def test_nuls_behind_or_in_any_line_lose_nothing_else(sound: Sound, tmp_path: Path) -> None:
    assert nul_tails(sound, tmp_path / "torn.jsonl") == 2 * len(sound.ids) + 1


@pytest.mark.promise("D03")
@pytest.mark.parametrize("kind", [1, 3])
def test_any_line_that_is_destroyed_loses_itself_only(sound: Sound, tmp_path: Path, kind: int) -> None:
    assert destroyed(sound, tmp_path / "torn.jsonl", GARBAGE[kind : kind + 1]) == len(sound.ids) >= 200

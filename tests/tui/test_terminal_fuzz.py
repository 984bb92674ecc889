"""Random events at the whole interface: see tests/long/fuzz_terminal.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.terminal_fuzz import fuzz_at_once


@pytest.mark.promise("T14")
@pytest.mark.timeout(300)  # twelve seconds on two free cores; two programs share them with other tests
def test_random_events_never_break_the_interface(tmp_path: Path) -> None:
    assert fuzz_at_once(tmp_path, events=4_000, seed=21, processes=2).events >= 4_000

"""Fifteen kills at random moments, always the same ones; `make soak` kills more often."""

from __future__ import annotations

from pathlib import Path

import pytest

from long.session_kills import kills


@pytest.mark.promise("D11")
def test_a_kill_at_any_moment_loses_nothing_that_was_acknowledged_or_told(tmp_path: Path) -> None:
    figures = kills(15, 4, tmp_path)
    assert figures.prompts + figures.queued > 15 and figures.message_ends > 15

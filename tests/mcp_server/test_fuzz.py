"""Mutated messages: a bounded run of tests/long/fuzz_mcp_serve.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from long.fuzz_mcp_serve import run


@pytest.mark.promise("M17")
@pytest.mark.parametrize("seed", [1, 2])
def test_the_server_survives_mutated_messages(tmp_path: Path, seed: int) -> None:
    run(tmp_path, 300, seed)

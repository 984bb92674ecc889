"""A tenth of a million entries, and a fifth of a gigabyte; `make soak` opens larger ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from long.large_sessions import BYTES_OF_AN_ENTRY, ROOM, opened


@pytest.mark.promise("D23")
@pytest.mark.parametrize(("entries", "characters"), [(100_000, 20), (2_000, 100_000)])
def test_a_large_session_opens_in_little_memory(tmp_path: Path, entries: int, characters: int) -> None:
    found = opened(tmp_path, entries, characters)
    assert found.size > 25_000_000
    assert found.extra <= ROOM + entries * BYTES_OF_AN_ENTRY

"""The real program with extensions that fail, once in each way; `make soak` does it more often."""

from __future__ import annotations

from pathlib import Path

import pytest

from long.extension_faults import FAULTS, rounds
from support.rpc_process import quick


@pytest.mark.promise("C10", "C11", "C12", "C16", "C17", "C18", "C22", "C24", "C26")
@pytest.mark.parametrize("kind", FAULTS)
def test_a_faulty_extension_affects_only_itself(tmp_path: Path, kind: str) -> None:
    tries = iter(range(3))
    quick(lambda: max(rounds(kind, 1, _new(tmp_path, next(tries)))), 1.0)


def _new(folder: Path, number: int) -> Path:
    new = folder / str(number)
    new.mkdir()
    return new

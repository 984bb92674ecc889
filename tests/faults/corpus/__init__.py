"""Inputs that failed once. They lie beside this file and are tried again by every run of the tests, for ever.

    sessions/       session files
    streams/<api>/  what a model server sent
    lines/          lines of input

A fuzzer that finds something writes it to a folder of its own (`keep`), and who
mends it moves it here, under a name that says what was wrong.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

HERE = Path(__file__).parent


def found(kind: str) -> list[Path]:
    return sorted(file for file in (HERE / kind).rglob("*") if file.is_file())


def keep(kind: str, name: str, data: bytes) -> Path:
    folder = Path(os.environ.get("TAU_FUZZ_FOUND") or Path(tempfile.gettempdir()) / "tau-fuzz-found") / kind
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_bytes(data)
    return path

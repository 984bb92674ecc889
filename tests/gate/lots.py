"""Much work in lots: each has a number, a seed and a folder of its own, some are done at once.

A lot can be tried again alone: its dice are `Random(f"{seed}/{number}")`, whatever the lots beside it do.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

AT_ONCE = 2

T = TypeVar("T")


def in_lots(amount: int, size: int, work: Callable[[int, int, Path], T], at_once: int = AT_ONCE) -> list[T]:
    """`work(number, amount, folder)` for each lot, until `amount` is done."""

    def one(number: int) -> T:
        with tempfile.TemporaryDirectory(prefix="tau-gate-") as folder:
            return work(number, min(size, amount - number * size), Path(folder).resolve())

    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(one, range(-(-amount // size))))


def failures(amount: int, size: int, work: Callable[[int, int, Path], object], at_once: int = AT_ONCE) -> int:
    """How many lots failed. What they say goes to stderr, where whoever looks into it finds it."""

    def one(number: int, count: int, folder: Path) -> bool:
        try:
            work(number, count, folder)
        except Exception as error:
            print(f"lot {number}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            return True
        return False

    return sum(in_lots(amount, size, one, at_once))

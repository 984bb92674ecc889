"""The benchmark of telemetry compares tau with a copy that has no observers: it knows every place that has one."""

from __future__ import annotations

from pathlib import Path

from benchmarks.telemetry import SEAMS

import tau

SOURCE = Path(tau.__file__).parent


def test_the_benchmark_knows_the_places_that_test_for_an_observer() -> None:
    missing = [
        f"{name}: {old}"
        for name, changes in SEAMS.items()
        for old, _ in changes
        if (SOURCE / name).read_text().count(old) != 1
    ]
    assert missing == []

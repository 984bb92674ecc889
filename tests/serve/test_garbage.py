"""When the reference cycles of closed sessions are collected."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from tau.serve import garbage
from tau.serve.garbage import LIVE_PER_CLOSED, MIN_CLOSED_PER_FULL, CycleCollector

pytestmark = pytest.mark.unit


class Cycle:
    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def no_collections_of_its_own() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def old_cycle() -> weakref.ref[Cycle]:
    """One that only a collection of all objects finds, as that of a session that was live for a while."""
    cycle = Cycle()
    gc.collect(1)
    return weakref.ref(cycle)


@pytest.mark.parametrize(
    "live, closed", [(0, MIN_CLOSED_PER_FULL), (1000, 1000 // LIVE_PER_CLOSED)], ids=["few live", "many live"]
)
def test_closed_sessions_are_collected_when_they_are_a_part_of_the_live_ones(live: int, closed: int) -> None:
    async def main() -> None:
        collector = CycleCollector()
        for _ in range(3):
            cycle = old_cycle()
            for _ in range(closed - 1):
                collector.closed(live)
            assert cycle() is not None
            collector.closed(live)
            assert cycle() is None

    asyncio.run(main())


def test_the_last_closed_session_is_collected_when_no_other_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage, "QUIET_S", 0.01)

    async def main() -> None:
        cycle, collector = old_cycle(), CycleCollector()
        collector.closed(0)
        assert cycle() is not None
        async with asyncio.timeout(30):
            while cycle() is not None:
                await asyncio.sleep(0.01)

    asyncio.run(main())

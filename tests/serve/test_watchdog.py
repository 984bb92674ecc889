"""The watchdog of a host."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest

from tau.serve.watchdog import Watchdog


async def test_a_loop_that_stands_still_is_logged_with_the_place(caplog: pytest.LogCaptureFixture) -> None:
    watchdog = Watchdog(0.02)
    await asyncio.sleep(0.03)
    with caplog.at_level(logging.WARNING):
        deadline = time.monotonic() + 30
        while "has stood" not in caplog.text and time.monotonic() < deadline:
            stand_still()
    assert "stand_still" in caplog.text
    watchdog.stop()


def stand_still() -> None:
    time.sleep(0.1)

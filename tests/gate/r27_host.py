"""R27: a host that is killed, clients that are cut off or stop reading, and a large session that is opened."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from gate.figure import Figure
from gate.lots import failures
from long import host_kills, host_load, host_reconnects

KILLS = 1000
LOT = 100
RECONNECTS = 10_000
CLIENTS = 200
MEGABYTES = 590
SECONDS = 1800.0
MEASURED = 0.1  # below this scale it is part of the tests, on a machine with much else to do


def measure(scale: float, seed: int) -> list[Figure]:
    def killed(number: int, amount: int, folder: Path) -> None:
        host_kills.run(folder, amount, seed + number)

    kills, reconnects = max(2, round(KILLS * scale)), max(100, round(RECONNECTS * scale))
    clients, megabytes = max(40, round(CLIENTS * scale)), max(20, round(MEGABYTES * scale))
    lost = failures(kills, LOT if kills > 2 * LOT else -(-kills // 2), killed)
    with tempfile.TemporaryDirectory() as folder:
        grown = asyncio.run(host_reconnects.measure(Path(folder) / "reconnects", reconnects, seed))
    figures = [
        Figure("R27", "keyed prompts lost or run twice, by kill -9 of a host", kills, lost, 0),
        Figure("R27", "memory after lost connections, without a gap", reconnects, grown, 5, "MiB"),
    ]
    return [*figures, *_load(clients, megabytes)] if scale >= MEASURED else figures


def _load(clients: int, megabytes: int) -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        stalled = host_load.stalled(Path(folder) / "stalled", clients)
        opened = host_load.opened(Path(folder) / "large", megabytes)
    return [
        Figure("R27", "memory for a client that does not read", stalled.clients, stalled.kib_each, 300, "KiB"),
        Figure("R27", "answer to others while a session opens", megabytes, opened.worst_ms, 100, "ms"),
    ]

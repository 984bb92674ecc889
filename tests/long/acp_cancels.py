"""session/cancel in every phase of a prompt: how long the prompt takes to be answered.

python tests/long/acp_cancels.py [TIMES]
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from long.witness import Heart
from support.acp_peer import memory_peer
from support.acp_phases import AFTERWARDS, PHASES

TIMES = 20
RETRY = {"retry": {"baseDelayMs": 60_000}}


async def cancelled(folder: Path, phase: str) -> float:
    """Seconds from the cancel to the answer, without those in which the machine had no time for this process."""
    answer, reached, name, args = PHASES[phase]
    async with memory_peer(folder, answer, AFTERWARDS, args=args, settings=RETRY) as peer:
        await peer.initialize()
        session = await peer.new(folder / "work")
        request = peer.prompt_request(session)
        await peer.send(request)
        await reached(peer, name)
        with Heart() as heart:
            began = time.monotonic()
            await peer.notify("session/cancel", sessionId=session)
            assert (await peer.response(request))["stopReason"] == "cancelled"
            taken = time.monotonic() - began
        return max(0.0, taken - heart.lost(began))


def measure(times: int) -> dict[str, list[float]]:
    """By phase."""
    found: dict[str, list[float]] = {}
    for phase in PHASES:
        for _ in range(times):
            with tempfile.TemporaryDirectory(prefix="tau-acp-") as folder:
                found.setdefault(phase, []).append(asyncio.run(cancelled(Path(folder), phase)))
    return found


def main() -> int:
    found = measure(int(sys.argv[1]) if len(sys.argv) > 1 else TIMES)
    for phase, taken in found.items():
        print(f"{phase}: {len(taken)} times, at most {max(taken):.3f} s")
    return 0 if max(map(max, found.values())) <= 1 else 1


if __name__ == "__main__":
    sys.exit(main())

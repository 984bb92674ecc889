"""kill -9 of `tau acp` at random moments: session/load in a new process has everything that was sent before.

python tests/long/acp_kills.py [KILLS] [--seed SEED]
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.acp_peer import process_peer

KILLS = 50


async def kill_and_load(folder: Path, chance: random.Random) -> None:
    """Answered prompts, one under way, a kill, and a look at what is left."""
    answers = [{"blocks": [{"text": [f"answer {at} ", "and ", "more. "]}], "delayMs": 5} for at in range(6)]
    answered = chance.randrange(1, 5)
    async with process_peer(folder, *answers) as (peer, process):
        await peer.initialize()
        session = await peer.new(folder / "work")
        for _ in range(answered):
            await peer.prompt(session)
        told = peer.text()
        await peer.send(peer.prompt_request(session))
        await asyncio.sleep(chance.random() * 0.05)
        process.kill()
        await process.wait()
    async with process_peer(folder, *answers) as (peer, process):
        await peer.initialize()
        await peer.call("session/load", sessionId=session, cwd=str(folder / "work"), mcpServers=[])
        assert peer.text().startswith(told), (told, peer.text())
        assert await peer.prompt(session) == "end_turn"


async def kills(count: int, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(count):
        with tempfile.TemporaryDirectory() as folder:
            await kill_and_load(Path(folder), chance)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("kills", nargs="?", type=int, default=KILLS)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    given = parser.parse_args()
    asyncio.run(kills(given.kills, given.seed))
    print(f"seed {given.seed}: {given.kills} kills, nothing lost")


if __name__ == "__main__":
    main()

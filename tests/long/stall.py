"""A reader that stops: what waits for it is bounded, and nothing of it is lost.

    python tests/long/stall.py [--seconds 30] [--megabytes 200]

While nobody reads, the model gives some answers in many pieces. Each piece makes
an event with all that was said before it, twice, so a few hundred kilobytes of
answers are hundreds of megabytes of events. Afterwards everything is read, and the
deltas of each block have to add up to its text.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from faults.clients import read_until
from support.rpc_process import Agent, Json, said

MIB = 1 << 20
LIMIT = 32 * MIB
ANSWERS = 4
PIECE = 1_000
PART_OF_THE_TIME = 0.8  # in which all is said, so that the rest of the stall is silence


class Figures(NamedTuple):
    """Bytes, but for the seconds."""

    due: int
    extra_while_stalled: int
    extra_at_most: int
    read_afterwards: int
    seconds_to_read: float
    updates: int


def script(seconds: float, megabytes: float) -> list[Json]:
    """The pieces are numbered, so that one at a wrong place would be seen.

    n pieces are due as 2 + 4 + … + 2n pieces, or n * n and a bit.
    """
    count = math.ceil(math.sqrt(megabytes * 1e6 / ANSWERS / PIECE))
    pieces = [f"{at:06d}\u00e9" * (PIECE // 8) for at in range(count)]
    blocks = [{"thinking": pieces[: count // 2]}, {"text": pieces[count // 2 :]}]
    delay = int(seconds * PART_OF_THE_TIME * 1000 / count / ANSWERS)
    return [{"blocks": blocks, "delayMs": delay}] * ANSWERS


def events_due(answers: Sequence[Json]) -> int:
    total = 0
    for answer in answers:
        so_far = 0
        for piece in (piece for block in answer["blocks"] for pieces in block.values() for piece in pieces):
            so_far += len(piece.encode())
            total += 2 * so_far
    return total


def stall(seconds: float, megabytes: float, folder: Path) -> Figures:
    answers = script(seconds, megabytes)
    with Agent(folder, {"text": "warm"}, *answers, listening=False) as agent:
        agent.write(b'{"type":"prompt","message":"what a first run costs is not counted"}\n')
        read_until(agent, b'"agent_settled"')
        before = agent.memory

        agent.write(b'{"type":"prompt","message":"go"}\n')
        agent.write(b'{"type":"follow_up","message":"on"}\n' * (ANSWERS - 1))
        agent.write(b'{"id":"last","type":"get_state"}\n')
        time.sleep(seconds)
        extra = agent.memory - before

        started = time.monotonic()
        agent.listen()
        agent.settled(within=60 + seconds)
        taken = time.monotonic() - started
        assert agent.response("last")["success"]
        check(agent.events, answers)
        updates = sum(event["type"] == "message_update" for event in agent.events)
        return Figures(events_due(answers), extra, agent.memory - before, agent.bytes_read, taken, updates)


def check(events: Sequence[Json], answers: Sequence[Json]) -> None:
    """What was read is what the script says: in the answers, and in their deltas."""
    told = [["".join(pieces) for block in answer["blocks"] for pieces in block.values()] for answer in answers]
    kept = [[block.get("thinking", block.get("text")) for block in one["content"]] for one in said(events, "assistant")]
    assert kept == told, "the answers are not what the model said"
    assert added_up(events) == told, "the deltas do not add up to the answers"


def added_up(events: Sequence[Json]) -> list[list[str]]:
    """The joined deltas of every block of every answer."""
    answers: list[dict[int, str]] = []
    for event in events:
        if event["type"] == "message_start" and event["message"]["role"] == "assistant":
            answers.append({})
        elif event["type"] == "message_update":
            update = event["assistantMessageEvent"]
            if update["type"] in ("text_delta", "thinking_delta"):
                blocks, at = answers[-1], update["contentIndex"]
                blocks[at] = blocks.get(at, "") + update["delta"]
    return [[blocks[at] for at in sorted(blocks)] for blocks in answers]


def main() -> int:
    parser = argparse.ArgumentParser(description="Stop reading while events are due, and see what that costs.")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--megabytes", type=float, default=200)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tau-stall-") as folder:
        figures = stall(given.seconds, given.megabytes, Path(folder))
    due, extra, at_most, read, seconds, updates = figures
    print(f"reader stalled     {given.seconds:g} s, while {due / 1e6:.0f} MB of events were due")
    print(f"extra memory       {extra / MIB:.1f} MiB while stalled, {at_most / MIB:.1f} MiB in all")
    print(f"read afterwards    {read / 1e6:.1f} MB in {seconds:.2f} s, with {updates} updates")
    print("deltas             add up to the answers")
    if at_most > LIMIT:
        print(f"too much: {LIMIT / MIB:.0f} MiB are allowed", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""R8: a reader that stops while 200 MB are due. What waits for it is bounded, and nothing of it is lost.

Events first (tests/long/stall.py: the deltas have to add up to the answers), then
as many bytes of responses, of which each has to come, in order.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from faults.clients import read_until
from gate.figure import Figure
from long.stall import LIMIT, MIB, stall
from support.rpc_process import Agent

SECONDS = 300
STALLED = 60.0  # seconds
MEGABYTES = 200
ANSWER = 1_900_000  # bytes, and about 2 MB as a response


def measure(scale: float, seed: int) -> list[Figure]:
    seconds, megabytes = max(4.0, STALLED * min(1.0, scale)), max(40.0, MEGABYTES * min(1.0, scale))
    with tempfile.TemporaryDirectory(prefix="tau-gate-") as scratch:
        folder = Path(scratch).resolve()
        try:
            found = stall(seconds, megabytes, folder / "events")
            most, wrong = max(found.extra_while_stalled, found.extra_at_most), 0
        except AssertionError as error:
            print(error, file=sys.stderr)
            most, wrong = 0, 1
        asked = round(megabytes / 2)
        extra, lost = responses(asked, seconds / 2, folder / "responses")
    return [
        Figure("R8", "extra memory, with events waiting for a stalled reader", round(megabytes), most / MIB, 32, "MiB"),
        Figure("R8", "answers that were not whole afterwards", round(megabytes), wrong, 0),
        Figure("R8", "extra memory, with responses waiting for one", asked, extra / MIB, LIMIT / MIB, "MiB"),
        Figure("R8", "responses lost, or out of order", asked, lost, 0),
    ]


def responses(amount: int, seconds: float, folder: Path) -> tuple[int, int]:
    """The most memory it took beyond what there was, and how many did not come in their place."""
    folder.mkdir()
    with Agent(folder, {"text": "x" * ANSWER}, listening=False) as agent:
        agent.write(b'{"type":"prompt","message":"go"}\n')
        read_until(agent, b'"agent_settled"')
        before = agent.memory
        agent.write(b"".join(b'{"id":"%d","type":"get_messages"}\n' % number for number in range(amount)))
        time.sleep(seconds)  # nobody reads: time is what is being tested here
        agent.listen()
        agent.next_response(after=amount - 1, within=60 + seconds)
        came = [response["id"] for response in agent.responses]
        lost = sum(one != str(number) for number, one in enumerate(came)) + abs(len(came) - amount)
        return agent.memory - before, lost

"""A host through a long life in a short time: clients come and go, sessions are opened and released.

    python tests/long/host_soak.py [SECONDS] [--seed SEED]

Each round opens some sessions, runs prompts in them, loses connections in the middle, comes back, and leaves. There
are a thousand sessions; when all exist, they are opened again, and after a few prompts new ones take the place of the
old. Sessions are released after a tenth of a second without clients. In the end, memory, descriptors and threads must
be what they were when each session had been opened a few times: until then caches are filled.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.host_process import HostProcess, Json
from support.rpc_process import calls
from tau.serve.garbage import QUIET_S

SECONDS = 3600.0
SESSIONS = 5  # of a round
ALL_SESSIONS = 1000
PROMPTS = 4  # of a session, before it is deleted
WARM_TIMES = 8
ANSWERS: tuple[Json, ...] = (
    {"blocks": [{"text": [f"word {at} " for at in range(20)]}], "delayMs": 1},
    calls("echo one"),
    {"text": "done"},
)


class State(NamedTuple):
    memory: int  # bytes
    descriptors: int
    threads: int


class Soaked(NamedTuple):
    rounds: int
    sessions: int
    before: State
    after: State

    @property
    def growth(self) -> float:
        """Of the memory, as a part of what it was."""
        return self.after.memory / self.before.memory - 1


class Known(NamedTuple):
    id: str
    file: Path
    prompts: int


def run(folder: Path, seconds: float, seed: int = 0, all_sessions: int = ALL_SESSIONS) -> Soaked:
    chance = random.Random(seed)
    until = time.monotonic() + seconds
    rounds, before, warm = 0, State(0, 0, 0), WARM_TIMES * all_sessions // SESSIONS
    known: deque[Known] = deque()
    with HostProcess(folder, *ANSWERS, args=("--no-tcp", "--idle", "0.1")) as host:
        while time.monotonic() < until or rounds <= warm:
            _round(host, chance, known, all_sessions)
            rounds += 1
            if rounds == warm:
                before = _at_rest(host)
        after = _at_rest(host)
    return Soaked(rounds, rounds * SESSIONS, before, after)


def _round(host: HostProcess, chance: random.Random, known: deque[Known], all_sessions: int) -> None:
    # In turn: what is opened again has ended long ago.
    again = [known.popleft() for _ in range(SESSIONS)] if len(known) >= all_sessions else []
    for old in [one for one in again if one.prompts == PROMPTS]:
        again.remove(old)
        old.file.unlink()
    key = f"{chance.getrandbits(64):016x}"
    with host.client(client="soak") as client:
        opened = [client.get("open_session", session=one.id) for one in again]
        opened += [client.get("open_session") for _ in range(SESSIONS - len(again))]
        prompts = [*(one.prompts for one in again), *[0] * SESSIONS]
        known.extend(
            Known(one["session"], Path(one["sessionFile"]), count + 1)
            for one, count in zip(opened, prompts, strict=False)
        )
        for one in opened:
            client.get("prompt", session=one["session"], message="go", key=key)
        client.socket.settimeout(0.02)
        with suppress(TimeoutError):
            for _ in range(chance.randrange(20)):
                client.read()
    for one in opened:
        after = {"stream": one["stream"], "seq": 0}
        with host.client(session=one["session"], after=after, pace=chance.choice([0, 10])) as back:
            back.get("prompt", message="go", key=key)  # it is not run twice
            back.until(lambda record: record["type"] == "agent_settled" or record.get("settled") is not None, 0)
            assert len(back.get("get_messages")["messages"]) >= 2


def _at_rest(host: HostProcess) -> State:
    """Wait until all sessions are released, and what they held."""
    with host.client(client="soak") as client:
        while client.get("list_sessions", live=True, all=True)["sessions"]:
            time.sleep(0.05)
    time.sleep(QUIET_S + 1)
    process = Path(f"/proc/{host.process.pid}")
    return State(host.memory(), len(os.listdir(process / "fd")), len(os.listdir(process / "task")))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seconds", type=float, nargs="?", default=SECONDS)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        soaked = run(Path(folder), given.seconds, given.seed)
    print(f"{soaked.sessions} sessions in {soaked.rounds} rounds, memory {soaked.growth:+.1%}")
    print(f"before {soaked.before}, after {soaked.after}")
    assert soaked.growth <= 0.05, "the memory has grown"
    assert soaked.after.descriptors <= soaked.before.descriptors + 5, "descriptors are left"


if __name__ == "__main__":
    main()

"""Kill a host at random moments: clients repeat their keyed prompts, none is lost and none runs twice.

    python tests/long/host_kills.py [KILLS] [--seed SEED]

Two clients share one session that lives through all of it. Each life of the host gets prompts and follow-ups with keys,
and is killed (SIGKILL) after some record or other. Then the host is started again; the clients come back, get a
snapshot, and repeat everything that was not acknowledged. In the end each text is in the session exactly once.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.host_process import HostProcess, Json, SocketClient
from support.rpc_process import calls

KILLS = 1000
ANSWERS: tuple[Json, ...] = (
    {"blocks": [{"text": [f"word {at} " for at in range(30)]}], "delayMs": 1},
    calls("echo one; echo two"),
    {"text": "done"},
)


class Figures(NamedTuple):
    kills: int
    prompts: int
    acknowledged: int
    slowest_return_s: float


class Prompter:
    """A client that repeats what was not acknowledged."""

    def __init__(self, name: str, session: str, chance: random.Random) -> None:
        self.name = name
        self.acknowledged: set[str] = set()
        self.refused: set[str] = set()
        self.open: dict[str, str] = {}  # text by key, not acknowledged yet
        self._session = session
        self._chance = chance
        self._count = 0
        self._client: SocketClient | None = None

    def come_back(self, host: HostProcess) -> float:
        """Connect, and repeat what is open. Returns the seconds until the state is known."""
        began = time.monotonic()
        self._client = host.client(session=self._session, client=self.name)
        snapshot = self._client.until("snapshot", 0)
        took = time.monotonic() - began
        assert snapshot["session"] == self._session
        for key, text in [*self.open.items()]:
            self._say(key, text)
        return took

    def say_more(self) -> None:
        self._count += 1
        text = f"{self.name} {self._count}"
        self.open[f"key-{text}"] = text
        self._say(f"key-{text}", text)

    def read(self, records: int) -> None:
        """Read some records; the host may be gone meanwhile."""
        assert self._client is not None
        wanted = len(self._client.records) + records
        self._client.socket.settimeout(0.05)
        try:
            while len(self._client.records) < wanted and self._client.read():
                pass
        except (TimeoutError, ConnectionError):
            pass
        self._note()

    def leave(self) -> None:
        assert self._client is not None
        self._note()
        self._client.close()

    def finish(self) -> None:
        """Wait until everything is acknowledged."""
        assert self._client is not None
        self._client.socket.settimeout(30)
        while self.open:
            self._client.read()
            self._note()

    def get(self, type: str, **fields: Any) -> Any:
        assert self._client is not None
        self._client.socket.settimeout(30)
        return self._client.get(type, **fields)

    def _say(self, key: str, text: str) -> None:
        assert self._client is not None
        try:
            self._client.send("prompt", message=text, key=key, streamingBehavior="followUp", note=key)
        except ConnectionError:
            return
        self._sent[f"r{self._client._count}"] = key

    @property
    def _sent(self) -> dict[str, str]:
        assert self._client is not None
        return self._client.__dict__.setdefault("sent", {})

    def _note(self) -> None:
        assert self._client is not None
        for record in self._client.records:
            if record["type"] == "response" and record.get("command") == "prompt":
                key = self._sent[record["id"]]
                if key in self.open and record["success"]:
                    self.acknowledged.add(self.open.pop(key))
                elif key in self.open:  # on a busy machine a host is killed before it delivers much
                    assert "queue is full" in record["error"], record
                    self.refused.add(self.open.pop(key))


def run(folder: Path, kills: int, seed: int = 0) -> Figures:
    chance = random.Random(seed)
    slowest = 0.0
    host = HostProcess(folder, *ANSWERS)
    with host.client() as first:
        session = first.get("open_session", attach=False)["session"]
        bound = host.client(session=session)
        bound.get("prompt", message="begin", key="begin")  # from here on there is a file
        bound.close()
    prompters = [Prompter(name, session, chance) for name in ("a", "b")]
    for _ in range(kills):
        slowest = max([slowest, *(prompter.come_back(host) for prompter in prompters)])
        for _ in range(chance.randrange(1, 4)):
            chance.choice(prompters).say_more()
            chance.choice(prompters).read(chance.randrange(0, 40))
        host.kill()
        for prompter in prompters:
            prompter.read(10_000)
            prompter.leave()
        host = HostProcess(folder, *ANSWERS)
    for prompter in prompters:
        prompter.come_back(host)
        prompter.finish()
    prompters[0].say_more()
    prompters[0].finish()
    last = prompters[0]._client
    assert last is not None
    last.until(lambda record: record["type"] == "agent_settled", 0)
    while (last.get("get_state"))["pendingMessageCount"] or last.get("get_state")["isStreaming"]:
        last.until("agent_settled")
    messages = last.get("get_messages")["messages"]
    said = Counter(message["content"][0]["text"] for message in messages if message["role"] == "user")
    acknowledged = prompters[0].acknowledged | prompters[1].acknowledged
    assert {text: count for text, count in said.items() if count > 1} == {}
    assert acknowledged - said.keys() == set()
    assert not said.keys() & (prompters[0].refused | prompters[1].refused)
    for prompter in prompters:
        prompter.leave()
    assert host.stop() == 143
    assert "Traceback" not in host.stderr, host.stderr
    return Figures(kills, len(said), len(acknowledged), slowest)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kills", type=int, nargs="?", default=KILLS)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(run(Path(folder), given.kills, given.seed))


if __name__ == "__main__":
    main()

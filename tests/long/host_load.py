"""Clients of a host that stop reading, and a large session that is opened: the others do not notice.

python tests/long/host_load.py [--clients 200] [--megabytes 590]
"""

from __future__ import annotations

import argparse
import json
import selectors
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.host_process import HostProcess, Json, SocketClient

PIECES = [f"piece {at:05} {'x' * 180}" for at in range(2500)]
TALK: Json = {"blocks": [{"text": PIECES}]}
RUNS = 3
WARM_RUNS = 5


class Stalled(NamedTuple):
    clients: int
    kib_each: float  # memory of the host for each client that does not read
    slowdown: float  # of the run as the other clients see it


class Opened(NamedTuple):
    megabytes: int
    seconds: float  # to open it
    worst_ms: float  # of the answers to another client meanwhile


def stalled(folder: Path, clients: int) -> Stalled:
    """Half of the clients stop reading. Compares memory and time with a run in which everyone reads."""
    with HostProcess(folder, TALK) as host:
        with host.client() as first:
            session = first.get("open_session", attach=False)["session"]
        everyone = [host.client(session=session, dialect="1.5", numbers=True) for _ in range(clients)]
        for _ in range(WARM_RUNS):  # until the ring is full
            _run(everyone, everyone[0])
        memory = [host.memory()]
        usual = min(_run(everyone, everyone[0]) for _ in range(RUNS))
        memory.append(host.memory())
        half = everyone[: clients // 2]
        slowed = min(_run(half, half[0]) for _ in range(RUNS))
        memory.append(host.memory())
        grown = max(0, (memory[2] - memory[1]) - max(0, memory[1] - memory[0]))  # the session itself grows too
        last = max(record["seq"] for record in half[0].records if "seq" in record)
        for client in everyone[clients // 2 :]:
            client.until(lambda record: record.get("seq") == last, 0)
            client.close()
        for client in half:
            client.close()
    return Stalled(clients - len(half), grown / 1024 / (clients - len(half)), slowed / usual)


def _run(readers: list[SocketClient], driver: SocketClient) -> float:
    """One run; returns the seconds until every reader has heard its end."""
    selector = selectors.DefaultSelector()
    for client in readers:
        del client.records[:-1]
        selector.register(client.socket, selectors.EVENT_READ, client)
    began = time.perf_counter()
    driver.send("prompt", message="go")
    waiting = set(readers)
    while waiting:
        for key, _ in selector.select(30):
            client = key.data
            client.read()
            if any(record["type"] == "agent_settled" for record in client.records[1:]):
                waiting.discard(client)
    return time.perf_counter() - began


def opened(folder: Path, megabytes: int) -> Opened:
    """Open a large session while another client asks for its state."""
    with HostProcess(folder, {"text": "ok"}) as host, host.client() as client:
        made = client.get("open_session")
        client.get("prompt", session=made["session"], message="hi")
        client.until("agent_settled", 0)
        path = Path(made["sessionFile"])
        large = path.with_name("large_" + path.name)
        write_large(path, large, megabytes)
        id = large_id(made["session"])
        times: list[float] = []
        done = threading.Event()

        def ask() -> None:
            with host.client(session=made["session"]) as other:
                while not done.is_set():
                    began = time.perf_counter()
                    other.get("get_state")
                    times.append(time.perf_counter() - began)
                    time.sleep(0.002)

        asking = threading.Thread(target=ask)
        asking.start()
        began = time.perf_counter()
        client.get("attach", session=id)
        took = time.perf_counter() - began
        done.set()
        asking.join()
    return Opened(megabytes, took, max(times) * 1000)


def large_id(id: str) -> str:
    return f"ffffffff{id[8:]}"


def write_large(source: Path, target: Path, megabytes: int) -> None:
    """A session with the entries of another one, and many more answers after them."""
    header, *lines = source.read_bytes().splitlines()
    start: dict[str, Any] = json.loads(header)
    answer = json.loads(next(line for line in reversed(lines) if b'"assistant"' in line))
    answer["message"]["content"] = [{"type": "text", "text": "y" * 20_000}]
    parent, size = json.loads(lines[-1])["id"], 0
    with target.open("wb") as file:
        file.write(
            b"\n".join(
                [json.dumps({**start, "id": large_id(start["id"])}, separators=(",", ":")).encode(), *lines, b""]
            )
        )
        at = 0
        while size < megabytes * 1_000_000:
            answer |= {"id": f"{at:08x}", "parentId": parent}
            line = json.dumps(answer, separators=(",", ":")).encode() + b"\n"
            file.write(line)
            parent, size, at = answer["id"], size + len(line), at + 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--megabytes", type=int, default=590)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(stalled(Path(folder) / "clients", given.clients))
        print(opened(Path(folder) / "large", given.megabytes))


if __name__ == "__main__":
    main()

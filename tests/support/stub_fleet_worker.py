"""A worker of a fleet without an agent: it answers every order after some milliseconds, with a result on disk.

    python -S -E stub_fleet_worker.py VERSION SLOTS [MILLISECONDS]

It needs nothing but the standard library, so that it starts in 20 ms: tests that kill coordinators start many.
"""

import json
import os
import random
import selectors
import sys
import time
from typing import Any


def say(**line: Any) -> None:
    os.write(1, json.dumps(line).encode() + b"\n")


def finish(order: dict[str, Any]) -> None:
    """Write the folder under another name, then rename it, as a real worker does."""
    result = {
        "id": order["task"]["id"],
        "attempt": order["number"],
        "outcome": "done",
        "taskHash": order["taskHash"],
        "text": "ok",
    }
    draft = order["folder"] + ".partial"
    os.makedirs(draft, exist_ok=True)
    with open(os.path.join(draft, "result.json"), "w") as file:
        json.dump(result, file)
        file.flush()
        os.fsync(file.fileno())
    if not os.path.exists(order["folder"]):
        os.rename(draft, order["folder"])
    say(type="done", attempt=order["attempt"], result=result)


def main() -> None:
    version, slots = sys.argv[1], int(sys.argv[2])
    longest = float(sys.argv[3]) / 1000 if len(sys.argv) > 3 else 0.05
    say(type="hello", version=version, slots=slots, pid=os.getpid())
    waiting: list[tuple[float, dict[str, Any]]] = []
    selector, data = selectors.DefaultSelector(), b""
    selector.register(0, selectors.EVENT_READ)
    while True:
        now = time.monotonic()
        for due, order in [one for one in waiting if one[0] <= now]:
            waiting.remove((due, order))
            finish(order)
        if not selector.select(max(0.0, min((due for due, _ in waiting), default=now + 1.0) - now)):
            continue
        piece = os.read(0, 65536)
        if not piece:
            return  # the coordinator is gone
        *lines, data = (data + piece).split(b"\n")
        for order in map(json.loads, lines):
            if order["type"] == "order":
                say(type="begun", attempt=order["attempt"])
                waiting.append((time.monotonic() + random.random() * longest, order))


if __name__ == "__main__":
    main()

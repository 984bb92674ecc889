"""A client that believes nothing: it writes down what the agent acknowledged and told, and looks for it in the files.

`Witness` is an agent that may be listened to for days. Of what it says only the
obligations are kept: which commands wait for a response, which messages were told
and which prompts accepted (`Ledger`). `Heart` beats beside it, so that a second in
which the machine had no time for anybody is not taken for one of the agent's.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
import time
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Self

from support.rpc_process import SHOWN, Agent, Json, text

SOON = 5.0  # seconds: what takes longer is a hang
BEAT = 0.05
SAID = ("prompt", "steer", "follow_up")
KEPT = ("user", "assistant", "toolResult")  # what is in a file as it was told


class Heart(threading.Thread):
    """How long this process was kept from doing anything, and when."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._ends: list[float] = []
        self._sums: list[float] = []  # of all gaps up to that end
        self.largest = 0.0
        self._still = threading.Event()
        self.start()

    def run(self) -> None:
        last, total, over = time.monotonic(), 0.0, False
        while not over:
            over = self._still.wait(BEAT)  # and then a last look: the gap may be just over
            now = time.monotonic()
            gap, last = now - last - BEAT, now
            if gap > BEAT:
                total += gap
                self.largest = max(self.largest, gap)
                self._ends.append(now)
                self._sums.append(total)

    def stop(self) -> None:
        self._still.set()
        self.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def lost(self, since: float) -> float:
        """Seconds since then in which nothing could be done."""
        at = bisect_left(self._ends, since)
        if at == len(self._ends):
            return 0.0
        return self._sums[-1] - (self._sums[at - 1] if at else 0.0)


class Late(NamedTuple):
    """A response, or an end, that took too long; `lost` of it the machine was busy elsewhere."""

    what: str
    seconds: float
    lost: float


class Ledger:
    """What is owed, and what was found wrong. Written by the ear, read by the driver."""

    def __init__(self) -> None:
        self.accepted: list[str] = []  # texts of prompts since the last look into the files
        self.ended: dict[bytes, str] = {}  # digests of messages since then
        self.counts = Counter[str]()  # of everything, for the table
        self.refusals = Counter[str]()
        self.lost: list[str] = []
        self.late: list[Late] = []
        self.excused: list[Late] = []
        self.wrong: list[str] = []  # failures of other kinds
        self.noise: list[bytes] = []
        self.slowest: dict[str, float] = {}

    def forget(self) -> None:
        """What is owed: for a process that was not asked to pay."""
        self.accepted.clear()
        self.ended.clear()

    def took(self, what: str, seconds: float, lost: float, limit: float = SOON) -> None:
        self.slowest[what] = max(self.slowest.get(what, 0.0), seconds - lost)
        if seconds > limit:
            (self.late if seconds - lost > limit else self.excused).append(Late(what, seconds, lost))


class Sent(NamedTuple):
    kind: str
    at: float
    limit: float
    text: str | None


class Witness(Agent):
    def __init__(self, folder: Path, ledger: Ledger, heart: Heart, **how: Any) -> None:
        self.ledger = ledger
        self.heart = heart
        self.prompts = 0  # that were accepted
        self.settlings = 0
        self.ready = 0  # how often the extensions were loaded
        self.in_trouble = False  # a write failed, and not all is well yet
        self.down = False  # an extension was given up
        self.loading = threading.Lock()  # held while extensions are loaded: a fault then is for good
        self.dialogs: deque[str] = deque()  # that nobody answered yet
        self._due: dict[str, Sent] = {}
        self._nameless: deque[Sent] = deque()  # lines without an id that can be read
        self._wanted: dict[str, Json | None] = {}
        self.saying = threading.RLock()
        self._reading = threading.Event()
        self._reading.set()
        self._read_again = 0.0
        super().__init__(folder, offline=False, **how)

    # Saying.

    def say(self, kind: str, *, limit: float = SOON, wanted: bool = False, **fields: Any) -> str:
        """One command, whose response is due within `limit`."""
        with self.saying:
            self._count += 1
            id = f"{kind}-{self._count}"
            if wanted:
                self._wanted[id] = None
            self._due[id] = Sent(kind, time.monotonic(), limit, fields.get("message") if kind in SAID else None)
            self.write(json.dumps({"id": id, "type": kind, **fields}).encode() + b"\n")
        return id

    def say_line(self, line: bytes, *pauses: float) -> None:
        """One line of any bytes that is no blank one, for which there is one response without an id."""
        with self.saying:
            self._nameless.append(Sent("bad line", time.monotonic(), SOON, None))
            line += b"\n"
            for pause in pauses:
                self.write(line[: len(line) // 2])
                line = line[len(line) // 2 :]
                time.sleep(pause)
            self.write(line)

    def tell(self, kind: str, *, limit: float = SOON, **fields: Any) -> Json:
        """One command and its response."""
        id = self.say(kind, limit=limit, wanted=True, **fields)
        try:
            self.wait(lambda: self._wanted[id] is not None, f"response {id!r}", limit + 30)
            response = self._wanted[id]
            assert response is not None
            return response
        finally:
            del self._wanted[id]

    def tell_well(self, kind: str, **fields: Any) -> Any:
        response = self.tell(kind, **fields)
        assert response["success"], response
        return response.get("data")

    def wait(self, done: Callable[[], bool], what: str, within: float) -> None:
        self._wait(done, what, within)

    def waited(self, done: Callable[[], bool], within: float) -> bool:
        """Whether it comes to that in time. The end of the agent is nothing that can be waited for."""
        with self._news:
            return self._news.wait_for(lambda: done() or self._ended, within) and done()

    def due(self) -> list[Sent]:
        """What has not been answered."""
        with self._news:
            return [*self._due.values(), *self._nameless]

    # Hearing.

    def stall(self, seconds: float) -> None:
        """Read nothing for a while. What was due before is due anew afterwards."""
        self._reading.clear()
        time.sleep(seconds)
        self._read_again = time.monotonic()
        self._reading.set()

    def _note(self, lines: Iterable[bytes]) -> None:
        self._reading.wait()
        super()._note(lines)

    def _keep(self, record: Json) -> None:
        self.records.append(record)
        if len(self.records) > 4 * SHOWN:
            del self.records[: -2 * SHOWN]
        if record["type"] == "response":
            self._answered(record)
            return
        counts, kind = self.ledger.counts, record["type"]
        counts[kind] += 1
        if kind == "message_end" and record["message"]["role"] in KEPT:
            self.ledger.ended[digest(record["message"])] = _told(record["message"])
        elif kind == "agent_settled":
            self.settlings += 1
        elif kind in ("session_write_failed", "session_write_recovered"):
            self.in_trouble = kind == "session_write_failed"
        elif kind == "session_damaged":
            self.ledger.wrong.append(f"session damaged: {record['problems'][:3]}")
        elif kind == "extension_error" and "not restarted again" in record["error"]:
            self.down = True
        elif kind == "extension_ui_request":
            if record["method"] in ("select", "confirm", "input", "editor"):
                self.dialogs.append(record["id"])
            elif record.get("message") == "ready":
                self.ready += 1

    def _answered(self, response: Json) -> None:
        self.ledger.counts["response"] += 1
        id = response.get("id")
        if id is None and self._nameless:
            sent = self._nameless.popleft()
        elif isinstance(id, str) and id in self._due:
            sent = self._due.pop(id)
        else:
            self.ledger.wrong.append(f"a response to nothing, or the second: {json.dumps(response)[:300]}")
            return
        since = max(sent.at, self._read_again)
        self.ledger.took(sent.kind, time.monotonic() - since, self.heart.lost(since), sent.limit)
        if response["success"] and sent.text is not None and not sent.text.startswith("/"):
            self.ledger.accepted.append(sent.text)
            self.ledger.counts[f"{sent.kind} accepted"] += 1
            self.prompts += sent.kind == "prompt"
        elif response["success"]:
            self.ledger.counts[sent.kind] += 1
        elif id is not None:
            self.ledger.counts["refused"] += 1
            self.ledger.refusals[re.sub(r"[\d/].*", "", response["error"])[:60]] += 1
        if id in self._wanted:
            self._wanted[id] = response

    # What it is.

    def figures(self) -> Figures:
        status = Path(f"/proc/{self.pid}/smaps_rollup").read_text()
        found = re.search(r"^Anonymous:\s+(\d+) kB", status, re.MULTILINE)
        assert found
        return Figures(int(found[1]), descriptors(self.pid), len(os.listdir(f"/proc/{self.pid}/task")))


class Figures(NamedTuple):
    memory: int  # KiB that are nobody else's
    descriptors: tuple[str, ...]
    threads: int


def descriptors(pid: int) -> tuple[str, ...]:
    found = []
    for name in os.listdir(f"/proc/{pid}/fd"):
        with suppress(OSError):
            found.append(re.sub(r"\d+", "N", os.readlink(f"/proc/{pid}/fd/{name}")))
    return tuple(sorted(found))


def living(mark: str) -> dict[int, str]:
    """The processes that have this in their environment, and their command lines."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError):
                if mark.encode() in Path(f"/proc/{name}/environ").read_bytes():
                    line = Path(f"/proc/{name}/cmdline").read_bytes().replace(b"\0", b" ")
                    found[int(name)] = line.decode(errors="replace").strip()
    return found


# The files.


def digest(message: Json) -> bytes:
    return hashlib.blake2b(json.dumps(message, sort_keys=True).encode(), digest_size=16).digest()


def _told(message: Json) -> str:
    return json.dumps(message)[:600]


class Kept:
    """What one session file has."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.messages = Counter[bytes]()
        self.said = Counter[str]()
        self.queued: set[str] = set()
        self.wrong: list[str] = []
        ids: set[str] = set()
        for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], 1):
            try:
                entry = json.loads(line)
                kind = entry["type"]
            except (ValueError, TypeError, KeyError):
                self.wrong.append(f"{path.name}:{number} is no entry: {line[:100]!r}")
                continue
            if (number == 1) != (kind == "session"):
                self.wrong.append(f"{path.name}:{number} is a {kind}")
            if kind == "session":
                continue
            if entry["id"] in ids:
                self.wrong.append(f"{path.name}:{number} has an id that was there before")
            if entry["parentId"] is not None and entry["parentId"] not in ids:
                self.wrong.append(f"{path.name}:{number} hangs on nothing")
            ids.add(entry["id"])
            self._count(entry)
        if not path.read_bytes().endswith(b"\n"):
            self.wrong.append(f"{path.name} ends in the middle of a line")

    def _count(self, entry: Json) -> None:
        if entry["type"] == "message":
            message = entry["message"]
            self.messages[digest(message)] += 1
            if message["role"] == "user":
                self.said[text(message)] += 1
        elif entry.get("customType") == "tau.queued":
            self.queued.add(text(entry["data"]["message"]))


def session_files(folder: Path) -> list[Path]:
    """The newest first."""
    found = []
    for path in folder.rglob("*.jsonl"):
        with suppress(FileNotFoundError):  # one that could not be begun is taken back
            found.append((path.stat().st_mtime, path))
    return [path for _, path in sorted(found, reverse=True)]


def settle_up(ledger: Ledger, folder: Path) -> int:
    """Look for all that is owed in the files; what is found is owed no longer. Returns how much was looked for.

    Only when the agent is at rest, or dead, and no write of it failed.
    """
    accepted, ledger.accepted = ledger.accepted, []
    ended, ledger.ended = ledger.ended, {}
    files = [Kept(path) for path in session_files(folder)]
    for file in files:
        ledger.wrong += file.wrong
        twice = [told for told, count in file.said.items() if count > 1 and not told.startswith("/")]
        ledger.wrong += [f"said {file.said[told]} times in {file.path.name}: {told!r}" for told in twice]
        often = [key for key, count in file.messages.items() if count > 1 and key in ended]
        ledger.wrong += [f"{file.messages[key]} times in {file.path.name}: {ended.get(key)}" for key in often]
    known = set[str]().union(*(file.said.keys() | file.queued for file in files))
    kept = set[bytes]().union(*(file.messages.keys() for file in files))
    ledger.lost += [f"accepted: {told!r}" for told in accepted if told not in known]
    ledger.lost += [f"told: {told}" for key, told in ended.items() if key not in kept]
    return len(accepted) + len(ended)


def slope(points: Sequence[tuple[float, float]]) -> float:
    """How y grows with x, as most pairs of points have it (Theil and Sen): a few that are off do not count."""
    rises = sorted(
        (more - y) / (later - x) for at, (x, y) in enumerate(points) for later, more in points[at + 1 :] if later > x
    )
    return rises[len(rises) // 2] if rises else 0.0

"""A client of the protocol, on any transport: says commands, and keeps and waits for what comes back.

Nothing here sleeps. Every wait is for a record or for the end; it has a deadline, and failing it shows what was said so
far. When a conversation is left, every line must have been a record, and the log must be without a traceback.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self

Json = dict[str, Any]

WITHIN = 30.0  # seconds for what has no figure of its own: a loaded machine is slow, and only a failure takes it all
SHOWN = 60  # records of a transcript


class Conversation:
    """`records` are all that were received: `responses` and `events`. `noise` are lines that are not records."""

    def __init__(self, folder: Path) -> None:
        self.cwd = folder / "work"
        self.settings_file = folder / "agent" / "settings.json"
        self.records: list[Json] = []
        self.responses: list[Json] = []
        self.events: list[Json] = []
        self.noise: list[bytes] = []
        self.bytes_read = 0
        self._by_id: dict[str, Json] = {}
        self._parts: list[bytes] = []
        self._taken = 0
        self._count = 0
        self._ended = False
        self._news = threading.Condition()

    # What each transport does in its own way.

    def write(self, data: bytes, *, within: float = WITHIN) -> None:
        """Exactly these bytes, however long the other side takes to read them."""
        raise NotImplementedError

    def close(self) -> None:
        """Nothing more will be said."""
        raise NotImplementedError

    def listen(self) -> None:
        """Begin to read, after a start with `listening=False`."""
        raise NotImplementedError

    def deafen(self) -> None:
        """Close our end of the output. Only for an agent that is not listened to."""
        raise NotImplementedError

    def exit_code(self, *, within: float = WITHIN) -> int:
        """Wait for the agent to end by itself."""
        raise NotImplementedError

    def end(self) -> None:
        """End the agent, and everything that it started."""
        raise NotImplementedError

    @property
    def code(self) -> int | None:
        """The exit code; None while it runs."""
        raise NotImplementedError

    @property
    def stderr(self) -> str:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.end()
        if kind is None and (self.noise or "Traceback" in self.stderr):
            self.fail("what it said is not what a client can live with")

    def forget(self) -> None:
        """Let go of everything that was heard, for a life that is longer than memory."""
        with self._news:
            for heard in (self.records, self.responses, self.events):
                heard.clear()
            self._by_id.clear()
            self._taken = 0

    # Saying.

    def send(self, kind: str, **fields: Any) -> str:
        """One command; returns the id that its response will have."""
        self._count += 1
        id = f"{kind}-{self._count}"
        self.write(json.dumps({"id": id, "type": kind, **fields}).encode() + b"\n")
        return id

    def ask(self, kind: str, *, within: float = WITHIN, **fields: Any) -> Json:
        return self.response(self.send(kind, **fields), within=within)

    def get(self, kind: str, **fields: Any) -> Any:
        """The data of a response that has to be a success."""
        response = self.ask(kind, **fields)
        assert response["success"], response
        return response.get("data")

    # Hearing.

    def has_response(self, id: str) -> bool:
        return id in self._by_id

    def response(self, id: str, *, within: float = WITHIN) -> Json:
        self._wait(lambda: id in self._by_id, f"response {id!r}", within)
        return self._by_id[id]

    def next_response(self, *, after: int, within: float = WITHIN) -> Json:
        """The response that follows the first `after`: for lines whose id nobody can know."""
        self._wait(lambda: len(self.responses) > after, f"response number {after + 1}", within)
        return self.responses[after]

    def answer_to(self, line: bytes) -> Json:
        """Say one line of any bytes and return its response. Only while no other command is under way."""
        before = len(self.responses)
        self.write(line + b"\n")
        return self.next_response(after=before)

    def until(self, wanted: str | Callable[[Json], bool], *, within: float = WITHIN) -> list[Json]:
        """The events since the last call, up to the one that is wanted."""
        what = wanted if isinstance(wanted, str) else "event"
        matches = (lambda event: event["type"] == wanted) if isinstance(wanted, str) else wanted
        at = self._taken

        def found() -> bool:
            nonlocal at
            while at < len(self.events):
                at += 1
                if matches(self.events[at - 1]):
                    return True
            return False

        self._wait(found, what, within)
        start, self._taken = self._taken, at
        return self.events[start:at]

    def settled(self, *, within: float = WITHIN) -> list[Json]:
        return self.until("agent_settled", within=within)

    def prompt(self, message: str, **fields: Any) -> list[Json]:
        """Accepted and run: the events from here to agent_settled."""
        response = self.ask("prompt", message=message, **fields)
        assert response["success"], response
        return self.settled()

    def heard_all(self, *, within: float = WITHIN) -> None:
        """Until its stdout is closed."""
        self._wait(lambda: self._ended, "end of stdout", within, may_end=True)

    def _wait(self, done: Callable[[], bool], what: str, within: float, *, may_end: bool = False) -> None:
        until = time.monotonic() + within
        with self._news:
            while not done():
                if self.noise:
                    self.fail(f"no record, where {what} was due")
                if self._ended and not may_end:
                    self.fail(f"stdout ended without {what}")
                if not self._news.wait(max(0.0, until - time.monotonic())) and not done():
                    self.fail(f"no {what} within {within} s")

    def _received(self, data: bytes) -> None:
        """Called by the reader, in its thread; empty at the end."""
        if not data:
            with self._news:
                if any(self._parts):
                    self.noise.append(b"".join(self._parts))
                self._ended = True
                self._news.notify_all()
            return
        self.bytes_read += len(data)
        first, *lines = data.split(b"\n")
        self._parts.append(first)
        if lines:
            whole = [b"".join(self._parts), *lines[:-1]]
            self._parts = [lines[-1]]
            self._note(whole)

    def _note(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            record = as_record(line)
            with self._news:
                if record is None:
                    self.noise.append(line)
                else:
                    self._keep(record)
                self._news.notify_all()

    def _keep(self, record: Json) -> None:
        self.records.append(record)
        if record["type"] != "response":
            self.events.append(record)
            return
        self.responses.append(record)
        if isinstance(id := record.get("id"), str):
            self._by_id[id] = record

    # What it is and was.

    @property
    def broken(self) -> bool:
        """Whether it has ended, or said what it must not say."""
        return self.code is not None or bool(self.noise) or "Traceback" in self.stderr

    @property
    def settings(self) -> Any:
        """What settings.json says now; None if there is none."""
        return json.loads(self.settings_file.read_text()) if self.settings_file.exists() else None

    def transcript(self) -> str:
        code = self.code
        told = [_short(record) for record in self.records[-SHOWN:]]
        left_out = len(self.records) - len(told)
        return "\n".join(
            [
                f"--- {'running' if code is None else f'ended with {code}'}, {len(self.records)} records",
                *([f"... {left_out} before these"] if left_out else []),
                *told,
                *(f"--- no record: {line[:2000]!r}" for line in self.noise[:3]),
                f"--- stderr\n{self.stderr[-4000:]}",
            ]
        )

    def fail(self, what: str) -> NoReturn:
        raise AssertionError(f"{what}\n{self.transcript()}")


def as_record(line: bytes) -> Json | None:
    """One line of stdout, strictly: a JSON object with a type, in UTF-8, U+2028 and U+2029 escaped, never NaN."""
    if b"\xe2\x80\xa8" in line or b"\xe2\x80\xa9" in line:
        return None
    try:
        value = json.loads(line.decode(), parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and isinstance(value.get("type"), str) else None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _short(record: Json, width: int = 300) -> str:
    line = json.dumps(record, ensure_ascii=False)
    return line if len(line) <= width else f"{line[:width]}... ({len(line)} characters)"

"""A monkey that does one bad thing each second, to a program in the middle of its work.

Whatever it does, the program itself has to live on: its model server fails, its
tools do not end, its client says nonsense, floods it or does not read, its disk is
full, its extensions crash. What only a kill can tell is left to tests/long/soak.py.
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import subprocess
import threading
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from long.provider import FAULTS, NASTY, Provider
from long.witness import Witness

EVERY = 1.0  # seconds
APART = "SOAK_APART"  # in the environment of a process whose mounts are its own

BAD_LINES = (
    *(b"null", b"5", b'"prompt"', b"[]", b"true", b"{", b"}", b"\x00", b"\xff\xfe", b"\xef\xbb\xbf{}", b"NaN"),
    *(
        b'{"type":5}',
        b'{"type":"prompt"',
        b'{"type":"nothing"}',
        b'{"type":"prompt"}',
        b'{"type":"prompt","message":7}',
    ),
    *(b'{"type":"set_model","provider":"mock"}', b'{"type":"bash","command":null}', b"[" * 100_000),
    b'{"type":"set_thinking_level","level":"most"}',
    b'{"type":"prompt","message":"' + b"x" * 100_000,
)
LONG_LINE = 33 << 20

# What the extension `faulty` does the next time it is called; see soak.FAULTY.
TRICKS = ("raise", "raise", "print", "hang", "loop", "exit", "nonsense", "flood")


class Disk:
    """Where the sessions are: a file system of their own, so that it can be full, if nobody else has to see it."""

    def __init__(self, folder: Path, megabytes: int = 96) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._filler = folder / "filler"
        mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "none", str(folder)]
        apart = APART in os.environ and shutil.which("mount") is not None
        self.small = apart and subprocess.run(mount, capture_output=True).returncode == 0

    def fill(self) -> None:
        with suppress(OSError), self._filler.open("wb", buffering=0) as filler:
            portion = bytes(1 << 20)
            while True:
                if not filler.write(portion[: len(portion)]):
                    portion = portion[: len(portion) // 2]

    def empty(self) -> None:
        self._filler.unlink(missing_ok=True)

    def leave(self) -> None:
        self.empty()
        if self.small:
            subprocess.run(["umount", "-l", str(self.folder)], capture_output=True)


class Monkey(threading.Thread):
    """Does something `every` so many seconds, from when `begin` is called until `rest` is."""

    def __init__(
        self, provider: Provider, disk: Disk, trick: Path, dice: random.Random, *, every: float = EVERY
    ) -> None:
        super().__init__(daemon=True)
        self._every = every
        self.did = Counter[str]()
        self.last: deque[str] = deque(maxlen=8)
        self.agent: Witness | None = None
        self._provider = provider
        self._disk = disk
        self._trick = trick
        self._dice = dice
        self._may = threading.Event()
        self._rests = threading.Event()
        self._rests.set()
        self._over = False
        self._hurry = threading.Event()
        self.trouble: BaseException | None = None
        # Each class of faults is as likely as the next.
        self._classes: dict[str, Callable[[Witness], str]] = {
            "provider": self._provider_fails,
            "tool": self._tool_misbehaves,
            "input": self._client_talks_nonsense,
            "reader": self._client_stops_reading,
            "extension": self._extension_misbehaves,
            "file size": self._files_may_not_grow,
            "descriptors": self._no_descriptors_left,
        }
        if disk.small:
            self._classes["disk"] = self._disk_is_full

    def begin(self, agent: Witness) -> None:
        self.agent = agent
        self._hurry.clear()
        self._may.set()

    def rest(self) -> None:
        """No more of it, and all that it did is put right."""
        self._may.clear()
        self._hurry.set()
        self._rests.wait()
        self._trick.unlink(missing_ok=True)
        self._provider.calm()
        trouble, self.trouble = self.trouble, None
        if trouble is not None:
            raise trouble

    def stop(self) -> None:
        self._over = True
        self._hurry.set()
        self._may.set()
        self.join()

    def run(self) -> None:
        while True:
            self._may.wait()
            if self._over:
                return
            self._rests.clear()
            try:
                if self._may.is_set() and self.agent is not None:
                    kind = self._dice.choice(sorted(self._classes))
                    self.did[kind] += 1
                    what = f"{kind}: {self._classes[kind](self.agent)}"
                    self.did[what] += 1
                    self.last.append(what)
                    self._wait(self._every * 2 * self._dice.random())
            except BaseException as error:
                self.trouble = error
                self._may.clear()
            finally:
                self._rests.set()

    def _wait(self, seconds: float) -> None:
        self._hurry.wait(seconds)

    # The things it does.

    def _provider_fails(self, agent: Witness) -> str:
        self._provider.fault(kind := self._dice.choice(sorted(FAULTS)))
        return kind

    def _tool_misbehaves(self, agent: Witness) -> str:
        self._provider.tool(kind := self._dice.choice(sorted(NASTY)))
        return kind

    def _client_talks_nonsense(self, agent: Witness) -> str:
        kind = self._dice.choice(("bad lines", "flood", "halves", "blank lines", "long line"))
        if kind == "bad lines":
            for line in self._dice.sample(BAD_LINES, 5):
                agent.say_line(line)
        elif kind == "flood":
            for _ in range(300):
                agent.say(self._dice.choice(("get_state", "get_last_assistant_text", "get_session_stats")))
        elif kind == "halves":
            agent.say_line(b'{"type":"get_stat\xc3\xa9"}', 0.1, 0.1)
        elif kind == "blank lines":
            with agent.saying:
                agent.write(b"\n \r\n\t\n" * 100)
        elif self._dice.random() < 0.3:
            agent.say_line(b'{"type":"prompt","message":"' + b"x" * LONG_LINE + b'"}')
        return kind

    def _client_stops_reading(self, agent: Witness) -> str:
        agent.stall(3 * self._dice.random() ** 2)
        return "stalls"

    def _extension_misbehaves(self, agent: Witness) -> str:
        trick = self._dice.choice(TRICKS)
        self._trick.write_text(trick)
        return trick

    def _disk_is_full(self, agent: Witness) -> str:
        self._disk.fill()
        try:
            self._wait(1.5 * self._dice.random())
        finally:
            self._disk.empty()
        return "full"

    def _files_may_not_grow(self, agent: Witness) -> str:
        """As with a quota: no file of the agent can be written beyond its first bytes."""
        with lowered(agent.pid, resource.RLIMIT_FSIZE, 64):
            self._wait(self._dice.random())
        return "limited"

    def _no_descriptors_left(self, agent: Witness) -> str:
        """As in a program that has used them up: nothing more can be opened."""
        with agent.loading, lowered(agent.pid, resource.RLIMIT_NOFILE, len(os.listdir(f"/proc/{agent.pid}/fd"))):
            self._wait(self._dice.random() / 2)
        return "used up"


class lowered:
    """A limit of another process, for a while."""

    def __init__(self, pid: int, limit: int, value: int) -> None:
        self._pid, self._limit, self._value = pid, limit, value

    def __enter__(self) -> None:
        self._before = resource.prlimit(self._pid, self._limit)
        resource.prlimit(self._pid, self._limit, (self._value, self._before[1]))

    def __exit__(self, *error: object) -> None:
        with suppress(ProcessLookupError):
            resource.prlimit(self._pid, self._limit, self._before)

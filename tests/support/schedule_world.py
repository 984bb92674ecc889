"""The surroundings of a session in a scheduled loop: a machine without processes, threads without threads, fixed ids.

The session is real and is made by the real factory; its files are real too. Only what would make a schedule depend on
something else than its seed is replaced, while `scheduled` is active: threads, processes, the clock, random bytes, and
fsync, which is left out because it takes most of the time.
"""

from __future__ import annotations

import asyncio
import copy
import gc
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from errno import ENOSPC
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from support.schedule_cases import BASE, SETTINGS, Json
from support.schedule_loop import ScheduleLoop
from tau.concurrency import threads
from tau.llm.scripted import read_script
from tau.records.base import encode, replace
from tau.runtime import clock, resources
from tau.runtime.app import factory
from tau.runtime.app.factory import SessionFactory, load
from tau.runtime.app.options import SessionOptions, SessionTarget
from tau.runtime.machine.local import LocalMachine
from tau.store.journal import Disk
from tau.tools import Exit

EPOCH_S = 1_800_000_000
MODEL = {"reasoning": True, "contextWindow": 100_000, "input": ["text"]}
MODELS_FILE: Json = {
    "providers": {
        "lab": {
            "baseUrl": "http://127.0.0.1:9",
            "apiKey": "none",
            "api": "scripted",
            "models": [{"id": name, **MODEL} for name in ("large", "other", "third")],
        }
    }
}
EXTENSION = "fuzzed.py"


class VirtualMachine(LocalMachine):
    """Commands are `work SECONDS TEXT`: they print the text and end after that time. Nothing is started."""

    async def run(
        self,
        command: str | Sequence[str],
        *,
        cwd: Any,
        on_output: Callable[[Any, bytes], None],
        timeout: float | None = None,
        separate_streams: bool = False,
    ) -> Exit:
        words = command.split() if isinstance(command, str) else [*command]
        seconds, text = float(words[1]), words[2]
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ScheduleLoop)
        try:
            await asyncio.sleep(seconds / 2)
            on_output("stdout", text.encode() + b"\n")
            await asyncio.sleep(seconds / 2)
        except asyncio.CancelledError:
            await asyncio.sleep(loop.random.choice((0.0, 0.01, 0.3)))  # the processes are killed
            raise
        return Exit(0)


class _InlineThread:
    """In the place of threading.Thread: the work is done in the loop, at a moment that the seed chooses."""

    def __init__(self, target: Callable[[], None], name: str = "", daemon: bool = False) -> None:
        self._target = target

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ScheduleLoop)
        loop.start_thread(self._target)


@contextmanager
def scheduled(loop: ScheduleLoop, case: Json, workshop: Workshop) -> Iterator[None]:
    """While this is active, what runs in the loop depends on the case alone."""
    ids = Random(case["seed"])
    start = datetime.fromtimestamp(EPOCH_S, UTC).timestamp()
    times = SimpleNamespace(time_ns=lambda: int((start + loop.time()) * 1e9))
    dates = SimpleNamespace(now=lambda zone: datetime.fromtimestamp(start + loop.time(), zone))
    with ExitStack() as patches:
        for place, name, value in (
            (os, "urandom", ids.randbytes),
            (clock, "time", times),
            (clock, "datetime", dates),
            (threads, "threading", SimpleNamespace(Thread=_InlineThread)),
            (factory, "LocalMachine", VirtualMachine),
            (resources, "_find", workshop.look),
            (Disk, "write", _writer(loop, *case["full"])),
            (Disk, "sync", lambda self, handle: None),
            (Disk, "sync_folder", lambda self, path: None),
        ):
            patches.enter_context(patch.object(place, name, value))
        gc.disable()
        try:
            yield
        finally:
            gc.enable()


def _writer(loop: ScheduleLoop, start: float = 0.0, seconds: float = 0.0) -> Callable[[Disk, int, bytes], int]:
    """As Disk.write, but the disk is full for some time."""

    def write(self: Disk, handle: int, data: bytes) -> int:
        if start <= loop.time() < start + seconds:
            raise OSError(ENOSPC, os.strerror(ENOSPC))
        return os.write(handle, data)

    return write


class Workshop:
    """The folders of the schedules of one process, and the factories of their sessions, which are made once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sessions = folder / "sessions"
        self.agent = folder / "agent"
        for path in (self.agent, folder / "work"):
            path.mkdir(parents=True, exist_ok=True)
        (self.agent / "models.json").write_bytes(encode(MODELS_FILE))
        (folder / EXTENSION).write_text("def setup(pi):\n    pass\n")
        self._factories: dict[tuple[int, bool], SessionFactory] = {}
        self._found: dict[Any, Any] = {}  # resources, which are the same in all schedules

    def factory(self, case: Json) -> SessionFactory:
        """A factory with the script and the settings of a case. Its sessions share nothing that they change."""
        has_process = case["extensions"] in ("process", "both")
        key = case["settings"], has_process
        self.clean()
        if key not in self._factories:
            options = SessionOptions(
                provider="lab",
                model="large",
                script=encode({"answers": [{"text": "ok"}]}),
                session=SessionTarget(folder=str(self.sessions)),
                settings={**BASE, **SETTINGS[case["settings"]]},
                extensions=[str(self.folder / EXTENSION)] if has_process else (),
                only_these_extensions=True,
            )
            environment = {"HOME": str(self.folder), "PATH": "/usr/bin"}
            self._factories[key] = load(self.agent, options, environment, str(self.folder / "work"))
        known = self._factories[key]
        read_script.cache_clear()
        return replace(
            known,
            config=copy.copy(known.config),
            models=copy.copy(known.models),
            script=encode({"answers": case["answers"]}),
        )

    def look(self, sought: Any, offers: Any, *, real: Any = resources._find) -> Any:
        """As resources._find, which searches many folders, but only once."""
        key = repr(sought), offers
        if key not in self._found:
            self._found[key] = real(sought, offers)
        return self._found[key]

    def clean(self) -> None:
        shutil.rmtree(self.sessions, ignore_errors=True)
        (self.agent / "settings.json").write_bytes(b"{}")

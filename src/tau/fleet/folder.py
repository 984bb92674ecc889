"""The folder of a fleet: what was asked, the ledger, the results, and one folder for each attempt."""

from __future__ import annotations

import errno
import fcntl
import os
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tau.errors import UsageError
from tau.records.base import BadRecord, convert, encode, parse
from tau.records.fleet import Result, Task
from tau.store.files import replace_file
from tau.store.ledger import Ledger, LedgerError
from tau.store.ledger_view import LedgerView


class FleetFolder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.tasks = path / "tasks"
        self.results = path / "results.jsonl"
        self.about = path / "fleet.json"
        self.stop_requests = path / "stop"
        self.task_copies = path / "tasks.jsonl"  # every task that was added, for `tau fleet repair`

    def create(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.tasks.mkdir(exist_ok=True, mode=0o700)

    def attempt(self, task: str, number: int) -> Path:
        return self.tasks / task / str(number)

    def ledger(self, *, read_only: bool = False) -> Ledger:
        """Raises UsageError if there is none, or it cannot be used."""
        path = self.path / "ledger.db"
        if read_only and not os.path.exists(path):
            raise UsageError(f"{self.path} is not the folder of a fleet: it has no ledger.db.")
        try:
            return Ledger(path, read_only=read_only)
        except LedgerError as error:
            raise UsageError(str(error)) from None

    @contextmanager
    def view(self) -> Iterator[LedgerView]:
        """The ledger for those who only look. Raises UsageError if there is none, or it cannot be read."""
        path = self.path / "ledger.db"
        if not os.path.exists(path):
            raise UsageError(f"{self.path} is not the folder of a fleet: it has no ledger.db.")
        try:
            view = LedgerView(path)
        except LedgerError as error:
            raise UsageError(str(error)) from None
        try:
            yield view
        finally:
            view.close()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One coordinator for a folder. Raises UsageError with its process id if there is another."""
        handle = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                _lock(handle)
            except OSError:
                pid = os.pread(handle, 32, 0).decode(errors="replace").strip()
                raise UsageError(f"Process {pid} works on {self.path} already.") from None
            os.ftruncate(handle, 0)
            os.pwrite(handle, str(os.getpid()).encode(), 0)
            yield
        finally:
            os.close(handle)

    def coordinator(self) -> int | None:
        """The process that works on this folder, if there is one."""
        try:
            handle = os.open(self.path / "lock", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            pid = os.pread(handle, 32, 0).decode(errors="replace").strip()
            return int(pid) if pid.isdigit() else 0
        finally:
            os.close(handle)
        return None

    def id(self) -> str:
        """Identifies the fleet on all its machines, once it is written to `fleet.json`."""
        with suppress(OSError, BadRecord, TypeError, KeyError):
            return str(parse(self.about.read_bytes())["id"])
        return uuid.uuid4().hex[:16]

    def write_about(self, text: str) -> None:
        replace_file(self.about, text.encode(), 0o600)

    def started(self) -> float:
        """When the last run of the coordinator began; 0 if that is not known."""
        with suppress(OSError, BadRecord, TypeError, KeyError):
            return float(parse(self.about.read_bytes())["started"])
        return 0.0

    def stored_result(self, task: str, number: int) -> Result | None:
        """The result that a worker has written for an attempt."""
        return read_result(self.attempt(task, number) / "result.json")

    def copy_tasks(self, tasks: Iterable[Task]) -> None:
        """Keep the lines of tasks beside the ledger, so that it can be made again from them."""
        handle = os.open(self.task_copies, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with open(handle, "ab") as file:
            file.write(b"\n" if file.tell() else b"")  # the line before may be torn
            file.writelines(encode(task) + b"\n" for task in tasks)
            file.flush()
            os.fsync(file.fileno())

    def append(self, lines: list[bytes]) -> None:
        handle = os.open(self.results, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            data = b"".join(line + b"\n" for line in lines)
            if os.write(handle, data) < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.results))
        finally:
            os.close(handle)

    def rewrite_results(self, lines: Iterator[bytes]) -> None:
        """Write results.jsonl again from the ledger."""
        replace_file(self.results, (line + b"\n" for line in lines), 0o600)


def read_result(path: Path) -> Result | None:
    with suppress(OSError, BadRecord):
        found: Result = convert(parse(path.read_bytes()), Result)
        return found
    return None


def _lock(handle: int) -> None:
    """Raises OSError if a coordinator has the lock. `FleetFolder.coordinator` has it only for a moment."""
    for pause in (0.001, 0.01, 0.05, 0.1):
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(pause)
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)

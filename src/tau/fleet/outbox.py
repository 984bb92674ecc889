"""What the coordinator has decided: stored in one transaction, and only then sent to workers and shown.

While the disk is full everything waits here, in order: nothing is sent that is not in the ledger, and nothing is lost.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from tau.fleet.folder import FleetFolder
from tau.records.base import encode
from tau.records.fleet import Result, ToWorker
from tau.store.ledger import Ledger

Write = Callable[[Ledger], None]
Send = Callable[[str, ToWorker], Awaitable[None]]


class Outbox:
    """`send` carries a line to a worker; `on_result` is called with every final result that is stored."""

    def __init__(self, folder: FleetFolder, ledger: Ledger, send: Send, on_result: Callable[[Result], None]) -> None:
        self._folder = folder
        self._ledger = ledger
        self._send = send
        self._on_result = on_result
        self._writes: list[Write] = []
        self._results: list[Result] = []
        self._lines: list[tuple[str, ToWorker]] = []
        self._lacks_lines = False  # results.jsonl could not be written

    @property
    def is_empty(self) -> bool:
        return not (self._writes or self._results or self._lines or self._lacks_lines)

    def write(self, write: Write) -> None:
        self._writes.append(write)

    def finish(self, result: Result) -> None:
        self._results.append(result)

    def send(self, worker: str, line: ToWorker) -> None:
        """A line that leaves after everything before it is stored."""
        self._lines.append((worker, line))

    async def flush(self) -> None:
        """Raises LedgerFull or OSError if something could not be written; then call it again later."""
        stored = self._store()
        if stored or self._lacks_lines:
            self._append(stored)
        lines, self._lines = self._lines, []
        for worker, line in lines:
            await self._send(worker, line)
        for result in stored:
            self._on_result(result)

    def _store(self) -> list[Result]:
        stored: list[Result] = []
        if self._writes or self._results:
            with self._ledger.transaction():
                for write in self._writes:
                    write(self._ledger)
                stored = self._ledger.finish(self._results, time.time())
            self._writes, self._results = [], []
        return stored

    def _append(self, stored: list[Result]) -> None:
        """results.jsonl follows the ledger: after a failure it is written again as a whole."""
        try:
            if self._lacks_lines:
                self._folder.rewrite_results(self._ledger.results())
            else:
                self._folder.append([encode(result) for result in stored])
        except OSError:
            self._lacks_lines = True
        else:
            self._lacks_lines = False

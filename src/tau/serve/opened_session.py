"""Opening: a session that is being opened, for one client or several that ask for it at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tau.serve.live_session import LiveSession


class Opening:
    """`work` opens the session and tells whether it is new. `hold(live, clients)` keeps it open, or lets go of it.

    Between the end of the work and the moment when a client goes on, the host may do other things. The session must
    not be released then, although it has no clients yet.
    """

    def __init__(
        self, work: Coroutine[Any, Any, tuple[LiveSession, bool]], hold: Callable[[LiveSession, int], None]
    ) -> None:
        self.id = ""
        self.created = False
        self._hold = hold
        self._waiting = 0
        self._live: LiveSession | None = None  # until all who waited have it: a key must not keep a closed session
        self.task = asyncio.create_task(self._run(work))
        self.task.add_done_callback(_retrieve)

    async def wait(self) -> LiveSession | None:
        """The session; None if it was opened, and taken, before. Raises what the work raised."""
        self._waiting += 1
        if self._live is not None:
            self._hold(self._live, 1)
        try:
            await asyncio.shield(self.task)
            return self._live
        finally:
            self._waiting -= 1
            if (live := self._live) is not None:
                if not self._waiting:
                    self._live = None
                self._hold(live, -1)

    async def _run(self, work: Coroutine[Any, Any, tuple[LiveSession, bool]]) -> None:
        live, self.created = await work
        self.id = live.id
        if self._waiting:
            self._live = live
            self._hold(live, self._waiting)


def _retrieve(task: asyncio.Task[None]) -> None:
    """All who waited may have left: then its failure is of no interest."""
    if not task.cancelled():
        task.exception()

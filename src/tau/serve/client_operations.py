"""The operations of a session as one client of the host may use them: it can narrow what it got, never widen it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tau.records.base import UNSET
from tau.records.replies import BashResult, Disposition
from tau.runtime.session.operations import Operations
from tau.serve.keys import current_key
from tau.wire.dialect import Dialect

if TYPE_CHECKING:
    from tau.serve.live_session import LiveSession


class ClientOperations(Operations):
    def __init__(self, live: LiveSession, dialect: Dialect) -> None:
        super().__init__(live.handle._session)
        self._state = live.handle.state
        self._live = live
        self._dialect = dialect

    @property
    def dialect(self) -> str | None:
        """That of the client, not of the session."""
        return self._dialect.name

    async def submit(self, *arguments: Any, **named: Any) -> Disposition:
        return await super().submit(*arguments, **named, key=current_key.get())

    async def bash(self, command: str, *, exclude: bool = False, id: Any = UNSET) -> BashResult:
        token = object()
        self._live.bash_began(token, command, id)
        try:
            return await super().bash(command, exclude=exclude, id=id)
        finally:
            self._live.bash_ended(token)

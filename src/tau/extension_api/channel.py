"""The channel between the API of an extension and tau."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, Protocol

from tau.errors import ExtensionFailure

TargetFunction = Callable[[dict[str, Any], "CallHandle"], Awaitable[Any]]


class CallHandle(Protocol):
    """A call in progress."""

    cancelled: bool  # tau no longer waits for it

    def update(self, value: Any) -> None:
        """Report progress."""

    async def put(self, value: Any) -> None:
        """Send a part of the answer; returns when there is room for more."""


class Channel(Protocol):
    """The channel to tau: a socket from a child process, plain calls in tau's own process."""

    @property
    def facts(self) -> dict[str, Any]:
        """The values listed in FACTS in messages.py, as of the last message from tau."""

    def register(self, kind: str, name: str, spec: dict[str, Any], run: TargetFunction | None = None) -> int:
        """Register something; returns the target number, by which it can be unregistered."""

    def unregister(self, target: int) -> None: ...

    def tell(self, name: str, params: dict[str, Any]) -> None:
        """Send an action that has no answer."""

    async def act(self, name: str, params: dict[str, Any]) -> Any:
        """Send an action and return its answer."""


OVER = (
    "This pi or ctx belongs to a session that has been left: extensions start anew with every session. Use those that "
    "setup and its functions get in the new one"
)
SWITCHES = ("new_session", "fork", "switch_session")
# The run of `setup` that the code of a command belongs to after the command has opened another session.
_followed: ContextVar[SetupChannel | None] = ContextVar("followed", default=None)


class SetupChannel:
    """The channel of one run of `setup`. It is over when `setup` runs again, for another session.

    A command that opens a session itself goes on in it, with the channel of `next`.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.next: SetupChannel | None = None

    def _usable(self) -> Channel:
        current = self if self.next is None else _followed.get()
        if current is None or current.next is not None:
            raise ExtensionFailure(OVER)
        return current._channel

    @property
    def facts(self) -> dict[str, Any]:
        return self._channel.facts

    def register(self, kind: str, name: str, spec: dict[str, Any], run: TargetFunction | None = None) -> int:
        return self._usable().register(kind, name, spec, run)

    def unregister(self, target: int) -> None:
        self._channel.unregister(target)

    def tell(self, name: str, params: dict[str, Any]) -> None:
        self._usable().tell(name, params)

    async def act(self, name: str, params: dict[str, Any]) -> Any:
        answer = await self._usable().act(name, params)
        if name in SWITCHES and self.next is not None:
            current = self.next
            while current.next is not None:
                current = current.next
            _followed.set(current)
        return answer


def without_none(**params: Any) -> dict[str, Any]:
    """Return parameters for the wire, without those that are None."""
    return {name: value for name, value in params.items() if value is not None}

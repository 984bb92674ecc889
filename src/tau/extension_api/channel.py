"""The channel between the API of an extension and tau."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

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


def without_none(**params: Any) -> dict[str, Any]:
    """Return parameters for the wire, without those that are None."""
    return {name: value for name, value in params.items() if value is not None}

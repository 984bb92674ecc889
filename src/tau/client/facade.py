"""Synchronous façades: coroutine methods as blocking methods with the same signatures for readers and type checkers.

A façade has `_peer`, the object with the coroutine methods, and `_wait`, which runs a coroutine in the peer's event
loop. `steer = blocking(Calls.steer)` in its class body is then the whole method.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


def waits(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Any, P], T]:
    """Wrap a coroutine method of the peer as a blocking method."""

    @wraps(method)
    def call(facade: Any, /, *args: P.args, **named: P.kwargs) -> T:
        result: T = facade._wait(method(facade._peer, *args, **named))
        return result

    return call


def reads(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], T]:
    """Wrap a plain method of the peer, to be called in the peer's event loop."""

    @wraps(method)
    def call(facade: Any, /, *args: P.args, **named: P.kwargs) -> T:
        async def call_in_loop() -> T:
            return method(facade._peer, *args, **named)

        result: T = facade._wait(call_in_loop())
        return result

    return call


class value(Generic[T_co]):
    """A property of the peer, read in the peer's event loop: `name = peer_property[str | None](Agent.name)`."""

    def __init__(self, peer: Any) -> None:
        self._read: Callable[[Any], T_co] = peer.fget
        self.__doc__ = peer.__doc__

    def __get__(self, facade: Any, owner: type[Any]) -> T_co:
        async def read_in_loop() -> T_co:
            return self._read(facade._peer)

        if facade is None:  # accessed on the class, by documentation tools
            return self  # type: ignore[return-value]
        result: T_co = facade._wait(read_in_loop())
        return result

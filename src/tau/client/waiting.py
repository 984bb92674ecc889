"""Synchronous façades: coroutine methods as methods that block, with the same parameters for readers and type checkers.

A façade has `_peer`, the object with the coroutine methods, and `_wait`, which runs a coroutine in the peer's event
loop. `steer = waits(Calls.steer)` in its class body is then the whole method.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


def waits(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Any, P], T]:
    """A coroutine method of the peer, as a method that blocks until it is done."""

    @wraps(method)
    def call(facade: Any, /, *args: P.args, **named: P.kwargs) -> T:
        done: T = facade._wait(method(facade._peer, *args, **named))
        return done

    return call


def reads(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], T]:
    """A plain method of the peer, called in the peer's event loop."""

    @wraps(method)
    def call(facade: Any, /, *args: P.args, **named: P.kwargs) -> T:
        async def there() -> T:
            return method(facade._peer, *args, **named)

        done: T = facade._wait(there())
        return done

    return call


class value(Generic[T_co]):
    """A property of the peer, read in the peer's event loop. `name = value[str | None](Agent.name)`."""

    def __init__(self, peer: Any) -> None:
        self._read: Callable[[Any], T_co] = peer.fget
        self.__doc__ = peer.__doc__

    def __get__(self, facade: Any, owner: type[Any]) -> T_co:
        async def there() -> T_co:
            return self._read(facade._peer)

        if facade is None:  # asked of the class, by documentation tools
            return self  # type: ignore[return-value]
        found: T_co = facade._wait(there())
        return found

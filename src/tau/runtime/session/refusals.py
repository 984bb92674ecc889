"""Subclasses of Operations that refuse what they do not name, instead of acting on the session behind them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from inspect import iscoroutinefunction
from typing import Any, NoReturn, TypeVar

from tau.errors import CommandError

Kind = TypeVar("Kind", bound=type)


def refuses_others(error: str, inherited: Collection[str]) -> Callable[[Kind], Kind]:
    """For a subclass of Operations that must not act on the session behind it: what it inherits is refused.

    Refused is each public member that the class neither defines nor names in `inherited`, so that an operation that is
    added to a base class does nothing here until somebody decides. In `error`, {name} is the member in words.
    """

    def close(kind: Kind) -> Kind:
        for name in dir(kind):
            if not name.startswith("_") and name not in vars(kind) and name not in inherited:
                words = name.replace("_", " ").capitalize()
                setattr(kind, name, _refusal(getattr(kind, name), error.format(name=words)))
        return kind

    return close


def _refusal(member: Any, error: str) -> Any:
    """What replaces a property, a coroutine function or a function, and raises CommandError when it is used."""

    def refuse(*arguments: Any, **named: Any) -> NoReturn:
        raise CommandError(error)

    async def refuse_later(*arguments: Any, **named: Any) -> NoReturn:
        raise CommandError(error)

    if isinstance(member, property):
        return property(refuse)
    return refuse_later if iscoroutinefunction(member) else refuse

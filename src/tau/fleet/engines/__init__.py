"""Engines: they start workers somewhere, carry lines, and say when a worker is lost. They remember nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from importlib import import_module
from typing import Any, Protocol

from tau.records.base import Value
from tau.records.fleet import FromWorker, ToWorker


class Lost(Value):
    """A worker is gone."""

    reason: str


Heard = tuple[str, FromWorker | Lost]


class Engine(Protocol):
    async def start(self) -> None: ...

    async def send(self, worker: str, line: ToWorker) -> None:
        """Does nothing if the worker is gone: its loss is reported."""

    def heard(self) -> AsyncIterator[Heard]:
        """Lines of workers, and losses; ends when no worker will ever come again."""

    async def drop(self, worker: str) -> None:
        """Do without a worker that cannot be used: it is ended and not started again."""

    async def close(self) -> None: ...


# By the word before ":" in --engine.
ENGINES = {
    "local": "tau.fleet.engines.pipes",
    "command": "tau.fleet.engines.pipes",
    "dask": "tau.fleet.engines.dask",
}


def engine_class(name: str) -> Any:
    """The class of an engine. Raises KeyError."""
    return import_module(ENGINES[name]).ENGINE

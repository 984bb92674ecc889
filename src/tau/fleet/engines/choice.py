"""Which engine carries a fleet: by the word in `--engine`, and what it needs to start workers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tau.core.text.install_hints import install_hint
from tau.errors import UsageError
from tau.fleet.engines import ENGINES, Engine, engine_class
from tau.fleet.engines.pipes import PipeEngine, local_command
from tau.records.base import Value

TIMES = re.compile(r"^(?P<command>.*\S)\s+\u00d7(?P<times>\d+)$", re.DOTALL)
DASK = ("distributed", "cryptography")  # modules that the engine needs


class Place(Value):
    """Where workers keep their files, and how many there are. `memory`: bytes after which a worker is replaced."""

    root: Path
    logs: Path
    per_worker: int = 50
    count: int = 1
    memory: int = 2 * 1024**3
    environment: Mapping[str, str] | None = None  # of processes on this machine; None for that of this process
    orphans: bool = False  # workers go on for a while when the coordinator is gone


def make_engine(name: str, commands: Sequence[str], place: Place) -> Engine:
    """`name` is `local`, `command`, or an engine with its address: `dask:tls://host:8786`. Raises UsageError."""
    kind, _, address = name.partition(":")
    if kind not in ENGINES:
        raise UsageError(f"--engine {name}: choose {', '.join(ENGINES)}.")
    if kind == "local":
        command = local_command(place.root, place.per_worker, place.memory)
        return PipeEngine([command] * place.count, place.logs, place.environment)
    if kind == "command":
        return PipeEngine(worker_commands(commands, place.root), place.logs, place.environment)
    check_dask()
    engine: Engine = engine_class(kind)(address, place)
    return engine


def check_dask() -> None:
    """Raises UsageError if a module of the engine `dask` is missing."""
    for module in DASK:
        if find_spec(module) is None:
            raise UsageError(f"--engine dask needs {module}: {install_hint('fleet')}.")


def worker_commands(commands: Sequence[str], root: Path) -> list[str]:
    """The command line of each worker: `{n}` is its number, `{work}` the folder.

    A multiplication sign and a number at the end repeat a command.
    """
    if not commands:
        raise UsageError("--engine command needs --worker COMMAND.")
    repeated: list[str] = []
    for command in commands:
        found = TIMES.match(command)
        repeated += [found["command"]] * int(found["times"]) if found else [command]
    values: dict[str, Any] = {"{work}": root}
    for number, command in enumerate(repeated, 1):
        for place, value in (*values.items(), ("{n}", number)):
            command = command.replace(place, str(value))
        repeated[number - 1] = command
    return repeated

"""Fleets: thousands of agent tasks, here or on many machines, that survive the death of anything.

Importing this package loads nothing else.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tau.fleet.fleet import Fleet as Fleet
    from tau.fleet.fleet import FleetConfig as FleetConfig
    from tau.fleet.fleet import run as run
    from tau.records.fleet import Result as Result
    from tau.records.fleet import Task as Task

# Public names and where they are loaded from on first use.
NAMES = {
    "Fleet": "tau.fleet.fleet:Fleet",
    "FleetConfig": "tau.fleet.fleet:FleetConfig",
    "Result": "tau.records.fleet:Result",
    "Task": "tau.records.fleet:Task",
    "run": "tau.fleet.fleet:run",
}


def __getattr__(name: str) -> object:
    if name not in NAMES:
        raise AttributeError(f"module 'tau.fleet' has no attribute {name!r}")
    from importlib import import_module

    module, _, attribute = NAMES[name].partition(":")
    value: object = getattr(import_module(module), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *NAMES})

"""The versions of the protocol that tau speaks, the newest first.

    dialect = dialects.find("2026-03")      a name, or a release of pi; UsageError for what is neither
    dialect.event(event)                    -> list[bytes]: lines without newlines, none if it is left out
    dialect.for_json().event(event)         the same in JSON mode
    Outbox(handle, gone, dialect.for_json())    an outbox that speaks it
    dialect.session_line                    whether JSON mode begins with the session's header
    update.wire(snapshots=dialect.snapshots, extras=dialect.extras)     the pieces of an answer
    dialect.pi                              what `pi --version` prints
    dialects.DEFAULT, dialects.NAMES        the one that is spoken unless another is chosen; all their names

What a dialect is made of stands in wire/dialect.py. Each is written as the
difference to a neighbour.
"""

from __future__ import annotations

from importlib import import_module

from tau.errors import UsageError
from tau.wire.dialect import Dialect
from tau.wire.dialects.default import DEFAULT

__all__ = ["DEFAULT", "NAMES", "Dialect", "everyone", "find"]

# By name, loaded when it is chosen; and the release of pi from which on it is the right one.
MODULES: dict[str, tuple[str, tuple[int, ...]]] = {
    "1.5": ("tau.wire.dialects.pi_1_5", (0, 84)),
    "0.73": ("tau.wire.dialects.pi_0_73", (0, 59)),
    "default": ("tau.wire.dialects.default", (0, 80, 4)),  # these clients wait for agent_settled, and want snapshots
    "2026-03": ("tau.wire.dialects.pi_2026_03", (0, 52)),
    "2026-02": ("tau.wire.dialects.pi_2026_02", (0, 51)),
    "2026-01": ("tau.wire.dialects.pi_2026_01", (0, 16)),
    "2025-12": ("tau.wire.dialects.pi_2025_12", (0,)),
}
NAMES = tuple(MODULES)


def find(name: str | None) -> Dialect:
    """By its name, or by the release of pi that a client was made for."""
    if not name:
        return DEFAULT
    if name in MODULES:
        return _loaded(MODULES[name][0])
    release = _release(name)
    if release is not None:
        return _loaded(max((since, module) for module, since in MODULES.values() if release >= since)[1])
    raise UsageError(f"Unknown dialect {name!r}. There are {', '.join(NAMES)}, and releases of pi such as 0.55.4.")


def everyone() -> list[Dialect]:
    """All of them, the newest first."""
    return [_loaded(module) for module, _ in MODULES.values()]


def _loaded(module: str) -> Dialect:
    found: Dialect = import_module(module).DIALECT
    return found


def _release(name: str) -> tuple[int, ...] | None:
    parts = name.split(".")
    return (
        tuple(map(int, parts)) if len(parts) > 1 and all(part.isascii() and part.isdigit() for part in parts) else None
    )

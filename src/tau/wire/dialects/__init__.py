"""The protocol versions that tau supports, the newest first.

    dialect = dialects.find("2026-03")      by name, or by release of pi; raises UsageError for anything else
    dialect.event_lines(event)              -> list[bytes]: lines without newlines, none if it is omitted
    dialect.for_json().event_lines(event)   the same in JSON mode
    Outbox(handle, gone, dialect.for_json())    an outbox with this dialect
    dialect.session_line                    True if JSON mode starts with the session header
    update.wire_json(snapshots=dialect.snapshots, extras=dialect.extras)     streamed deltas
    dialect.pi                              the output of `pi --version`
    dialects.DEFAULT, dialects.NAMES        the default dialect; the names of all dialects

wire/dialect.py describes the tables of a dialect. Each dialect is written as the difference to a similar one.
"""

from __future__ import annotations

from importlib import import_module

from tau.errors import UsageError
from tau.wire.dialect import Dialect
from tau.wire.dialects.default import DEFAULT

__all__ = ["DEFAULT", "NAMES", "Dialect", "everyone", "find"]

# Module by name, loaded when the dialect is chosen; and the first release of pi that uses it.
MODULES: dict[str, tuple[str, tuple[int, ...]]] = {
    "1.5": ("tau.wire.dialects.pi_1_5", (0, 84)),
    "0.73": ("tau.wire.dialects.pi_0_73", (0, 59)),
    "default": ("tau.wire.dialects.default", (0, 80, 4)),  # these clients wait for agent_settled and expect snapshots
    "2026-03": ("tau.wire.dialects.pi_2026_03", (0, 52)),
    "2026-02": ("tau.wire.dialects.pi_2026_02", (0, 51)),
    "2026-01": ("tau.wire.dialects.pi_2026_01", (0, 16)),
    "2025-12": ("tau.wire.dialects.pi_2025_12", (0,)),
}
NAMES = tuple(MODULES)


def find(name: str | None) -> Dialect:
    """Find a dialect by its name, or by the release of pi that a client was written for."""
    if not name:
        return DEFAULT
    if name in MODULES:
        return _load(MODULES[name][0])
    release = _release(name)
    if release is not None:
        return _load(max((since, module) for module, since in MODULES.values() if release >= since)[1])
    raise UsageError(f"Unknown dialect {name!r}. There are {', '.join(NAMES)}, and releases of pi such as 0.55.4.")


def everyone() -> list[Dialect]:
    """All dialects, the newest first."""
    return [_load(module) for module, _ in MODULES.values()]


def _load(module: str) -> Dialect:
    found: Dialect = import_module(module).DIALECT
    return found


def _release(name: str) -> tuple[int, ...] | None:
    parts = name.split(".")
    return (
        tuple(map(int, parts)) if len(parts) > 1 and all(part.isascii() and part.isdigit() for part in parts) else None
    )

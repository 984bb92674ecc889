"""Names of the dialects, and the releases of pi that they stand for. Loads no dialect, for `pi --version`."""

from __future__ import annotations

from typing import NamedTuple

from tau.errors import UsageError


class Entry(NamedTuple):
    """`since` is the first release of pi that speaks the dialect, `pi` the one that `pi --version` prints."""

    since: tuple[int, ...]
    pi: str
    module: str
    attribute: str = "DIALECT"


ENTRIES = {
    "1.5": Entry((0, 86), "1.5.0", "tau.wire.dialects.pi_1_5"),
    "0.84": Entry((0, 84), "0.84.1", "tau.wire.dialects.pi_0_84"),
    "0.73": Entry((0, 59), "0.73.1", "tau.wire.dialects.pi_0_73"),
    # From 0.80.4 on, clients wait for agent_settled and expect snapshots.
    "default": Entry((0, 80, 4), "0.87.1", "tau.wire.dialects.default"),
    "2026-03": Entry((0, 52), "0.55.4", "tau.wire.dialects.pi_2026_03"),
    "2026-02": Entry((0, 51), "0.51.6", "tau.wire.dialects.pi_2026_02"),
    "2026-01": Entry((0, 16), "0.45.7", "tau.wire.dialects.pi_2026_01"),
    "2025-12": Entry((0,), "0.13.2", "tau.wire.dialects.pi_2025_12"),
}
# Releases that differ a little from the dialect of their name.
VARIANTS = (
    Entry((0, 84, 2), "0.84.2", "tau.wire.dialects.pi_0_84", "WITH_USAGE"),
    Entry((0, 84, 3), "0.85.1", "tau.wire.dialects.pi_0_84", "WITH_TOOL_NAMES"),
)
NAMES = tuple(ENTRIES)


def find_entry(name: str) -> Entry:
    """The entry of a dialect, by its name or by a release of pi. Raises UsageError."""
    if name in ENTRIES:
        return ENTRIES[name]
    release = _release(name)
    if release is None:
        raise UsageError(f"Unknown dialect {name!r}. There are {', '.join(NAMES)}, and releases of pi such as 0.55.4.")
    return max((one for one in (*ENTRIES.values(), *VARIANTS) if release >= one.since), key=lambda one: one.since)


def _release(name: str) -> tuple[int, ...] | None:
    parts = name.split(".")
    return (
        tuple(map(int, parts)) if len(parts) > 1 and all(part.isascii() and part.isdigit() for part in parts) else None
    )

"""Metrics of a host, in the text format of Prometheus."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from tau.records.host_commands import HOST_COMMANDS
from tau.records.messages import Usage
from tau.wire.dialect import COMMANDS

if TYPE_CHECKING:
    from tau.serve.host import Host

LAG_BUCKETS_S = (0.001, 0.005, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0)
KNOWN = frozenset((*COMMANDS, *HOST_COMMANDS))
CURSOR_BUCKETS = (0, 10, 100, 1000, 10_000)

_OUTCOME = re.compile(rb'"type":"response","command":"([a-z_]{1,64})","success":(true|false)')
Labels = Mapping[str, str]
Sample = tuple[Labels, float]


class Histogram:
    """Counts of values up to each bound."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def lines(self, name: str, about: str) -> Iterator[str]:
        yield from _head(name, "histogram", about)
        total = 0
        for bound, count in zip(self._bounds, self._counts, strict=False):
            total += count
            yield f'{name}_bucket{{le="{bound:g}"}} {total}'
        total += self._counts[-1]
        yield f'{name}_bucket{{le="+Inf"}} {total}'
        yield f"{name}_sum {self._sum:g}"
        yield f"{name}_count {total}"


class HostMetrics:
    """What a host has counted since its start."""

    def __init__(self) -> None:
        self.events = 0  # of sessions that are closed
        self.merged = 0
        self.attached: Counter[str] = Counter()  # by outcome
        self.closed: Counter[str] = Counter()  # channels by the code of their end
        self.commands: Counter[tuple[str, bool]] = Counter()  # by name and success
        self.tokens: Counter[str] = Counter()
        self.cost = 0.0

    def count_response(self, line: bytes) -> None:
        """Count a response by its command. Names that are not commands are counted as one."""
        found = _OUTCOME.search(line, 0, 1024)
        if found is not None:
            name = found[1].decode()
            self.commands[name if name in KNOWN else "unknown", found[2] == b"true"] += 1

    def session_ended(self, events: int, merged: int, tokens: Counter[str], cost: float) -> None:
        """Keep the counts of a session that is closed."""
        self.events += events
        self.merged += merged
        self.tokens += tokens
        self.cost += cost


def count_tokens(counts: Counter[str], usage: Usage) -> None:
    counts["input"] += usage.input
    counts["output"] += usage.output
    counts["cache_read"] += usage.cache_read
    counts["cache_write"] += usage.cache_write


class Connections(Protocol):
    """The open connections of a listener, and those that it has closed because of a limit."""

    closed: Counter[str]  # by limit

    @property
    def counts(self) -> Mapping[str, int]: ...


def render(host: Host, refused: Mapping[str, int], loop_lag: Histogram, connections: Connections | None) -> str:
    """The metrics as text. Without `connections`, another server accepts them."""
    metrics, sessions = host.metrics, host.sessions
    states = Counter("streaming" if live.streaming else "idle" for live in sessions)
    kinds = Counter(str(channel.kind) for channel in host.channels)
    events = metrics.events + sum(live.stream.last for live in sessions)
    merged = metrics.merged + sum(live.stream.merged for live in sessions)
    tokens = sum((live.tokens for live in sessions), metrics.tokens)
    cost = metrics.cost + sum(live.cost for live in sessions)
    ring = sum(live.stream.ring.size for live in sessions)
    lag = Histogram(CURSOR_BUCKETS)
    for channel in host.channels:
        for reader in channel.outgoing.readers:
            lag.add(reader.stream.last - reader.cursor)
    commands = [({"command": name, "ok": str(ok).lower()}, count) for (name, ok), count in metrics.commands.items()]
    lines = [
        *_family("tau_sessions", "gauge", "live sessions", _by("state", {"streaming": 0, "idle": 0} | states)),
        *_family("tau_channels", "gauge", "connected clients", _by("transport", kinds)),
        *([] if connections is None else _connections(connections)),
        *_family("tau_events_total", "counter", "events of all sessions", [({}, events)]),
        *_family("tau_pieces_merged_total", "counter", "deltas merged for slow clients", [({}, merged)]),
        *_family("tau_attach_total", "counter", "attachments by how they began", _by("outcome", metrics.attached)),
        *_family("tau_ring_bytes", "gauge", "memory of the rings of all streams", [({}, ring)]),
        *lag.lines("tau_cursor_lag_records", "how far clients are behind their streams"),
        *_family("tau_closed_total", "counter", "ended channels by close code", _by("reason", metrics.closed)),
        *_family("tau_refused_total", "counter", "refused requests by the failed check", _by("why", refused)),
        *_family("tau_commands_total", "counter", "commands by name and success", commands),
        *_family("tau_tokens_total", "counter", "tokens of model calls", _by("type", tokens)),
        *_family("tau_cost_dollars_total", "counter", "cost of model calls", [({}, cost)]),
        *loop_lag.lines("tau_loop_lag_seconds", "how late the event loop runs its timers"),
    ]
    return "\n".join(lines) + "\n"


def _connections(table: Connections) -> Iterator[str]:
    yield from _family("tau_connections", "gauge", "open TCP connections", _by("credential", table.counts))
    closed = _by("limit", table.closed)
    yield from _family("tau_connections_closed_total", "counter", "connections closed because of a limit", closed)


def _by(label: str, counts: Mapping[str, int]) -> list[Sample]:
    return [({label: name}, count) for name, count in sorted(counts.items())]


def _family(name: str, kind: str, about: str, samples: Sequence[Sample]) -> Iterator[str]:
    yield from _head(name, kind, about)
    for labels, value in samples:
        named = ",".join(f'{label}="{text}"' for label, text in labels.items())
        yield f"{name}{{{named}}} {value:g}" if named else f"{name} {value:g}"


def _head(name: str, kind: str, about: str) -> Iterator[str]:
    yield f"# HELP {name} {about}"
    yield f"# TYPE {name} {kind}"

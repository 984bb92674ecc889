"""Counts and sums of a conversation."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tau.records.base import UNSET, UnsetType
from tau.records.messages import Assistant, Stored, ToolResult, User
from tau.records.replies import ContextUsage, SessionStats, TokenSums


def stats(
    messages: Iterable[Stored],
    session_id: str,
    session_file: str | UnsetType = UNSET,
    context_usage: ContextUsage | UnsetType = UNSET,
    unpriced: Callable[[Assistant], bool] = lambda answer: False,
) -> SessionStats:
    """`unpriced` says of an answer that cost nothing whether that is because nobody knows what it cost."""
    counts: dict[type, int] = {}
    sums = dict.fromkeys(("input", "output", "cache_read", "cache_write"), 0)
    cost: float = 0
    calls, unknown = 0, False
    for message in messages:  # each is let go again: there may be more of them than memory
        counts[type(message)] = counts.get(type(message), 0) + 1
        if isinstance(message, Assistant):
            for part in sums:
                sums[part] += getattr(message.usage, part)
            calls += len(message.tool_calls)
            cost += message.usage.cost.total
            unknown = unknown or (_spent(message) and unpriced(message))
    return SessionStats(
        session_file=session_file,
        session_id=session_id,
        user_messages=counts.get(User, 0),
        assistant_messages=counts.get(Assistant, 0),
        tool_calls=calls,
        tool_results=counts.get(ToolResult, 0),
        total_messages=sum(counts.values()),
        tokens=TokenSums(**sums, total=sum(sums.values())),
        cost=cost,
        context_usage=context_usage,
        cost_unknown=True if unknown else UNSET,
    )


def _spent(answer: Assistant) -> bool:
    return bool(answer.usage.input or answer.usage.output) and not answer.usage.cost.total

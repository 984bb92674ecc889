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
    answers = []
    for message in messages:
        counts[type(message)] = counts.get(type(message), 0) + 1
        if isinstance(message, Assistant):
            answers.append(message)
    used = [answer.usage for answer in answers]
    sums = {part: sum(getattr(use, part) for use in used) for part in ("input", "output", "cache_read", "cache_write")}
    return SessionStats(
        session_file=session_file,
        session_id=session_id,
        user_messages=counts.get(User, 0),
        assistant_messages=len(answers),
        tool_calls=sum(len(answer.tool_calls) for answer in answers),
        tool_results=counts.get(ToolResult, 0),
        total_messages=sum(counts.values()),
        tokens=TokenSums(**sums, total=sum(sums.values())),
        cost=sum(use.cost.total for use in used),
        context_usage=context_usage,
        cost_unknown=True if any(_spent(answer) and unpriced(answer) for answer in answers) else UNSET,
    )


def _spent(answer: Assistant) -> bool:
    return bool(answer.usage.input or answer.usage.output) and not answer.usage.cost.total

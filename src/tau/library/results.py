"""Result: the outcome of one prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from tau.errors import Aborted
from tau.records.base import UNSET
from tau.records.events import BudgetExceeded
from tau.records.messages import AnyMessage, Assistant, StopReason, Usage, UsageCost
from tau.runtime.runs.prompt_run import PromptOutcome


@dataclass(frozen=True)
class Result:
    """The result of a run that has ended.

    A run that failed or was aborted also has a result: `stop_reason` and `error` say so, and `text` is what was
    received. `cost` is in dollars; with `cost_unknown` it is too low, because a model was used whose price is not
    known.
    """

    text: str
    """text of the last assistant message"""
    messages: list[AnyMessage]
    """all messages of this run, including prompts and tool results"""
    usage: Usage
    """tokens of all model calls, including retried ones"""
    cost: float
    cost_unknown: bool
    stop_reason: StopReason | None
    """stop reason of the last assistant message; None without one, because an extension handled the prompt"""
    error: str | None = None
    output: Any = None
    """with `output_schema`: the requested object"""
    exceeded: BudgetExceeded | None = None
    """the budget limit that ended the run"""

    @property
    def ok(self) -> bool:
        """True if the run ended without an error or abort."""
        return self.error is None and self.stop_reason not in ("error", "aborted")

    def __str__(self) -> str:
        return self.text


def result_of(
    messages: list[AnyMessage],
    answers: list[Assistant],
    outcome: PromptOutcome | None,
    unpriced: Callable[[Assistant], bool],
) -> Result:
    """Build a Result. `answers` are all assistant messages; `messages` excludes those that were retried.

    Without an outcome, no run took place.
    """
    outcome = outcome or PromptOutcome()
    last = next((message for message in reversed(messages) if isinstance(message, Assistant)), None)
    usage = total_usage(answer.usage for answer in answers)
    reason = "aborted" if outcome.aborted else last.stop_reason if last is not None else None
    error = last.error_message if last is not None and isinstance(last.error_message, str) else outcome.output_error
    if error is None and outcome.aborted:
        error = str(Aborted())
    return Result(
        text=last.text if last is not None else "",
        messages=messages,
        usage=usage,
        cost=usage.cost.total,
        cost_unknown=any(_spent(answer) and unpriced(answer) for answer in answers),
        stop_reason=reason,
        error=error,
        output=None if outcome.output is UNSET else outcome.output,
        exceeded=outcome.exceeded,
    )


def total_usage(usages: Iterable[Usage]) -> Usage:
    all_usages = list(usages)

    def tokens(name: str) -> int:
        return sum(int(getattr(usage, name)) for usage in all_usages)

    def dollars(name: str) -> float:
        return sum(float(getattr(usage.cost, name)) for usage in all_usages)

    cost = UsageCost(
        dollars("input"), dollars("output"), dollars("cache_read"), dollars("cache_write"), dollars("total")
    )
    return Usage(
        tokens("input"), tokens("output"), tokens("cache_read"), tokens("cache_write"), tokens("total_tokens"), cost
    )


def _spent(answer: Assistant) -> bool:
    return bool(answer.usage.input or answer.usage.output) and not answer.usage.cost.total

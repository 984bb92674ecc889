"""How a prompt ended, as the answer to `session/prompt`: a stop reason, or an error. Pure.

A failed answer is always an error, never a normal end.
"""

from __future__ import annotations

import re
from typing import Any, Literal, Protocol

from tau.acp.errors import AUTH_REQUIRED, AcpError, failed
from tau.records.base import UNSET, Record, field
from tau.records.events import BudgetExceeded
from tau.records.messages import Assistant

StopReason = Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"]
BUDGETS: dict[str, StopReason] = {
    "turns": "max_turn_requests",
    "tokens": "max_tokens",
    "cost": "max_turn_requests",
    "time": "max_turn_requests",
    "stuck": "max_turn_requests",
}
_REFUSED = re.compile(r"The model refused to answer|content filter stopped the answer|content_filter")
_STATUS = re.compile(r"\b([45]\d\d)\b")
_KEY_REFUSED = re.compile(r"\b40[13]\b|api.?key|unauthorized|authentication", re.IGNORECASE)


class PromptResult(Record, kw_only=True):
    stop_reason: StopReason
    meta: Any = field(default=UNSET, name="_meta")


class Outcome(Protocol):
    """The outcome of a run; implemented in runtime/runs/prompt_run.py."""

    aborted: bool
    exceeded: BudgetExceeded | None
    output: Any
    output_error: str | None

    @property
    def answer(self) -> Assistant | None: ...


def cancelled() -> PromptResult:
    return PromptResult(stop_reason="cancelled")


def prompt_result(outcome: Outcome, retries: int) -> PromptResult:
    """Raises AcpError if the answer failed."""
    own: dict[str, Any] = {}
    if outcome.output is not UNSET:
        own["output"] = outcome.output
    if outcome.output_error is not None:
        own["outputError"] = outcome.output_error
    exceeded, answer = outcome.exceeded, outcome.answer
    if exceeded is not None and exceeded.limit in ("cost", "time", "stuck"):
        own["budget"] = {"limit": exceeded.limit, "used": exceeded.used, "allowed": exceeded.allowed}
    return PromptResult(
        stop_reason=_stop_reason(outcome, exceeded, answer, retries), meta={"tau": own} if own else UNSET
    )


def _stop_reason(
    outcome: Outcome, exceeded: BudgetExceeded | None, answer: Assistant | None, retries: int
) -> StopReason:
    if outcome.aborted:
        return "cancelled"
    if exceeded is not None:
        return BUDGETS[exceeded.limit]
    if answer is None or not answer.failed:
        return "max_tokens" if answer is not None and answer.stop_reason == "length" else "end_turn"
    if answer.stop_reason == "aborted":
        return "cancelled"
    if _REFUSED.search(answer.error_message or ""):
        return "refusal"
    raise failure(answer, retries)


def failure(answer: Assistant, retries: int) -> AcpError:
    """The error for an answer that failed."""
    text = answer.error_message or "The model call failed."
    status = _STATUS.search(text[:200])
    data = {
        "status": int(status[1]) if status else None,
        "provider": answer.provider,
        "model": answer.model,
        "retries": retries,
    }
    if status is not None and status[1] in ("401", "403") and _KEY_REFUSED.search(text):
        return AcpError(AUTH_REQUIRED, text, data)
    return failed(text, data)

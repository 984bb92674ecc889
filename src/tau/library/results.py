"""Result: the outcome of one prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, NoReturn, Self

from tau.core.agent.budgets import limit_text
from tau.errors import Aborted, AnswerTruncated, BudgetReached, RunAborted, RunError
from tau.library.wording import in_python
from tau.records.base import UNSET
from tau.records.events import BudgetExceeded
from tau.records.messages import AnyMessage, Assistant, Usage, UsageCost
from tau.runtime.runs.prompt_run import PromptOutcome

if TYPE_CHECKING:  # a bare `Result` is Result[Any]; typing has defaults of type variables only since Python 3.13
    from typing_extensions import TypeVar

    T_co = TypeVar("T_co", covariant=True, default=Any)
else:
    from typing import TypeVar

    T_co = TypeVar("T_co", covariant=True)

RunStopReason = Literal["stop", "length", "budget", "stuck", "aborted", "error"]
"""Why a run ended: "stop" is the regular end; "length", a truncated answer; "budget", a limit; "stuck", tool calls that
failed again and again; "aborted"; "error"."""

TRUNCATED = "The answer was cut off at the length limit of the model."
NOT_ITERABLE = (
    "A Result is not iterable. For the events, write `for event in agent.stream(...)` with tau.sync, "
    "and `async for event in agent.prompt(...)` with tau.open."
)
NO_OUTPUT = "The prompt was handled by an extension, so there is no structured output."
_ERRORS: dict[RunStopReason | None, type[RunError]] = {
    "length": AnswerTruncated,
    "budget": BudgetReached,
    "stuck": BudgetReached,
    "aborted": RunAborted,
}


@dataclass(frozen=True, repr=False)
class Result(Generic[T_co]):
    """The result of a run that has ended. `Result[Point]` is the result of a prompt with `output_schema=Point`.

    A run that was cut short also has a result: `ok` is then False, `stop_reason` and `error` say why, and `text` is
    what was received. `raise_for_status` raises an error instead. `cost` is in dollars; with `cost_unknown` it is too
    low, because a model was used whose price is not known.
    """

    text: str
    """text of the last assistant message"""
    messages: list[AnyMessage]
    """all messages of this run, including prompts and tool results"""
    usage: Usage
    """tokens of all model calls, including retried ones"""
    cost: float
    """cost of all model calls in dollars"""
    cost_unknown: bool
    """True if the price of a model is not known, so that `cost` is too low"""
    stop_reason: RunStopReason | None
    """why the run ended; None if there was no run, because an extension handled the prompt"""
    error: str | None = None
    """why `ok` is False, as a sentence; None if it is True"""
    output: T_co | None = None
    """with `output_schema`: the requested object; None if the run ended without it"""
    exceeded: BudgetExceeded | None = None
    """the limit that ended the run"""

    @property
    def ok(self) -> bool:
        """True if the run reached its regular end: no error, no abort, no truncated answer, no limit."""
        return self.error is None and self.stop_reason in ("stop", None)

    def raise_for_status(self) -> Self:
        """Return this result if it is `ok`. Otherwise raise a RunError that holds it: BudgetReached, AnswerTruncated,
        RunAborted, or RunError itself.
        """
        if self.ok:
            return self
        raise _ERRORS.get(self.stop_reason, RunError)(self.error or "The run failed.", self)

    def require_output(self) -> T_co:
        """Return `output`. Raises RunError, as `raise_for_status` does, if the run ended without it."""
        self.raise_for_status()
        if self.stop_reason is None:
            raise RunError(NO_OUTPUT, self)
        return self.output  # type: ignore[return-value]

    if not TYPE_CHECKING:  # type checkers know that it is not iterable

        def __iter__(self) -> NoReturn:
            raise TypeError(NOT_ITERABLE)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        text = self.text if len(self.text) <= 60 else self.text[:59] + "…"
        shown = [f"text={text!r}", f"stop_reason={self.stop_reason!r}"]
        if self.error is not None:
            error = self.error if len(self.error) <= 100 else self.error[:99] + "…"
            shown.append(f"error={error!r}")
        if self.output is not None:
            output = repr(self.output)
            shown.append(f"output={output if len(output) <= 100 else output[:99] + '…'}".replace("\n", " "))
        tokens = f"tokens={self.usage.total_tokens}"
        return f"Result({', '.join(shown)}, messages={len(self.messages)}, {tokens}, cost={self.cost:.6g})"


def result_of(
    messages: list[AnyMessage],
    answers: list[Assistant],
    outcome: PromptOutcome | None,
    unpriced: Callable[[Assistant], bool],
) -> Result[Any]:
    """Build a Result. `answers` are all assistant messages; `messages` excludes those that were retried.

    Without an outcome, no run took place.
    """
    outcome = outcome or PromptOutcome()
    last = next((message for message in reversed(messages) if isinstance(message, Assistant)), None)
    usage = total_usage(answer.usage for answer in answers)
    reason, error = _ending(last, outcome)
    return Result(
        text=last.text if last is not None else "",
        messages=messages,
        usage=usage,
        cost=usage.cost.total,
        cost_unknown=any(_spent(answer) and unpriced(answer) for answer in answers),
        stop_reason=reason,
        error=None if error is None else in_python(error),
        output=None if outcome.output is UNSET else outcome.output,
        exceeded=outcome.exceeded,
    )


def _ending(last: Assistant | None, outcome: PromptOutcome) -> tuple[RunStopReason | None, str | None]:
    """Return the stop reason of a run, and the sentence that explains it unless the run reached its regular end."""
    message = last.error_message if last is not None and isinstance(last.error_message, str) else None
    if outcome.aborted or (outcome.exceeded is None and last is not None and last.stop_reason == "aborted"):
        return "aborted", message or outcome.output_error or str(Aborted())
    if outcome.exceeded is not None:
        return "stuck" if outcome.exceeded.limit == "stuck" else "budget", limit_text(outcome.exceeded)
    if last is not None and last.stop_reason == "length":
        return "length", TRUNCATED
    if message is not None or outcome.output_error is not None or (last is not None and last.stop_reason == "error"):
        return "error", message or outcome.output_error or "The model failed."
    return ("stop", None) if last is not None else (None, None)


def total_usage(usages: Iterable[Usage]) -> Usage:
    """Return the sum of several usages."""
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

"""What the agent is doing, for the rule above the editor, and the messages that wait."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tau.core.agent.budgets import Spent
from tau.core.agent.draft import Update
from tau.records import deltas as d
from tau.records import events as ev
from tau.records import messages as m
from tau.records.base import Value, replace
from tau.records.budgets import Budget
from tau.screen.cells import clip_line, line_width, text_width
from tau.screen.footer import count_text
from tau.screen.lines import Line, Span
from tau.screen.safe_text import one_line

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
CHANGES_PER_S = 4  # at most; 1 over SSH
SILENT_FROM_S = 20
CHARACTERS_PER_TOKEN = 4  # until the provider says how many tokens there are


class Retry(Value):
    attempt: int
    attempts: int
    at: float  # when it begins
    reason: str


class Activity(Value):
    """What is going on. `since` is None when no run is."""

    since: float | None = None
    command_since: float | None = None  # a shell command of the person
    tokens: int = 0  # of this answer
    silent_since: float | None = None  # the model was asked and says nothing
    retry: Retry | None = None
    compacting_since: float | None = None
    spent: Spent = Spent()  # of the budget
    budget: Budget = Budget()
    message: str = ""  # of an extension, in place of "Working"

    @property
    def compacting(self) -> bool:
        return self.compacting_since is not None


def working_line(
    state: Activity, now: float, width: int, *, changes_per_s: float = CHANGES_PER_S, frames: Sequence[str] = FRAMES
) -> Line:
    """One line, not wider than `width`; () when nothing goes on. Narrow screens drop parts from the right.

    `frames` are those of the spinner; none hide it.
    """
    if state.since is None and state.compacting_since is None and state.retry is None and state.command_since is None:
        return ()
    first, others = _parts(state, now)
    if state.retry is not None and width and text_width(" · ".join([first, *(text for text, _ in others)])) + 2 > width:
        first = first.partition(": ")[0]  # the reason stands in the transcript too, the keys do not
    line: Line = (Span(first, "accent" if state.retry is None else "warning"),)
    if width and frames:
        frame = one_line(frames[int(now * changes_per_s) % len(frames)], 20)
        line = (Span(f"{frame} ", "accent"), *line)
    for text, style in others:
        longer = (*line, Span(" · ", "muted"), Span(text, style))
        if width and line_width(longer) > width:
            break
        line = longer
    return clip_line(line, width) if width else line


def _parts(state: Activity, now: float) -> tuple[str, list[tuple[str, str]]]:
    others: list[tuple[str, str]] = []
    if state.retry is not None:
        seconds = max(int(state.retry.at - now + 0.999), 0)
        first = (
            f"Try {state.retry.attempt} of {state.retry.attempts} in {seconds}s: {one_line(state.retry.reason, 200)}"
        )
        return first, [("Esc stops", "muted"), ("Enter tries now", "muted")]
    if (since := state.compacting_since) is not None:
        first = "Summarising…"
    elif (since := state.since) is not None:
        first = one_line(state.message, 200) or "Working"
    else:
        first, since = "Running", state.command_since
    if since is not None:
        first += f" {_seconds(now - since)}"
    others.append(("Esc stops", "muted"))
    if state.silent_since is not None and now - state.silent_since >= SILENT_FROM_S and not state.compacting:
        others.append((f"no word for {_seconds(now - state.silent_since)}", "warning"))
    others += [(text, "muted") for text in _budget_texts(state, now)]
    if state.tokens:
        others.append((f"{count_text(state.tokens)} {'token' if state.tokens == 1 else 'tokens'}", "muted"))
    return first, others


def _budget_texts(state: Activity, now: float) -> list[str]:
    """How much of each limit is used."""
    spent, budget = state.spent, state.budget
    texts: list[str] = []
    if budget.max_cost is not None:
        texts.append(f"${spent.cost:.2f} of ${budget.max_cost:.2f}")
    if budget.max_turns is not None:
        texts.append(f"turn {spent.turns} of {budget.max_turns}")
    if budget.max_tokens is not None:
        texts.append(f"{count_text(spent.tokens)} of {count_text(budget.max_tokens)} tokens")
    if budget.time_limit is not None and state.since is not None:
        texts.append(f"{_seconds(now - state.since)} of {_seconds(budget.time_limit)}")
    return texts


def _seconds(seconds: float) -> str:
    whole = max(int(seconds), 0)
    if whole < 60:
        return f"{whole}s"
    return f"{whole // 60}m {whole % 60:02}s" if whole < 3600 else f"{whole // 3600}h {whole // 60 % 60:02}m"


class Working:
    """Follows the events of a session. `readable` rewrites errors of model servers for a person."""

    def __init__(
        self, max_cost: float | None = None, readable: Callable[[str], str] = str, budget: Budget | None = None
    ) -> None:
        self._state = Activity(budget=budget or Budget(max_cost=max_cost))
        self._readable = readable
        self._characters = 0
        self._heard_at: float | None = None  # when a piece came that is not in the state yet

    def apply(self, event: Any, now: float) -> None:
        match event:
            case Update(delta=delta) | ev.MessageUpdate(assistant_message_event=delta):
                self.heard(delta, now)
            case ev.AgentStart():
                since = now if self.state.since is None else self.state.since
                self._set(since=since, silent_since=now, retry=None)
            case ev.MessageStart(message=m.Assistant()):
                self._characters = 0
                spent = self.state.spent
                self._set(tokens=0, silent_since=now, retry=None, spent=replace(spent, turns=spent.turns + 1))
            case ev.MessageEnd(message=m.Assistant(usage=usage)):
                self._set(
                    tokens=usage.output, spent=self.state.spent.add_usage(usage, unpriced=False), silent_since=None
                )
            case ev.ToolStart():
                self._set(silent_since=None)
            case ev.TurnEnd():
                self._set(silent_since=now)
            case ev.AutoRetryStart():
                at = now + event.delay_ms / 1000
                self._set(retry=Retry(event.attempt, event.max_attempts, at, self._readable(event.error_message)))
            case ev.AutoRetryEnd():
                self._set(retry=None)
            case ev.CompactionStart():
                self._set(compacting_since=now)
            case ev.CompactionEnd():
                self._set(compacting_since=None, silent_since=None if self.state.since is None else now)
            case ev.AgentSettled():
                self._state = Activity(budget=self.state.budget, command_since=self.state.command_since)

    def command_started(self, now: float) -> None:
        """A shell command of the person runs; others may run already."""
        if self.state.command_since is None:
            self._set(command_since=now)

    def commands_ended(self) -> None:
        """No shell command of the person runs any more."""
        self._set(command_since=None)

    @property
    def active(self) -> bool:
        """True while the line is shown."""
        return self.agent_active or self.state.command_since is not None

    @property
    def agent_active(self) -> bool:
        return self.state.since is not None or self.state.compacting or self.state.retry is not None

    def set_message(self, message: str) -> None:
        """What an extension says instead of "Working"; "" takes it back."""
        self._set(message=message)

    @property
    def state(self) -> Activity:
        if self._heard_at is not None:
            tokens = self._characters // CHARACTERS_PER_TOKEN
            self._state = replace(self._state, tokens=tokens, silent_since=self._heard_at)
            self._heard_at = None
        return self._state

    def heard(self, delta: d.AnyDelta, now: float) -> None:
        """A piece of an answer has come."""
        if isinstance(delta, (d.TextDelta, d.ThinkingDelta, d.ToolCallDelta)):
            self._characters += len(delta.delta)
            self._heard_at = now

    def _set(self, **changes: Any) -> None:
        self._state = replace(self.state, **changes)


def queue_lines(steering: Sequence[str], follow_up: Sequence[str], width: int) -> list[Line]:
    """The messages that wait, above the editor, and how to get them back."""
    rows = [(f"Steering: {one_line(text)}", "muted") for text in steering]
    rows += [(f"Follow-up: {one_line(text)}", "muted") for text in follow_up]
    if rows:
        rows.append(("Alt+Up takes them back", "dim"))
    return [clip_line((Span(text, style),), width) if width else (Span(text, style),) for text, style in rows]

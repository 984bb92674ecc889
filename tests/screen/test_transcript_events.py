"""Any events in any order, at any size: rows fit, and their numbers are consistent."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tau.records.base import replace
from tau.records.deltas import AnyDelta, TextDelta, TextEnd, ThinkingDelta, ThinkingEnd, ToolCallStart
from tau.records.events import (
    AgentSettled,
    BashUpdate,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    Outcome,
    ToolEnd,
    ToolStart,
    ToolUpdate,
)
from tau.records.messages import Assistant, BashExecution, StopReason, Text, Usage
from tau.screen.cells import line_width
from tau.screen.transcript import Transcript

ANSWER = Assistant([], "api", "provider", "model", Usage(), "stop", 0)
TEXTS = ["word ", "**b", "\n\n", "- x\n", "```py\n", "| a | b |\n|---|---|\n", "x" * 50, "\x1b[31m", "日本 ", "[l](u)"]
TOOLS = ["bash", "read", "edit", "write", "mcp__x__y"]
ENDS: list[StopReason] = ["stop", "error", "aborted", "length"]


class Session:
    """Makes random events."""

    def __init__(self, random: Random) -> None:
        self.transcript = Transcript()
        self.width = random.randrange(1, 100)
        self._random = random
        self._calls: list[str] = []
        self._count = 0
        self._actions: list[Callable[[], None]] = [
            *([self._text] * 4),
            *(self._think, self._call, self._start, self._update, self._end, self._toggle, self._resize),
            *(self._finish, self._message, self._command),
        ]

    def step(self) -> None:
        self._random.choice(self._actions)()

    def _apply(self, event: object) -> None:
        self.transcript.apply(event, self._count)

    def _text(self) -> None:
        text = self._random.choice(TEXTS) * self._random.randrange(1, 9)
        self._apply(MessageUpdate(TextDelta(self._random.randrange(3), text)))

    def _think(self) -> None:
        self._apply(MessageUpdate(ThinkingDelta(5, "think \n\n" * self._random.randrange(1, 9))))

    def _call(self) -> None:
        self._count += 1
        self._calls.append(f"c{self._count}")
        self._apply(MessageUpdate(ToolCallStart(9 + self._count, self._calls[-1], self._random.choice(TOOLS))))

    def _start(self) -> None:
        if self._calls:
            self._apply(ToolStart(self._random.choice(self._calls), "bash", {"command": "x\ny", "content": "a\nb"}))

    def _update(self) -> None:
        if self._calls:
            output = Outcome([Text("out\n" * self._random.randrange(300))])
            self._apply(ToolUpdate(self._random.choice(self._calls), "bash", {}, output))

    def _end(self) -> None:
        if self._calls:
            call = self._calls.pop(self._random.randrange(len(self._calls)))
            output = Outcome([Text("result\n" * self._random.randrange(30))])
            self._apply(ToolEnd(call, "bash", output, self._random.random() < 0.3, self._random.randrange(5000)))

    def _toggle(self) -> None:
        if self._random.random() < 0.5:
            self.transcript.expanded = not self.transcript.expanded
        else:
            self.transcript.hide_thinking = not self.transcript.hide_thinking

    def _resize(self) -> None:
        self.width = self._random.randrange(1, 100)

    def _finish(self) -> None:
        ends: list[AnyDelta] = [TextEnd(0, ""), TextEnd(1, ""), ThinkingEnd(5, "")]
        self._apply(MessageUpdate(self._random.choice(ends)))

    def _message(self) -> None:
        self._apply(MessageEnd(replace(ANSWER, stop_reason=self._random.choice(ENDS), error_message="no")))
        self._apply(self._random.choice([MessageStart(ANSWER), AgentSettled()]))

    def _command(self) -> None:
        self.transcript.start_bash("command", self._count)
        self._apply(BashUpdate("out\n" * self._random.randrange(50)))
        self.transcript.end_bash(BashExecution("command", "out\n" * 9, exit_code=1), self._count)


@settings(deadline=None, max_examples=80)
@given(st.randoms(use_true_random=False), st.integers(2, 40))
def test_any_events_give_rows_that_fit_and_are_numbered(random: Random, height: int) -> None:
    session = Session(random)
    first = 0
    for step in range(random.randrange(5, 100)):
        session.step()
        start, rows = session.transcript.rows(first, session.width, step)
        assert start <= first <= start + len(rows)
        assert start == first or not rows
        assert all(line_width(row) <= session.width for row in rows)
        first = max(first, start + len(rows) - height)

"""Idle detection: a state machine that decides from the received events whether the agent is idle. Pure.

Newer agents send `agent_settled` when they are idle. Older ones end a run with `agent_end` and may continue on their
own, with a retry or with a compaction and a retry. The event that starts this follows at once, so an agent is idle if
it has ended a run, reports no activity, and sends nothing for a moment.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

QUIET_S = 0.1  # seconds
# A prompt that begins with "/" may be a command that starts no run, and older agents do not report this.
QUIET_AFTER_SLASH_S = 1.0


@dataclass(frozen=True)
class AskState:
    """Not known yet: the agent is idle if it reports no activity and sends nothing for `quiet` seconds."""

    quiet: float


Verdict = Literal["idle", "busy"] | AskState
Phase = Literal["rest", "expected", "run", "again", "compaction", "ended", "unsure"]


class IdleDetector:
    """`mark` changes with every event that matters for being idle."""

    def __init__(self, settles: bool = False) -> None:
        self.mark = 0
        self.runs = 0
        self._settles = settles
        self._phase: Phase = "rest"
        self._before_compaction: Phase = "rest"
        self._slash = self._run_expected = False
        self._runs_at_snapshot = 0  # prompts that were sent before it may be finished

    @property
    def verdict(self) -> Verdict:
        match self._phase:
            case "rest":
                return "idle"
            case "ended" if not self._settles:
                return AskState(QUIET_S)
            case "unsure":
                return AskState(QUIET_S)
            case "expected" if self._slash:
                return AskState(QUIET_AFTER_SLASH_S)
        return "busy"

    def on_event(self, kind: str, will_retry: bool = False) -> None:
        """Process an event of this type."""
        match kind:
            case "agent_start":
                self.runs += 1
                self._run_expected = False
                self._go("run")
            case "agent_end":
                self._go("again" if will_retry else "ended")
            case "agent_settled":
                self._settles = True
                self._go("expected" if self._run_expected else "rest")
                self._run_expected = False
            case "auto_retry_start":
                self._go("again")
            case "auto_retry_end":
                self._go("ended" if self._phase == "again" else self._phase)
            case "auto_compaction_start" | "compaction_start":
                self._before_compaction = self._phase
                self._go("compaction")
            case "auto_compaction_end" | "compaction_end":
                before = self._before_compaction if self._phase == "compaction" else self._phase
                self._go("again" if will_retry else before)

    def on_prompt_accepted(self, runs: int, *, slash: bool, handled: bool) -> None:
        """A prompt was accepted. `runs` is the number of runs that had started when it was sent."""
        if not handled and runs < self._runs_at_snapshot and self._phase == "rest":
            self._go("unsure")
        if handled or self.runs != runs:
            return
        if self._phase == "rest" or (self._phase in ("ended", "unsure") and not self._settles):
            self._slash = slash
            self._go("expected")
        elif self._phase in ("ended", "unsure"):
            self._run_expected, self._slash = True, slash

    def on_snapshot(self, *, active: bool) -> None:
        """Events were missed; this is what a snapshot says of the agent."""
        self.runs += 1
        self._runs_at_snapshot = self.runs
        self._run_expected = False
        self._go("run" if active else "rest")

    def on_prompt_rejected(self) -> None:
        """A prompt that had been accepted was rejected after all."""
        if self._phase == "expected":
            self._go("rest")

    def on_interrupted(self) -> None:
        """A command that ends the current run was answered."""
        if self._phase != "rest":
            self._go("unsure")

    def confirm_idle(self) -> None:
        """The agent reported no activity and stayed quiet."""
        self._go("rest")

    def _go(self, phase: Phase) -> None:
        self._phase = phase
        self.mark += 1

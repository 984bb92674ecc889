"""When is an agent idle? Pure: told what was heard, says what is known.

Newer agents say `agent_settled`, and then they are. Older ones end a run with
`agent_end` and may go on by themselves: retry it, or compact and then retry it.
What starts that is sent at once, so an agent that has ended a run, answers that
it does nothing, and is quiet for a moment, is idle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

QUIET = 0.1  # seconds
# A prompt that begins with "/" may be a command that no run follows, and older agents do not tell.
QUIET_AFTER_SLASH = 1.0


@dataclass(frozen=True)
class Ask:
    """Nobody knows yet: idle, if the agent says that it does nothing, and nothing happens for `quiet` seconds."""

    quiet: float


Verdict = Literal["idle", "busy"] | Ask
Place = Literal["rest", "expected", "run", "again", "compaction", "ended", "unsure"]


class Idle:
    """`mark` changes whenever something happened that matters here."""

    def __init__(self, settles: bool = False) -> None:
        self.mark = 0
        self.runs = 0
        self._settles = settles
        self._place: Place = "rest"
        self._before: Place = "rest"
        self._slash = self._owed = False

    @property
    def verdict(self) -> Verdict:
        match self._place:
            case "rest":
                return "idle"
            case "ended" if not self._settles:
                return Ask(QUIET)
            case "unsure":
                return Ask(QUIET)
            case "expected" if self._slash:
                return Ask(QUIET_AFTER_SLASH)
        return "busy"

    def hear(self, kind: str, will_retry: bool = False) -> None:
        """An event of this type."""
        match kind:
            case "agent_start":
                self.runs += 1
                self._owed = False
                self._go("run")
            case "agent_end":
                self._go("again" if will_retry else "ended")
            case "agent_settled":
                self._settles = True
                self._go("expected" if self._owed else "rest")
                self._owed = False
            case "auto_retry_start":
                self._go("again")
            case "auto_retry_end":
                self._go("ended" if self._place == "again" else self._place)
            case "auto_compaction_start" | "compaction_start":
                self._before = self._place
                self._go("compaction")
            case "auto_compaction_end" | "compaction_end":
                before = self._before if self._place == "compaction" else self._place
                self._go("again" if will_retry else before)

    def accepted(self, runs: int, *, slash: bool, handled: bool) -> None:
        """A prompt was, that was sent when so many runs had begun."""
        if handled or self.runs != runs:
            return
        if self._place == "rest" or (self._place in ("ended", "unsure") and not self._settles):
            self._slash = slash
            self._go("expected")
        elif self._place in ("ended", "unsure"):
            self._owed, self._slash = True, slash

    def refused(self) -> None:
        """A prompt was, after it had seemed to be accepted."""
        if self._place == "expected":
            self._go("rest")

    def interrupted(self) -> None:
        """Whatever ran was ended by a command that has been answered."""
        if self._place != "rest":
            self._go("unsure")

    def rest(self) -> None:
        """It was asked, and there is nothing more."""
        self._go("rest")

    def _go(self, place: Place) -> None:
        self._place = place
        self.mark += 1

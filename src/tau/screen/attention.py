"""When the person should be called back to the terminal, and what the title of its window says.

A notification is sent if the terminal has said that it lost the focus, and a long run has ended or a question waits.
A terminal that says nothing about its focus counts as focused.
"""

from __future__ import annotations

from tau.records.base import Value
from tau.screen.safe_text import one_line

LONG_RUN_S = 10.0
WAITING_S = 5.0
MAX_TITLE = 100  # characters


class Attention:
    """Decides when to notify. `now` is in seconds."""

    def __init__(self) -> None:
        self._focused = True
        self._run_since: float | None = None
        self._question_since: float | None = None
        self._question_told = False

    def focus(self, gained: bool) -> None:
        """The terminal has said that it got or lost the focus."""
        self._focused = gained

    def run_started(self, now: float) -> None:
        if self._run_since is None:
            self._run_since = now

    def run_settled(self, now: float) -> str | None:
        """Returns the text of a notification, or None."""
        since, self._run_since = self._run_since, None
        if self._focused or since is None or now - since < LONG_RUN_S:
            return None
        return f"Done after {_duration(now - since)}"

    def questions(self, waiting: int, now: float) -> None:
        """This many questions wait for an answer."""
        if not waiting:
            self._question_since = None
            self._question_told = False
        elif self._question_since is None:
            self._question_since = now

    def next_change(self) -> float | None:
        """When `waiting` may have something to say."""
        if self._question_since is None or self._question_told or self._focused:
            return None
        return self._question_since + WAITING_S

    def waiting(self, now: float) -> str | None:
        """The text of a notification if a question has waited long enough, once per question."""
        due = self.next_change()
        if due is None or now < due:
            return None
        self._question_told = True
        return "A question waits for your answer"


def _duration(seconds: float) -> str:
    whole = int(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60} s"


class TitleState(Value):
    program: str  # as which tau was started
    folder: str = ""  # of the session
    name: str = ""  # of the session
    working: bool = False
    asking: bool = False
    given: str | None = None  # by an extension


def window_title(state: TitleState) -> str:
    """The title of the window: an extension's own, else `● …` while a question waits and `✳ …` while tau works.

    Started as `pi`, the title is that of pi, without signs: programs find its window by the title.
    """
    if state.program == "pi":
        text, sign = " - ".join(filter(None, ("π", state.name, state.folder))), ""
    else:
        text = ": ".join(filter(None, ("tau", state.name or state.folder)))
        sign = "● " if state.asking else "✳ " if state.working else ""
    return sign + one_line(text if state.given is None else state.given, MAX_TITLE)

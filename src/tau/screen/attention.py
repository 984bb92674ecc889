"""When the person should be called back to the terminal, what the title of its window says, and how to send it.

A notification is sent if the terminal has said that it lost the focus, and a long run has ended or a question waits.
A terminal that says nothing about its focus counts as focused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from tau.screen.safe_text import one_line

LONG_RUN_S = 10.0
WAITING_S = 5.0
MAX_TITLE = 100  # characters

Method = Literal["osc9", "osc777", "osc99", "bell", "none"]
Setting = Literal["auto", "bell", "off"]

# By TERM_PROGRAM and by the beginning of TERM: how the terminal shows a notification.
_PROGRAMS: dict[str, Method] = {
    "iTerm.app": "osc9",
    "WezTerm": "osc9",
    "ghostty": "osc9",
    "WarpTerminal": "osc9",
    "rio": "osc9",
    "vscode": "bell",
}
_TERMS: dict[str, Method] = {
    "xterm-kitty": "osc99",
    "xterm-ghostty": "osc9",
    "foot": "osc777",
    "rxvt-unicode": "osc777",
    "contour": "osc777",
    "wezterm": "osc9",
}


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


def method_for(environment: Mapping[str, str], setting: Setting = "auto") -> Method:
    """How this terminal shows a notification; the bell if that is not known."""
    if setting == "off":
        return "none"
    if setting == "bell":
        return "bell"
    if "KITTY_WINDOW_ID" in environment:
        return "osc99"
    if program := _PROGRAMS.get(environment.get("TERM_PROGRAM", "")):
        return program
    term = environment.get("TERM", "")
    return next((method for name, method in _TERMS.items() if term.startswith(name)), "bell")


def notification_bytes(text: str, method: Method, *, tmux: bool) -> bytes:
    """What makes the terminal notify. Inside tmux it is passed through to the terminal around it."""
    shown = _plain(text)
    match method:
        case "osc9":
            sequence = f"\x1b]9;{shown}\x07"
        case "osc777":
            sequence = f"\x1b]777;notify;tau;{shown.replace(';', ',')}\x07"
        case "osc99":
            sequence = f"\x1b]99;;{shown}\x1b\\"
        case "bell":
            return b"\x07"
        case _:
            return b""
    if tmux:
        sequence = "\x1bPtmux;" + sequence.replace("\x1b", "\x1b\x1b") + "\x1b\\"
    return sequence.encode("utf-8", "replace")


class TitleState(NamedTuple):
    name: str  # of the session, or its folder
    working: bool = False
    asking: bool = False
    given: str | None = None  # by an extension


def window_title(state: TitleState) -> str:
    """The title of the window: an extension's own, else `● …` while a question waits and `✳ …` while tau works."""
    text = state.given if state.given is not None else f"tau: {state.name}" if state.name else "tau"
    sign = "● " if state.asking else "✳ " if state.working else ""
    return sign + _plain(text)[:MAX_TITLE]


def _plain(text: str) -> str:
    """One line without anything that could end or start a sequence."""
    return one_line(text, 1000)

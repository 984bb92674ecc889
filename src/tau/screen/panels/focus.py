"""Which keys answer a question, and which are meant for the editor.

A question can appear at any moment, also between two keys of a sentence. So a question takes the focus only if the
editor is empty and no key was pressed for QUIET_S; until then it is shown above the editor, and Tab gives it the
focus. For GUARD_S after it took the focus by itself, all keys but Escape go back to the editor, and the focus with
them.

A key is handled later than it was pressed, if the program was busy. So the guard is not lifted by the time alone, but
by a frame that is drawn after it (`update`), when no input waits to be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from tau.screen.input_events import Key

QUIET_S = 1.0
GUARD_S = 0.5

Destination = Literal["panel", "editor", "nothing"]
# How the question got the focus: it took it by itself, or the person gave it.
Origin = Literal["automatic", "deliberate"]

NEVER = float("-inf")


class QuestionFocus:
    """Focus of the question that is shown. Times are in seconds, of any clock that does not go back."""

    def __init__(self) -> None:
        self._last_key = NEVER  # when a key was pressed
        self._after_submit = False  # the last key of the editor submitted its text
        self._shown_at: float | None = None
        self._needs_quiet = True
        self._declined = False  # the person moved the focus back to the editor
        self._focus: Origin | None = None
        self._guarded_until: float | None = None

    @property
    def focused(self) -> bool:
        return self._focus is not None

    @property
    def guarded(self) -> bool:
        """True if the question has not had the focus long enough to be answered."""
        return self._guarded_until is not None

    def show(self, now: float, *, editor_empty: bool, needs_quiet: bool = True, follows_answer: bool = False) -> None:
        """A question is shown from now on.

        Without `needs_quiet` it may take the focus right after a submitted command, which has probably asked it.
        `follows_answer`: it replaces a question that has just been answered here.
        """
        keeps_focus = follows_answer and self.focused
        self._shown_at = now
        self._needs_quiet = needs_quiet
        self._declined = False
        self._focus = None
        if keeps_focus:
            self._take(now, "deliberate")
        else:
            self.update(now, editor_empty=editor_empty)

    def hide(self) -> None:
        """No question is shown."""
        self._shown_at = None
        self._focus = None

    def update(self, now: float, *, editor_empty: bool, input_waits: bool = False) -> None:
        """Take the focus if the editor is empty and quiet, and lift the guard when it is time.

        Call it before each frame, and when `next_change` is due. `input_waits`: there is input that was not read yet.
        """
        due = self.next_change(editor_empty=editor_empty)
        if due is None or now < due:
            return
        if not self.focused:
            self._take(now, "automatic")
        elif not input_waits:
            self._guarded_until = None

    def next_change(self, *, editor_empty: bool) -> float | None:
        """When `update` changes something, if no key comes before; None if it does not."""
        if self.focused:
            return self._guarded_until
        if self._shown_at is None or self._declined or not editor_empty:
            return None
        if self._after_submit and not self._needs_quiet:
            return self._shown_at
        return max(self._shown_at, self._last_key + QUIET_S)

    def typed(self, now: float) -> None:
        """The editor got a key or a paste: the question gives the focus back."""
        self._last_key = now
        self._after_submit = False
        self._focus = None

    def submitted(self) -> None:
        """The key that the editor got last has submitted its text."""
        self._after_submit = True

    def route(self, key: Key, actions: Sequence[str], now: float, *, wanted: bool) -> Destination:
        """Decide who gets a key. `wanted`: the panel would use it."""
        if self._focus is None:
            return self._route_to_editor(key, actions, now)
        if _switches_focus(key, actions):
            self._declined = True
            self._focus = None
            return "nothing"
        if key.id == "escape" or "tui.select.cancel" in actions:
            return self._to_panel(now)
        if self.guarded:
            return self._route_guarded(key, actions, now)
        if wanted:
            return self._to_panel(now)
        if key.text:
            self.typed(now)
        return "editor"

    def _to_panel(self, now: float) -> Destination:
        self._last_key = now
        self._after_submit = False
        return "panel"

    def _route_to_editor(self, key: Key, actions: Sequence[str], now: float) -> Destination:
        seen = self._shown_at is not None and now - self._shown_at >= GUARD_S
        if seen and _switches_focus(key, actions):
            self._take(now, "deliberate")
            return "nothing"
        self.typed(now)
        return "editor"

    def _route_guarded(self, key: Key, actions: Sequence[str], now: float) -> Destination:
        if self._focus == "deliberate":
            if not key.text and not _submits(key, actions):
                return self._to_panel(now)  # arrows only choose a row
            if _submits(key, actions) or key.id.isdecimal():
                # A key that is held down, or pressed twice: the person wants to answer, but not yet this question.
                self._guarded_until = now + GUARD_S
                return "nothing"
        self.typed(now)
        return "editor"

    def _take(self, now: float, origin: Origin) -> None:
        self._focus = origin
        quiet = self._last_key + QUIET_S if origin == "automatic" else NEVER
        self._guarded_until = max(now + GUARD_S, quiet)


def _switches_focus(key: Key, actions: Sequence[str]) -> bool:
    return key.id == "tab" or "app.permission.focus" in actions


def _submits(key: Key, actions: Sequence[str]) -> bool:
    return key.id == "enter" or "tui.select.confirm" in actions

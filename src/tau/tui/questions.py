"""The open dialogs of a session, as panels: one is shown, the others wait in the order of their calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil
from typing import Any

from tau.records.dialogs import Confirm
from tau.runtime.extensions.dialogs import Dialogs
from tau.screen.input_events import Key
from tau.screen.panels import Answer, Panel, PanelView, Status
from tau.screen.panels.choices import ChoicePanel
from tau.screen.panels.dialogs import Dialog, panel_for
from tau.screen.panels.focus import QuestionFocus

STOP_WITHIN_S = 0.5  # a second Escape within this time stops the run


class OpenQuestion:
    def __init__(self, dialog: Dialog, panel: Panel, order: float) -> None:
        self.dialog = dialog
        self.panel = panel
        self.order = order
        self.clock_stopped = False


class Questions:
    """Connects the dialogs of a session with the keys of the terminal.

    `clock` is that of the event loop. `editor_empty` tells if the editor contains no text. `changed` is called when
    the screen must be drawn again. `input_waits` tells if the terminal has input that was not read yet: keys that
    were pressed before the person could see the question.
    """

    def __init__(
        self,
        dialogs: Dialogs,
        clock: Callable[[], float],
        editor_empty: Callable[[], bool],
        changed: Callable[[], None] = lambda: None,
        input_waits: Callable[[], bool] = lambda: False,
    ) -> None:
        self.focus = QuestionFocus()
        self._dialogs = dialogs
        self._clock = clock
        self._editor_empty = editor_empty
        self._changed = changed
        self._input_waits = input_waits
        self._open: list[OpenQuestion] = []
        self._escaped_at = float("-inf")
        self._first_rows: dict[str, int] = {}
        dialogs.over = self._remove

    def __len__(self) -> int:
        return len(self._open)

    @property
    def focused(self) -> bool:
        """True if keys go to the question; the editor is not shown then."""
        return self.focus.focused

    def add(self, dialog: Dialog) -> None:
        """Show a dialog, or queue it behind the one that is shown. Call it when the session sends the request."""
        details = self._dialogs.details(dialog.id)
        order = float("inf") if details is None else details.order
        panel = panel_for(dialog, details)
        if isinstance(panel, ChoicePanel) and dialog.id in self._first_rows:
            panel.chosen = self._first_rows.pop(dialog.id)
        question = OpenQuestion(dialog, panel, order)
        if not self._open:
            self._open.append(question)
            self._show_first()
        else:  # the one that is shown stays
            self._open[1:] = sorted([*self._open[1:], question], key=lambda one: one.order)
        self._changed()

    def preselect(self, id: str, row: int) -> None:
        """A row of the select dialog with this id that is chosen when it is shown; call it before the dialog opens."""
        self._first_rows[id] = row

    # Keys.

    def key(self, key: Key, actions: Sequence[str] = ()) -> bool:
        """Handle a key. False: the key is for the editor or the application."""
        now = self._clock()
        if not self._open or (key.id == "escape" and self.escaped_just_before()):
            self.focus.typed(now)
            return False
        panel = self._open[0].panel
        wanted = panel.wants(key, actions)
        to = self.focus.route(key, actions, now, wanted=wanted)
        if to == "panel":
            self._panel_key(self._open[0], key, actions)
        self._changed()
        return to != "editor"

    def paste(self, text: str) -> bool:
        """Handle a paste. False: it is for the editor."""
        if self._open and self.focused and not self.focus.guarded and self._open[0].panel.paste(text):
            self._changed()
            return True
        self.focus.typed(self._clock())
        return False

    def submitted(self) -> None:
        """The editor has submitted its text: dialogs of the command that it may be can take the focus at once."""
        self.focus.submitted()

    def escape(self) -> bool:
        """Escape that nothing else has handled: deny or cancel the question that is shown, also without the focus.

        False if there is none, or if Escape was pressed twice: then the run should stop.
        """
        if not self._open or self.escaped_just_before():
            return False
        self._panel_key(self._open[0], Key("escape"), ())
        self._changed()
        return True

    def escaped_just_before(self) -> bool:
        """True if Escape denied or cancelled a question a moment ago: a second one stops the run."""
        return self._clock() - self._escaped_at <= STOP_WITHIN_S

    # Drawing.

    def view(self, width: int, max_rows: int) -> PanelView | None:
        """The panel of the question that is shown; None if there is none."""
        if not self._open:
            return None
        now = self._clock()
        self.focus.update(now, editor_empty=self._editor_empty(), input_waits=self._input_waits())
        question = self._open[0]
        deadline = self._dialogs.deadline(question.dialog.id)
        status = Status(
            focused=self.focused,
            ready=not self.focus.guarded,
            position=f"1 of {len(self._open)}" if len(self._open) > 1 else "",
            seconds_left=None if deadline is None else max(deadline - now, 0.0),
            clock_stopped=question.clock_stopped,
        )
        return question.panel.rows(width, max_rows, status)

    def not_drawn(self) -> None:
        """The screen is too small for the panel: keys are for the editor until it is drawn again."""
        if self.focused:
            self.focus.typed(self._clock())

    def next_change(self) -> float | None:
        """When the panel must be drawn again: a second has passed, or the question takes the focus."""
        if not self._open:
            return None
        now, deadline = self._clock(), self._dialogs.deadline(self._open[0].dialog.id)
        second = None if deadline is None or deadline <= now else deadline - ceil(deadline - now) + 1
        focus = self.focus.next_change(editor_empty=self._editor_empty())
        return min((due for due in (second, focus) if due is not None), default=None)

    # Answers.

    def _panel_key(self, question: OpenQuestion, key: Key, actions: Sequence[str]) -> None:
        answer = question.panel.key(key, actions)
        if answer is not None:
            self._escaped_at = self._clock() if key.id == "escape" else self._escaped_at
            self._answer(question.dialog, answer)
        elif isinstance(question.panel, ChoicePanel) and question.panel.stops_clock and not question.clock_stopped:
            question.clock_stopped = self._dialogs.stop_clock(question.dialog.id)

    def _answer(self, dialog: Dialog, answer: Answer) -> None:
        """Send the answer. The next question is shown at once, for the keys that follow this one."""
        if answer.reason:
            self._dialogs.deny(dialog.id, answer.reason)
        else:
            self._dialogs.answer({"id": dialog.id, **_response(dialog, answer)})
        self._remove(dialog.id, answered=True)

    def _remove(self, id: str, *, answered: bool = False) -> None:
        """A dialog has ended: by an answer, by its deadline, or because its run or extension has ended."""
        shown = bool(self._open) and self._open[0].dialog.id == id
        self._open = [one for one in self._open if one.dialog.id != id]
        if not self._open:
            self.focus.hide()
        elif shown:
            self._show_first(follows_answer=answered)
        self._changed()

    def _show_first(self, *, follows_answer: bool = False) -> None:
        question = self._open[0]
        self.focus.show(
            self._clock(),
            editor_empty=self._editor_empty(),
            needs_quiet=question.order != float("inf"),
            follows_answer=follows_answer,
        )


def _response(dialog: Dialog, answer: Answer) -> dict[str, Any]:
    if answer.value is None:
        return {"cancelled": True}
    if isinstance(dialog, Confirm):
        return {"confirmed": answer.value is True}
    return {"value": answer.value}

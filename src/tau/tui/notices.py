"""Calls the person back to the terminal, and sets the title of its window.

Events of the session, the focus of the terminal and the number of open questions come in; bytes for the terminal go
out. screen/attention.py decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, Protocol

from tau.core.agent.draft import Update
from tau.records.base import replace
from tau.records.dialogs import UiRequest
from tau.records.events import AgentSettled, AgentStart, Event
from tau.screen.attention import Attention, TitleState, window_title
from tau.tui.notifications import notification

Setting = Literal["auto", "bell", "off"]


class Window(Protocol):
    """The terminal, as far as notices need it."""

    def write(self, data: bytes) -> None: ...

    def set_title(self, title: str) -> None: ...

    def set_progress(self, busy: bool) -> None: ...


class Notices:
    """`clock` is in seconds. `setting` is the one of the same name. `program` is as which tau was started."""

    def __init__(
        self, window: Window, clock: Callable[[], float], environment: Mapping[str, str], program: str = "tau"
    ) -> None:
        self._window = window
        self._clock = clock
        self._environment = environment
        self.setting: Setting = "auto"
        self._shows_progress = False
        self._attention = Attention()
        self._title = TitleState(program)
        self._shown_title: str | None = None

    def on_event(self, event: Event | Update | UiRequest) -> None:
        """An event of the session: a run has started or settled."""
        if isinstance(event, AgentStart):
            self._attention.run_started(self._clock())
            self._set_working(True)
        elif isinstance(event, AgentSettled):
            self._notify(self._attention.run_settled(self._clock()))
            self._set_working(False)

    def show_progress(self, on: bool) -> None:
        """Whether the window shows that a run is active."""
        self._shows_progress = on
        self._window.set_progress(on and self._title.working)

    def on_focus(self, gained: bool) -> None:
        self._attention.focus(gained)

    def show_questions(self, waiting: int) -> None:
        """This many questions wait for an answer. Call it when that may have changed."""
        self._attention.questions(waiting, self._clock())
        self._retitle(replace(self._title, asking=waiting > 0))

    def show_title(self, folder: str, name: str, given: str | None) -> None:
        """`folder` and `name` of the session; `given` by an extension instead of them."""
        self._retitle(replace(self._title, folder=folder, name=name, given=given))

    def next_change(self) -> float | None:
        """When to call `update`; None if there is nothing to wait for."""
        return self._attention.next_change()

    def update(self) -> None:
        """Notify of a question that has waited long enough."""
        self._notify(self._attention.waiting(self._clock()))

    def _notify(self, text: str | None) -> None:
        if text is not None and self.setting != "off":
            bell_only = self.setting == "bell"
            self._window.write(notification("tau", text, self._environment, bell_only=bell_only))

    def _set_working(self, working: bool) -> None:
        self._retitle(replace(self._title, working=working))
        self._window.set_progress(self._shows_progress and working)

    def _retitle(self, state: TitleState) -> None:
        self._title = state
        title = window_title(state)
        if title != self._shown_title:
            self._shown_title = title
            self._window.set_title(title)

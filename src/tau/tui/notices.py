"""Calls the person back to the terminal, and sets the title of its window.

Events of the session, the focus of the terminal and the number of open questions come in; bytes for the terminal go
out. screen/attention.py decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from tau.core.agent.draft import Update
from tau.records.dialogs import UiRequest
from tau.records.events import AgentSettled, AgentStart, Event
from tau.screen.attention import Attention, TitleState, window_title
from tau.tui.notifications import notification

Setting = Literal["auto", "bell", "off"]


class Notices:
    """`write` sends bytes to the terminal, `set_title` sets the title of its window; `clock` is in seconds."""

    def __init__(
        self,
        write: Callable[[bytes], object],
        set_title: Callable[[str], object],
        clock: Callable[[], float],
        environment: Mapping[str, str],
        setting: Setting = "auto",
    ) -> None:
        self._write = write
        self._set_title = set_title
        self._clock = clock
        self._environment = environment
        self._setting = setting
        self._attention = Attention()
        self._title = TitleState("")
        self._shown_title: str | None = None

    def on_event(self, event: Event | Update | UiRequest) -> None:
        """An event of the session: a run has started or settled."""
        if isinstance(event, AgentStart):
            self._attention.run_started(self._clock())
            self._retitle(self._title._replace(working=True))
        elif isinstance(event, AgentSettled):
            self._notify(self._attention.run_settled(self._clock()))
            self._retitle(self._title._replace(working=False))

    def on_focus(self, gained: bool) -> None:
        self._attention.focus(gained)

    def show_questions(self, waiting: int) -> None:
        """This many questions wait for an answer. Call it when that may have changed."""
        self._attention.questions(waiting, self._clock())
        self._retitle(self._title._replace(asking=waiting > 0))

    def show_title(self, name: str, given: str | None) -> None:
        """`name` of the session or its folder; `given` by an extension instead of it."""
        self._retitle(self._title._replace(name=name, given=given))

    def next_change(self) -> float | None:
        """When to call `update`; None if there is nothing to wait for."""
        return self._attention.next_change()

    def update(self) -> None:
        """Notify of a question that has waited long enough."""
        self._notify(self._attention.waiting(self._clock()))

    def _notify(self, text: str | None) -> None:
        if text is not None and self._setting != "off":
            self._write(notification("tau", text, self._environment, bell_only=self._setting == "bell"))

    def _retitle(self, state: TitleState) -> None:
        self._title = state
        title = window_title(state)
        if title != self._shown_title:
            self._shown_title = title
            self._set_title(title)

from __future__ import annotations

from tau.records.events import AgentSettled, AgentStart
from tau.tui.notices import Notices, Setting


class Window:
    def __init__(self, setting: Setting = "auto", **environment: str) -> None:
        self.now = 0.0
        self.written: list[bytes] = []
        self.titles: list[str] = []
        self.progress: list[bool] = []
        self.write = self.written.append
        self.set_title = self.titles.append
        self.set_progress = self.progress.append
        self.notices = Notices(self, lambda: self.now, environment)
        self.notices.setting = setting


def test_a_long_run_is_announced_at_a_terminal_without_the_focus() -> None:
    window = Window(TERM="xterm-ghostty")
    window.notices.show_title("work", "parser", None)
    window.notices.on_focus(False)
    window.notices.on_event(AgentStart())
    window.now = 42.0
    window.notices.on_event(AgentSettled())
    assert window.written == [b"\x1b]9;tau: Done after 42 s\x1b\\"]
    assert window.titles == ["tau: parser", "✳ tau: parser", "tau: parser"]


def test_a_question_that_waits_is_announced_and_marked_in_the_title() -> None:
    window = Window(TERM="xterm")
    window.notices.show_title("", "", None)
    window.notices.on_focus(False)
    window.notices.show_questions(1)
    window.notices.show_questions(2)
    assert window.notices.next_change() == 5.0
    window.notices.update()
    assert window.written == []
    window.now = 5.0
    window.notices.update()
    window.notices.update()
    assert window.written == [b"\x07"]
    window.notices.show_questions(0)
    window.notices.show_title("", "", "mine")
    assert window.titles == ["tau", "● tau", "tau", "mine"]


def test_notifications_can_be_turned_off() -> None:
    sent: dict[Setting, list[bytes]] = {"off": [], "bell": [b"\x07"]}
    for setting, expected in sent.items():
        window = Window(setting, TERM="xterm-kitty")
        window.notices.on_focus(False)
        window.notices.show_questions(1)
        window.now = 10.0
        window.notices.update()
        assert window.written == expected


def test_the_window_shows_a_run_if_the_setting_is_on_also_if_it_changes_meanwhile() -> None:
    window = Window()
    window.notices.on_event(AgentStart())
    window.notices.on_event(AgentSettled())
    assert not any(window.progress)
    window.notices.show_progress(True)
    window.progress.clear()
    window.notices.on_event(AgentStart())
    window.notices.show_progress(False)
    window.notices.show_progress(True)
    window.notices.on_event(AgentSettled())
    assert window.progress == [True, False, True, False]


def test_the_setting_of_notifications_can_change_while_the_program_runs() -> None:
    window = Window(TERM="xterm-ghostty")
    window.notices.on_focus(False)
    for setting in ("off", "bell"):
        window.notices.setting = setting
        window.notices.on_event(AgentStart())
        window.now += 42.0
        window.notices.on_event(AgentSettled())
    assert window.written == [b"\x07"]

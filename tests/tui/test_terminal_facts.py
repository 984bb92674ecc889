"""What follows from the answers of a terminal and from its environment."""

from __future__ import annotations

import pytest

from tau.screen.colors import color_depth
from tau.screen.input_events import Focus, Reply
from tau.tui.terminal_facts import TerminalFacts, supports_hyperlinks
from tau.tui.terminal_modes import (
    BRACKETED_PASTE,
    KITTY_KEYS,
    PROGRESS,
    ModeList,
    escape_timeout,
    first_modes,
    questions,
    resize_delay,
)


def facts(*replies: Reply | Focus, **environment: str) -> TerminalFacts:
    found = TerminalFacts({"TERM": "xterm-256color", **environment})
    for reply in replies:
        found.learn(reply)
    return found


@pytest.mark.parametrize(
    ("value", "synchronized"), [("2026;2", True), ("2026;1", True), ("2026;0", False), ("2026;4", False)]
)
def test_synchronized_updates_are_used_unless_the_terminal_says_no(value: str, synchronized: bool) -> None:
    assert facts().synchronized
    assert facts(Reply("mode", value)).synchronized is synchronized


@pytest.mark.parametrize(
    ("attributes", "environment", "reflows"),
    [
        ("", {}, True),
        ("1;4000;38", {}, True),
        ("41;390;0", {}, False),
        ("83;50000;0", {}, False),
        ("85;95;0", {}, False),
        ("41;390;0", {"TMUX": "/tmp/tmux"}, True),
        ("", {"TERM": "linux"}, False),
        ("", {"TERM": "st-256color"}, False),
        ("", {"TERM": "vt220"}, False),
        ("", {"TERM": "stterm-kitty"}, True),
    ],
)
def test_some_terminals_do_not_reflow(attributes: str, environment: dict[str, str], reflows: bool) -> None:
    assert facts(Reply("secondaryAttributes", attributes), **environment).reflows is reflows


def test_the_setting_decides_about_reflow_before_the_terminal() -> None:
    found = facts(Reply("secondaryAttributes", "41;390;0"), TMUX="/tmp/tmux")
    found.reflow_setting = False
    assert not found.reflows
    found = facts(Reply("secondaryAttributes", "41;390;0"))
    found.reflow_setting = True
    assert found.reflows


def test_an_empty_variable_counts_as_not_set() -> None:
    empty = {"TMUX": "", "SSH_CONNECTION": "", "SSH_TTY": ""}
    assert (resize_delay(empty), escape_timeout(empty)) == (resize_delay({}), escape_timeout({}))
    assert not facts(Reply("secondaryAttributes", "41;390;0"), TMUX="").reflows
    assert supports_hyperlinks({"TERM": "xterm-kitty", "TMUX": ""})
    assert color_depth({"TERM": "xterm", "TERM_PROGRAM": "iTerm.app", "TMUX": ""}, "auto") == "truecolor"


def test_the_last_word_about_the_background_counts() -> None:
    assert facts().light_background is None
    assert facts(Reply("background", "rgb:ffff/ffff/ffff")).light_background is True
    assert facts(Reply("background", "rgb:ffff/ffff/ffff"), Reply("colorScheme", "dark")).light_background is False


def test_the_focus_is_known_after_the_first_change() -> None:
    assert facts().focused
    assert not facts(Focus(False)).focused
    assert facts(Focus(False), Focus(True)).focused


def test_the_answers_are_complete_with_the_last_question() -> None:
    assert not facts(Reply("kittyFlags", "0")).complete
    assert facts(Reply("kittyFlags", "0")).kitty_keys
    assert facts(Reply("primaryAttributes", "62")).complete


@pytest.mark.parametrize(
    ("environment", "supported"),
    [
        ({"TERM": "xterm-256color"}, False),
        ({"TERM": "xterm-kitty"}, True),
        ({"TERM": "xterm-256color", "VTE_VERSION": "6003"}, True),
        ({"TERM": "xterm-256color", "VTE_VERSION": "4800"}, False),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "vscode"}, True),
        ({"TERM": "tmux-256color", "TERM_PROGRAM": "WezTerm", "TMUX": "/tmp/tmux"}, False),
        ({"TERM": "linux"}, False),
    ],
)
def test_hyperlinks_are_for_terminals_that_are_known_to_show_them(environment: dict[str, str], supported: bool) -> None:
    assert supports_hyperlinks(environment) is supported


def test_the_linux_console_is_asked_only_what_it_knows() -> None:
    assert questions({"TERM": "linux"}) == b"\x1b[c"
    assert first_modes({"TERM": "linux"}) == (BRACKETED_PASTE,)
    assert questions({"TERM": "xterm"}).endswith(b"\x1b[c")


def test_timeouts_follow_the_connection() -> None:
    assert escape_timeout({}) == 0.025
    assert escape_timeout({"SSH_CONNECTION": "a"}) == 0.1
    assert escape_timeout({"SSH_CONNECTION": "a", "PI_TUI_ESC_TIMEOUT": "40"}) == 0.04
    assert escape_timeout({"PI_TUI_ESC_TIMEOUT": "soon"}) == 0.025
    assert resize_delay({}) == 0.06
    assert resize_delay({"TMUX": "/tmp/tmux"}) == 0.35


def test_modes_are_undone_backwards() -> None:
    modes = ModeList()
    assert modes.enable(BRACKETED_PASTE, KITTY_KEYS) == b"\x1b[?2004h\x1b[>5u"
    assert modes.enable(BRACKETED_PASTE) == b""
    assert modes.enable(PROGRESS) == PROGRESS.enable
    assert modes.disable(PROGRESS) == PROGRESS.undo
    assert modes.disable(PROGRESS) == b""
    assert modes.undo() == b"\x1b[<u\x1b[?2004l"
    assert modes.redo() == b"\x1b[?2004h\x1b[>5u"

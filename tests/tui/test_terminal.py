"""The terminal device: type-ahead, questions, sizes, slow output, and its restoration on every way out."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping

import pytest

from support.terminal import Terminal

PROGRAM = [sys.executable, "-m", "support.terminal_program"]
ENVIRONMENT = {
    "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    **{name: "" for name in ("PI_TUI_ESC_TIMEOUT",)},
}


def started(*arguments: str, answers: str = "kitty", env: Mapping[str, str] | None = None) -> Terminal:
    terminal = Terminal([*PROGRAM, *arguments], rows=24, cols=80, answers=answers, env={**ENVIRONMENT, **(env or {})})
    terminal.wait("started")
    return terminal


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    with started() as terminal:
        terminal.wait("primaryAttributes")
        yield terminal


def is_restored(terminal: Terminal) -> bool:
    return terminal.modes() == set() and terminal.settings_now() == terminal.settings


def test_keys_typed_before_the_program_has_started_are_events() -> None:
    with Terminal(PROGRAM, env=ENVIRONMENT) as terminal:
        terminal.type("yw ü")
        shown = terminal.wait("text='ü'")
        assert shown.count("text='y'") == 1
        assert "text='w'" in shown


def test_the_terminal_is_asked_once_and_modes_follow_its_answers(terminal: Terminal) -> None:
    terminal.wait_raw(b"\x1b[>5u")
    assert terminal.modes() == {"2004", "1004", "2031", "kitty"}
    assert terminal.raw().count(b"\x1b[?u") == 1


def test_a_terminal_without_the_kitty_protocol_gets_modify_other_keys() -> None:
    with started(answers="xterm") as terminal:
        terminal.wait_raw(b"\x1b[>4;2m")
        assert terminal.modes() == {"2004", "1004", "2031", "otherKeys"}
        terminal.press("q")
        assert terminal.wait_end() == 0
        assert is_restored(terminal)


def test_a_terminal_that_does_not_answer_works() -> None:
    with started(answers="silent") as terminal:
        terminal.press("a")
        terminal.wait("id='a'")
        terminal.press("q")
        assert terminal.wait_end() == 0
        assert is_restored(terminal)


@pytest.mark.promise("T06")
def test_answers_that_come_late_are_not_keys() -> None:
    with started(answers="silent") as terminal:
        terminal.press("x")
        terminal.wait("id='x'")
        terminal.type(b"\x1b[?0u\x1b]11;rgb:ffff/ff")
        terminal.wait("kittyFlags")
        terminal.wait_quiet()
        terminal.type(b"ff/ffff\x1b\\\x1b[?2026;2$y\x1b[>1;1;0c\x1b[?62c")
        assert terminal.wait("primaryAttributes").count("Key(") == 1


@pytest.mark.promise("T06")
def test_wrong_answers_do_no_harm() -> None:
    with started(answers="silent") as terminal:
        terminal.type(b"\x1b[?99999999999u\x1b]11;\x07\x1b]11;no color\x1b\\\x1b[?2026$y\x1b[?;;;$y\x1b[>c\x1b[?c")
        terminal.wait("primaryAttributes")
        terminal.resize(20, 40)
        terminal.wait("size 20 40")
        terminal.press("q")
        assert terminal.wait_end() == 0
        assert is_restored(terminal)


def test_escape_alone_is_a_key_and_before_a_letter_it_is_alt(terminal: Terminal) -> None:
    terminal.press("escape")
    terminal.wait("id='escape'")
    terminal.press("alt+a")
    terminal.wait("id='alt+a'")


def test_a_slow_escape_sequence_is_one_key_over_ssh() -> None:
    with started(env={"PI_TUI_ESC_TIMEOUT": "60000"}) as terminal:
        terminal.type(b"\x1b")
        terminal.wait_quiet()
        terminal.type(b"[A")
        assert "escape" not in terminal.wait("id='up'")


def test_a_paste_is_one_event(terminal: Terminal) -> None:
    terminal.paste("one\ntwo")
    terminal.wait("Paste(text='one\\ntwo')")


def test_a_megabyte_is_pasted(terminal: Terminal) -> None:
    terminal.paste("0123456789" * 100_000)
    terminal.wait("paste of 1000000")


@pytest.mark.promise("T05")
def test_a_paste_whose_end_is_lost_does_not_keep_the_keyboard(terminal: Terminal) -> None:
    terminal.type(b"\x1b[200~abc")
    terminal.wait("Paste(text='abc')")
    terminal.press("a")
    terminal.wait("id='a'")


def test_sizes_are_reported_when_they_have_settled(terminal: Terminal) -> None:
    terminal.resize(30, 100)
    terminal.resize(10, 40)
    shown = terminal.wait("size 10 40")
    assert "size 30 100" not in shown


def test_standard_streams_stay_blocking(terminal: Terminal) -> None:
    terminal.press("b")
    terminal.wait("blocking: True")


@pytest.mark.promise("T02")
def test_the_title_is_cleaned_and_restored(terminal: Terminal) -> None:
    terminal.press("t")
    terminal.wait_raw(b"\x1b[22;2t")
    terminal.wait_quiet()
    assert terminal.recorder.titles == ["a\\x1b]0;evil\\x07 title"]
    assert "title" in terminal.modes()
    terminal.press("q")
    terminal.wait_end()
    assert is_restored(terminal)


@pytest.mark.parametrize(("key", "code"), [("q", 0), ("e", 1), ("s", 3)])
@pytest.mark.parametrize("careless", [[], ["careless"]])
def test_the_terminal_is_restored_at_the_end(key: str, code: int, careless: list[str]) -> None:
    """By a key, an exception, SystemExit in a callback; with `careless` nothing calls close, and atexit restores."""
    with started(*careless) as terminal:
        terminal.wait("primaryAttributes")
        terminal.press("h")
        terminal.press(key)
        assert terminal.wait_end() == code
        assert is_restored(terminal)


ENDING = [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT]


@pytest.mark.promise("T07")
@pytest.mark.parametrize("number", ENDING)
def test_the_terminal_is_restored_when_a_signal_ends_the_program(terminal: Terminal, number: signal.Signals) -> None:
    terminal.press("h")
    terminal.wait("id='h'")
    terminal.signal(number)
    assert terminal.wait_end() == -number
    assert is_restored(terminal)


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_lets_the_program_end_in_order(number: signal.Signals) -> None:
    with started("orderly") as terminal:
        terminal.signal(number)
        assert terminal.wait_end() == 0
        assert f"signal {int(number)}\nbye" in terminal.wait("bye")
        assert is_restored(terminal)


def test_the_terminal_is_restored_at_once_after_the_start() -> None:
    """The answers to the questions arrive after the end, and are not left to the shell."""
    with Terminal(PROGRAM, env=ENVIRONMENT) as terminal:
        terminal.type("q")
        assert terminal.wait_end() == 0
        assert is_restored(terminal)
        assert "62;22" not in terminal.wait_quiet().partition("bye")[2]


def test_a_hang_up_lets_the_program_end_in_order() -> None:
    with started("orderly", "quiet") as terminal:
        terminal.hang_up()
        assert terminal.process.wait(20) == 0


def test_a_second_signal_ends_a_program_that_does_not_end() -> None:
    with started("stubborn") as terminal:
        terminal.signal(signal.SIGTERM)
        terminal.wait("signal 15")
        terminal.signal(signal.SIGHUP)
        terminal.press("a")
        terminal.wait("id='a'")
        terminal.signal(signal.SIGTERM)
        assert terminal.wait_end() == -signal.SIGTERM
        assert is_restored(terminal)


def test_a_hang_up_ends_the_program() -> None:
    with started() as terminal:
        terminal.hang_up()
        assert terminal.process.wait(20) == -signal.SIGHUP


@pytest.mark.promise("T12")
@pytest.mark.parametrize("end", ["s", signal.SIGTERM])
def test_a_terminal_that_is_not_read_can_be_left(terminal: Terminal, end: str | signal.Signals) -> None:
    """A frame is half written, and nothing reads the rest until the program has ended."""
    terminal.press("f")
    terminal.wait_raw(b"x" * 1000)
    if isinstance(end, str):
        terminal.press(end)
    else:
        terminal.signal(end)
    assert terminal.process.wait(20) == (3 if end == "s" else -signal.SIGTERM)
    assert terminal.settings_now() == terminal.settings


@pytest.mark.promise("T10")
def test_another_program_gets_the_terminal_as_it_was(terminal: Terminal) -> None:
    if shutil.which("stty") is None:
        pytest.skip("no stty here")
    terminal.press("o")
    shown = terminal.wait("resumed")
    assert shown.index("handed over") < shown.index("icanon")
    assert " icanon" in shown and " echo " in shown and "-icanon" not in shown
    terminal.press("a")
    terminal.wait("id='a'")
    assert terminal.modes() == {"2004", "1004", "2031", "kitty"}


@pytest.fixture
def shell() -> Iterator[Terminal]:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash here")
    with Terminal([bash, "--norc", "--noprofile", "-i"], env={**ENVIRONMENT, "PS1": "shell> "}) as terminal:
        terminal.wait("shell>")
        yield terminal


def run_in(shell: Terminal, redirection: str = "") -> None:
    shell.type(" ".join([*PROGRAM, "quiet", redirection]) + "\r")
    shell.wait("primaryAttributes")


@pytest.mark.parametrize("redirection", ["<&-", "</dev/null", "</dev/null 2>&-"])
def test_a_program_without_standard_input_finds_the_terminal(shell: Terminal, redirection: str) -> None:
    run_in(shell, redirection)
    shell.press("a")
    shell.wait("id='a'")
    shell.press("q")
    wait_for_prompt(shell)


def test_an_ignored_signal_stays_ignored(shell: Terminal) -> None:
    shell.type("trap '' HUP; " + " ".join([*PROGRAM, "quiet"]) + "\r")
    shell.wait("primaryAttributes")
    shell.signal(signal.SIGHUP)
    shell.press("a")
    shell.wait("id='a'")
    shell.press("q")
    wait_for_prompt(shell)


def test_a_program_without_a_terminal_says_so(shell: Terminal) -> None:
    shell.type(" ".join(PROGRAM) + " </dev/null 2>&1 | tail -1\r")
    shell.wait("tau needs a terminal")


def wait_for_prompt(shell: Terminal) -> None:
    shell.wait(lambda shown: shown.rstrip().endswith("shell>"))


@pytest.mark.parametrize("how", ["key", "signal"])
def test_a_stopped_program_gives_the_terminal_back_and_continues(shell: Terminal, how: str) -> None:
    run_in(shell)
    if how == "key":
        shell.press("ctrl+z")
    else:
        shell.type("x")
        shell.wait("id='x'")
        shell.signal(signal.SIGTSTP)
    assert "handed over" in shell.wait("Stopped")
    wait_for_prompt(shell)
    assert shell.modes() - {"2004"} == set()  # bash turns on bracketed paste
    shell.type("stty -a | grep -c -- -icanon; fg\r")
    shell.wait("resumed")
    shell.press("a")
    shell.wait("id='a'")
    assert "kitty" in shell.modes()
    shell.press("q")
    wait_for_prompt(shell)


def test_a_stopped_program_in_the_background_stays_stopped(shell: Terminal) -> None:
    run_in(shell)
    shell.press("ctrl+z")
    shell.wait("Stopped")
    shell.type("clear; bg\r")
    shell.wait(lambda shown: shown.count("Stopped") == 1 or "&" in shown)
    shell.type("clear; jobs\r")
    shell.wait("Stopped")
    shell.type("fg\r")
    shell.wait("resumed")
    shell.press("q")
    wait_for_prompt(shell)


def test_after_a_stop_that_cannot_be_prepared_the_modes_are_set_again(shell: Terminal) -> None:
    run_in(shell)
    shell.signal(signal.SIGSTOP)
    shell.wait("Stopped")
    wait_for_prompt(shell)
    shell.type("fg\r")
    shell.wait("resumed")
    shell.press("a")
    shell.wait("id='a'")
    shell.press("q")
    wait_for_prompt(shell)

"""The whole program under an interactive shell: stop and continue, by key and from outside."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cli_process import PI, scripted
from support.interface import RULE
from support.rpc_process import endless, surroundings
from support.terminal import Terminal

PROMPT = "shell>"


class Shell(Terminal):
    """bash in a pseudo terminal; `run` starts tau as its job."""

    def __init__(self, folder: Path) -> None:
        bash = shutil.which("bash")
        if bash is None or shutil.which("stty") is None:
            pytest.skip("no bash or no stty here")
        environment = {**surroundings(folder), "SSH_CONNECTION": "", "TMUX": "", "PS1": f"{PROMPT} "}
        super().__init__(
            [bash, "--norc", "--noprofile", "--noediting", "-i"], env=environment, cwd=str(folder / "work"), cols=100
        )
        self._argv = [*PI, *scripted(folder, {"text": "first answer"}, endless("so far "))]
        self.wait(PROMPT)
        self.type("echo $$ kept in history\r")
        self.wait("kept in history\n")

    def run(self) -> None:
        self.type(shlex.join(self._argv) + "\r")
        self.wait(RULE)
        self.type("hello\r")
        self.wait("first answer")
        self.wait(lambda shown: "Working" not in shown)
        self.wait_quiet()

    def job(self) -> int:
        """The process group in the foreground."""
        return os.tcgetpgrp(self._master)

    def wait_for_prompt(self) -> None:
        self.wait(lambda shown: shown.rstrip().endswith(PROMPT))

    def command(self, text: str, end: str) -> str:
        """Run a command of the shell and return what it printed."""
        self.type(f"{text}; echo {end[:2]}''{end[2:]}\r")
        shown = self.wait(end)
        self.wait_for_prompt()
        return shown.partition(end)[0]

    def assert_one_box(self, ghosts: int = 0) -> None:
        """`ghosts`: rows of an older box above it, where it could not be known where the cursor was."""
        rows = self.screen()
        shown = "\n".join(rows).rpartition(PROMPT)[2].split("\n")
        assert sum(row.startswith("──") for row in shown) <= 2 + ghosts, rows
        assert any("kept in history" in row for row in [*self.history(), *rows])

    def use(self, ghosts: int = 0) -> None:
        """The interface is drawn, takes keys, and can be left."""
        self.wait(lambda shown: RULE in shown.rpartition(PROMPT)[2])
        self.type("typed later")
        self.wait("typed later")
        self.assert_one_box(ghosts)
        self.press("ctrl+c")
        self.wait(lambda shown: "typed later" not in shown.rpartition(PROMPT)[2])


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with Shell(tmp_path) as shell:
        yield shell


def stop(shell: Shell, how: str) -> None:
    match how:
        case "key":
            shell.press("ctrl+z")
        case "TSTP":
            os.kill(shell.job(), signal.SIGTSTP)
        case "STOP":
            os.kill(shell.job(), signal.SIGSTOP)
    shell.wait(lambda shown: PROMPT in shown.partition("Stopped")[2])
    shell.wait_quiet()


@pytest.mark.promise("T09")
@pytest.mark.parametrize("how", ["key", "TSTP"])
def test_a_stop_leaves_a_sane_prompt_and_fg_draws_the_interface_again(shell: Shell, how: str) -> None:
    before = shell.settings_now()
    shell.run()
    stop(shell, how)
    assert RULE not in "\n".join(shell.screen())
    assert shell.modes() == set()
    assert shell.settings_now() == before
    printed = shell.command("stty -a", "stty-is-done")
    assert re.search(r"(?<!-)icanon", printed) and re.search(r"(?<!-)\becho\b", printed)
    shell.type("fg\r")
    shell.use()
    shell.press("ctrl+d")
    shell.wait_for_prompt()
    assert (shell.modes(), shell.settings_now()) == (set(), before)


@pytest.mark.promise("T09")
def test_a_stop_that_cannot_be_prepared_is_repaired_by_fg(shell: Shell) -> None:
    before = shell.settings_now()
    shell.run()
    stop(shell, "STOP")
    shell.type("fg\r")
    shell.use()
    shell.press("ctrl+d")
    shell.wait_for_prompt()
    assert (shell.modes(), shell.settings_now()) == (set(), before)


@pytest.mark.promise("T09")
def test_a_ctrl_c_that_reaches_a_stopped_program_does_not_end_it(shell: Shell) -> None:
    shell.run()
    job = shell.job()
    shell.press("ctrl+z")
    shell.wait_for_prompt()
    os.kill(job, signal.SIGINT)  # it is pending until `fg`
    shell.type("fg\r")
    shell.use()


def test_a_continue_from_outside_without_a_stop_changes_nothing(shell: Shell) -> None:
    shell.run()
    os.kill(shell.job(), signal.SIGCONT)
    shell.wait_quiet()
    shell.use(ghosts=1)


def test_a_stop_while_an_answer_arrives_and_the_answer_goes_on(shell: Shell) -> None:
    shell.run()
    shell.type("go\r")
    shell.wait("so far")
    stop(shell, "key")
    shell.type("fg\r")
    shell.wait(lambda shown: "Working" in shown.rpartition(PROMPT)[2])
    shell.press("escape")
    shell.wait("Stopped.")
    shell.use()


@pytest.mark.promise("T09")
def test_a_stopped_program_in_the_background_uses_no_processor_and_leaves_the_terminal_alone(shell: Shell) -> None:
    shell.run()
    job = shell.job()
    stop(shell, "key")
    ticks = cpu(job)
    settings = shell.settings_now()
    shell.type("bg\r")
    shell.wait("&")
    os.kill(job, signal.SIGCONT)
    shell.command("sleep 1", "slept-well")
    assert shell.settings_now() == settings
    assert cpu(job) - ticks < 20  # of 100 in a second
    assert "Stopped" in shell.command("clear; jobs", "listed-all")
    shell.type("clear; fg\r")
    shell.wait(RULE)
    shell.type("typed later")
    shell.wait("typed later")


def cpu(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


@pytest.mark.promise("T09")
@pytest.mark.parametrize("how", ["key", "TSTP", "STOP"])
def test_a_stop_in_the_transcript_viewer_shows_the_shell_and_then_the_viewer_again(shell: Shell, how: str) -> None:
    shell.run()
    shell.press("alt+o")
    shell.wait("Transcript · end")
    stop(shell, how)
    shell.wait_for_prompt()
    assert how == "STOP" or shell.modes() == set()
    shell.type("fg\r")
    shell.wait(lambda shown: shown.endswith("e editor · Home End") and PROMPT not in shown)
    shell.type("q")
    shell.wait(lambda shown: "Transcript" not in shown)
    shell.use()

"""Helper programs that fork, ignore SIGTERM and keep their pipes open: nobody waits for what they leave behind."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Any, NamedTuple

import pytest

from support.rpc_process import WITHIN, is_gone
from tau.concurrency import helper_commands
from tau.extension_api import programs as extension_programs
from tau.fleet import git as fleet_git
from tau.llm import aws
from tau.runtime import tmux
from tau.runtime.app import session_files
from tau.store import config_values
from tau.store.packages.programs import capture
from tau.store.packages.programs import run_program as run_package_program
from tau.tui import external_editor, file_index
from tau.tui.programs import ProgramFailure
from tau.tui.programs import run_program as run_screen_program

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="only Linux lists children of processes")

ANSWER = "the answer"
# Both processes say which they are; the pipe of the answer stays open as long as one of them lives.
PROGRAM = """#!{python}
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
reading, writing = os.pipe()
child = os.fork()
if not child:
    os.write(writing, b"x")
    time.sleep(600)
os.read(reading, 1)
with open({pids!r} + ".new", "w") as file:
    file.write(f"{{os.getpid()}} {{child}}")
os.rename({pids!r} + ".new", {pids!r})
print({answer!r}, flush=True)
if {hangs}:
    time.sleep(600)
"""


class Helper(NamedTuple):
    program: str
    pids: Path

    def processes(self) -> list[int]:
        return [int(word) for word in self.pids.read_text().split()] if self.pids.exists() else []


@pytest.fixture
def helper(tmp_path: Path) -> Iterator[Callable[..., Helper]]:
    made: list[Helper] = []

    def make(*, hangs: bool, name: str = "helper") -> Helper:
        helper = Helper(str(tmp_path / name), tmp_path / "pids")
        text = PROGRAM.format(python=sys.executable, pids=str(helper.pids), answer=ANSWER, hangs=hangs)
        Path(helper.program).write_text(text)
        Path(helper.program).chmod(0o700)
        made.append(helper)
        return helper

    yield make
    for one in made:
        for pid in one.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def in_screen(helper: Helper, limit: float) -> Any:
    return asyncio.run(run_screen_program([helper.program], timeout=limit)).stdout.decode()


def in_screen_with_input(helper: Helper, limit: float) -> Any:
    done = asyncio.run(run_screen_program([helper.program], input=b"x" * 1_000_000, timeout=limit))
    return done.stdout.decode()


def in_extension(helper: Helper, limit: float) -> Any:
    extension_programs.TERMINATE_TIMEOUT_S = 0.1
    done = asyncio.run(extension_programs.run_program(helper.program, [], int(limit * 1000), None))
    if done["killed"]:
        raise TimeoutError
    return done["stdout"]


def for_package(helper: Helper, limit: float) -> Any:
    return "\n".join(run_package_program([helper.program], Path("/"), show=lambda line: None))


def for_package_answer(helper: Helper, limit: float) -> Any:
    return capture([helper.program], Path("/"))


def for_key(helper: Helper, limit: float) -> Any:
    config_values.COMMAND_TIMEOUT_S = limit  # type: ignore[assignment]
    found = config_values.command_output(helper.program, os.environ)
    if found is None:
        raise TimeoutError
    return found


def for_aws(helper: Helper, limit: float) -> Any:
    aws.PROCESS_TIMEOUT_S = limit
    process = aws.CredentialProcess([helper.program], stdout=-1, stderr=-1)
    return process.communicate()[0].decode()


def for_tmux(helper: Helper, limit: float) -> Any:
    tmux.TIMEOUT_S = limit
    if not (link := Path(helper.program).with_name("tmux")).exists():
        link.symlink_to(helper.program)
    environment = {**os.environ, "TMUX": "1", "PATH": f"{Path(helper.program).parent}:{os.environ['PATH']}"}
    found = tmux.tmux_options(environment, ["one"])
    if not found:
        raise TimeoutError
    return found["one"]


def for_fleet(helper: Helper, limit: float) -> Any:
    fleet_git.TIMEOUT_S = limit
    if not (link := Path(helper.program).with_name("git")).exists():
        link.symlink_to(helper.program)
    environment = {**os.environ, "PATH": f"{Path(helper.program).parent}:{os.environ['PATH']}"}
    try:
        return asyncio.run(fleet_git.git("/", "status", env=environment)).decode()
    except fleet_git.GitError as error:
        assert str(error).startswith("git status: did not end within")
        raise TimeoutError from None


def for_version(helper: Helper, limit: float) -> Any:
    return helper_commands.run_helper([helper.program], timeout=limit)[1].decode()


RUNNERS = {
    "terminal": in_screen,
    "terminal, with input": in_screen_with_input,
    "extension": in_extension,
    "package": for_package,
    "package, one answer": for_package_answer,
    "key": for_key,
    "AWS": for_aws,
    "tmux": for_tmux,
    "doctor, trash": for_version,
    "git of a fleet": for_fleet,
}
WITH_LIMIT = {name: runner for name, runner in RUNNERS.items() if not name.startswith("package")}


@pytest.fixture(autouse=True)
def limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runners change them; they are restored after the test."""
    for module, name in (
        (extension_programs, "TERMINATE_TIMEOUT_S"),
        (config_values, "COMMAND_TIMEOUT_S"),
        (aws, "PROCESS_TIMEOUT_S"),
        (tmux, "TIMEOUT_S"),
        (session_files, "TRASH_TIMEOUT_S"),
        (fleet_git, "TIMEOUT_S"),
    ):
        monkeypatch.setattr(module, name, getattr(module, name))


def within(work: Callable[[], Any]) -> Any:
    """The result of what must not hang, or its exception."""
    found: list[Any] = []

    def carry_out() -> None:
        try:
            found.append(work())
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=carry_out, daemon=True)
    thread.start()
    thread.join(WITHIN)
    assert found, "it waits for what the program has left behind"
    return found[0]


@pytest.mark.parametrize("runner", RUNNERS.values(), ids=RUNNERS)
def test_an_answer_does_not_wait_for_what_the_program_leaves_behind(
    runner: Callable[[Helper, float], Any], helper: Callable[..., Helper]
) -> None:
    made = helper(hangs=False)
    answer = within(lambda: runner(made, 600.0))
    assert isinstance(answer, str) and answer.strip() == ANSWER
    leader, child = made.processes()
    assert is_gone(leader, within=WITHIN) and not is_gone(child, within=0)


@pytest.mark.parametrize("runner", WITH_LIMIT.values(), ids=WITH_LIMIT)
def test_a_program_out_of_time_is_killed_with_what_it_has_started(
    runner: Callable[[Helper, float], Any], helper: Callable[..., Helper]
) -> None:
    made = helper(hangs=True)
    for limit in (0.5, 2.0, 8.0):
        outcome = within(partial(runner, made, limit))
        assert isinstance(outcome, TimeoutError | TimeoutExpired | ProgramFailure), outcome
        if made.processes():  # else the machine was too slow for this limit
            break
    assert [is_gone(pid, within=WITHIN) for pid in made.processes()] == [True, True]


def test_the_list_of_files_does_not_wait_for_what_its_program_leaves_behind(
    tmp_path: Path, helper: Callable[..., Helper], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = helper(hangs=False, name="rg")
    monkeypatch.setattr("tau.tools.ripgrep.find_ripgrep", lambda cwd: made.program)
    within(lambda: list(file_index.list_files(str(tmp_path))))
    assert len(made.processes()) == 2


def test_an_editor_that_is_cancelled_ends(helper: Callable[..., Helper], monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the terminal and no pipes; SIGTERM comes first."""
    made = helper(hangs=True)
    monkeypatch.setattr(external_editor, "STOP_TIMEOUT_S", 0.1)

    async def story() -> None:
        editing = asyncio.ensure_future(external_editor._run([made.program]))
        while not made.processes():
            await asyncio.sleep(0.01)
        editing.cancel()
        await asyncio.wait([editing])

    within(lambda: asyncio.run(story()))
    assert is_gone(made.processes()[0], within=WITHIN)

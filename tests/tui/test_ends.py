"""Every way out of the interface, in every state: the terminal is restored and the session file is whole."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.interface import Interface
from support.rpc_process import calls, endless, is_gone

# States of the interface.


def idle(tau: Interface) -> None:
    tau.send("hi")
    tau.wait("ready")
    tau.settle()


def streaming(tau: Interface) -> None:
    idle(tau)
    tau.send("more")
    tau.wait("Working")


def asking(tau: Interface) -> None:
    idle(tau)
    tau.send("more")
    tau.wait("Deny")


def listing(tau: Interface) -> None:
    idle(tau)
    tau.send("/fork")
    tau.wait("Fork before")


def editing(tau: Interface) -> None:
    idle(tau)
    tau.press("ctrl+g")
    tau.wait("the editor has the terminal")


STATES: dict[Callable[[Interface], None], list[object]] = {
    idle: [{"text": "ready"}],
    streaming: [{"text": "ready"}, endless("so far ")],
    asking: [{"text": "ready"}, calls("echo asked > asked")],
    listing: [{"text": "ready"}],
    editing: [{"text": "ready"}],
}


def interface(folder: Path, state: Callable[[Interface], None], fault: str = "", **how: object) -> Interface:
    editor = folder / "editor"
    editor.write_text("#!/bin/sh\necho the editor has the terminal\necho $$ > editor.pid\nexec sleep 600\n")
    editor.chmod(0o700)
    path = os.pathsep.join(one for one in sys.path if one)
    more = {"program": [sys.executable, "-m", "support.faulty_interface", fault]} if fault else {}
    arguments = ["--permissions", "ask"] if state is asking else []
    tau = Interface(
        folder,
        *arguments,
        script=STATES[state],  # type: ignore[arg-type]
        env={"VISUAL": str(editor), "PYTHONPATH": path},
        **more,
        **how,
    )
    tau.start()
    state(tau)
    return tau


def assert_left(tau: Interface, code: int) -> None:
    assert tau.wait_end() == code
    tau.assert_restored()
    messages = [entry["message"] for entry in tau.session_entries() if entry["type"] == "message"]
    assert [message["role"] for message in messages][:2] == ["user", "assistant"]
    assert not (tau.folder / "work" / "asked").exists()


# The person leaves.


@pytest.mark.promise("T07")
def test_ctrl_d_leaves(tmp_path: Path) -> None:
    with interface(tmp_path, idle) as tau:
        tau.press("ctrl+d")
        assert_left(tau, 0)


@pytest.mark.promise("T07")
@pytest.mark.parametrize("state", [idle, streaming])
def test_quit_leaves(state: Callable[[Interface], None], tmp_path: Path) -> None:
    with interface(tmp_path, state) as tau:
        tau.send("/quit")
        assert_left(tau, 0)


@pytest.mark.promise("T07")
@pytest.mark.parametrize("state", [idle, streaming, asking])
def test_ctrl_c_twice_leaves(state: Callable[[Interface], None], tmp_path: Path) -> None:
    with interface(tmp_path, state) as tau:
        tau.press("ctrl+c")
        tau.press("ctrl+c")
        assert_left(tau, 0)


# Signals.


@pytest.mark.promise("T07")
@pytest.mark.parametrize(
    ("number", "state"),
    [
        (signal.SIGTERM, idle),
        (signal.SIGTERM, asking),
        (signal.SIGTERM, listing),
        (signal.SIGTERM, editing),
        (signal.SIGHUP, streaming),
        (signal.SIGHUP, editing),
        (signal.SIGINT, idle),
        (signal.SIGINT, asking),
        (signal.SIGQUIT, streaming),
        (signal.SIGQUIT, listing),
    ],
)
def test_a_signal_ends_the_program(number: signal.Signals, state: Callable[[Interface], None], tmp_path: Path) -> None:
    with interface(tmp_path, state) as tau:
        os.kill(tau.process.pid, number)
        if state is not editing:
            assert_left(tau, 128 + number)
            return
        assert tau.wait_end() == 128 + number
        assert (tau.modes(), tau.settings_now()) == (set(), tau.settings)
        assert is_gone(int((tmp_path / "work" / "editor.pid").read_text()), within=5)


@pytest.mark.promise("T07")
@pytest.mark.parametrize("state", [idle, streaming, asking])
def test_a_hang_up_ends_the_program(state: Callable[[Interface], None], tmp_path: Path) -> None:
    with interface(tmp_path, state) as tau:
        tau.hang_up()
        assert tau.process.wait(20) == 129
        assert tau.session_entries()


# Errors of the program.


@pytest.mark.promise("T08")
@pytest.mark.parametrize(
    ("fault", "state", "code"),
    [
        ("callback", idle, 1),
        ("callback", asking, 1),
        ("painter", streaming, 1),
        ("painter", listing, 1),
        ("theme", idle, 1),
        ("view", asking, 1),
        ("event", streaming, 1),
        ("SystemExit", streaming, 1),
    ],
)
def test_an_error_in_the_interface_restores_the_terminal_and_is_shown_there(
    fault: str, state: Callable[[Interface], None], code: int, tmp_path: Path
) -> None:
    with interface(tmp_path, state, fault) as tau:
        tau.type(b"\x1b[24~x")  # F12, and a key that must be drawn
        if fault == "event":
            tau.press("escape")  # the end of the answer may be an update already
            tau.wait(lambda shown: "Stopped" in shown or tau.process.poll() is not None)
            tau.type("again")  # if it was not, that of this one is; otherwise nobody reads it
            tau.wait(lambda shown: "again" in shown or tau.process.poll() is not None)
            tau.press("enter")
        assert_left(tau, code)
        shown = "\n".join([*tau.history(), *tau.screen()])
        assert shown.count("Traceback") == (fault != "SystemExit")
        assert (f"Fault: {fault}" in shown) == (fault != "SystemExit")


# Extensions.

CRASHING = """
import os, signal

def setup(pi):
    @pi.command("crash")
    def crash(args, ctx):
        ctx.ui.set_status("k", "about to crash")
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.promise("T08")
def test_an_extension_that_crashes_leaves_the_interface_alone(tmp_path: Path) -> None:
    (tmp_path / "crashing.py").write_text(CRASHING)
    with Interface(tmp_path, "-e", str(tmp_path / "crashing.py"), script=[{"text": "ready"}]) as tau:
        tau.start()
        idle(tau)
        tau.send("/crash")
        tau.wait("SIGKILL")
        tau.settle()
        tau.send("still here")
        tau.wait("> still here")
        tau.settle()
        tau.press("ctrl+d")
        assert_left(tau, 0)


SLOW = """
import time

time.sleep(1)

def setup(pi):
    @pi.command("slow")
    def slow(args, ctx):
        ctx.ui.notify("It runs.")
"""


def test_what_is_typed_before_the_extensions_have_started_is_for_them(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    with Interface(tmp_path, "-e", str(tmp_path / "slow.py")) as tau:
        tau.start()
        tau.type("/slow\r")
        tau.wait("It runs.")


@pytest.mark.promise("T07")
def test_a_signal_before_the_first_frame_restores_the_terminal(tmp_path: Path) -> None:
    with Interface(tmp_path) as tau:
        tau.wait_raw(b"\x1b[?2004h")
        os.kill(tau.process.pid, signal.SIGTERM)
        assert tau.wait_end() == 143
        assert (tau.modes(), tau.settings_now()) == (set(), tau.settings)

"""The example clients of pi's documents run as they are: `pi` is on the PATH, and the settings name a model."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from support.rpc_process import WITHIN, Agent, joined_deltas, surroundings

CLIENTS = Path(__file__).parent.parent / "golden" / "clients"
DEMO = {"defaultProvider": "tau", "defaultModel": "demo"}


def answer_to(message: str, folder: Path) -> str:
    """What the demo model says to it, asked directly."""
    with Agent(folder, settings=DEMO, offline=False) as agent:
        answer = joined_deltas(agent.prompt(message))
    assert "offline demo" in answer
    return answer


def environment(folder: Path) -> dict[str, str]:
    known = surroundings(folder, DEMO)
    scripts = Path(sys.executable).parent
    if not (scripts / "pi").exists():
        pytest.fail(f"there is no pi in {scripts}: install the project there, as make test does")
    return {**known, "PATH": f"{scripts}:{known.get('PATH', '')}"}


def test_the_python_client_prints_the_answer_as_it_streams(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, CLIENTS / "basic_client.python"],
        env=environment(tmp_path / "client"),
        cwd=tmp_path / "client" / "work",
        capture_output=True,
        encoding="utf-8",
        timeout=WITHIN,
        check=True,
    )
    assert done.stdout == answer_to("Hello!", tmp_path / "direct") + "\n"


@pytest.mark.parametrize("client", ["interactive_client.cjs", "first_client.mjs"])
def test_the_node_clients_print_the_answer_as_it_streams(client: str, tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not on this machine: the Node clients were NOT run")
    answer = answer_to("Hello", tmp_path / "direct").encode()
    process = subprocess.Popen(
        [node, CLIENTS / client],
        env=environment(tmp_path / "client"),
        cwd=tmp_path / "client" / "work",
        stdout=subprocess.PIPE,
    )
    watchdog = threading.Timer(WITHIN, process.kill)
    watchdog.start()
    try:
        assert process.stdout is not None
        assert process.stdout.read(len(answer)) == answer
    finally:
        watchdog.cancel()
        process.kill()  # it waits for ever, as an interactive program does
        process.communicate()

"""What the examples do is tried."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.pi_releases import RELEASES, Peer, Server
from support.rpc_process import WITHIN, surroundings

ROOT = Path(__file__).parents[2]


def run(folder: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    given = {**surroundings(folder), **env}
    (folder / "work" / "notes.txt").write_text("hello\n")
    return subprocess.run(
        [sys.executable, *words], cwd=folder / "work", env=given, capture_output=True, text=True, timeout=2 * WITHIN
    )


def test_the_example_shows_what_the_agent_does(tmp_path: Path) -> None:
    done = run(tmp_path, str(ROOT / "examples" / "rpc_client.py"), "list", "the", "files", "here")
    assert (done.returncode, done.stderr) == (0, "")
    assert "notes.txt" in done.stdout and "1 tool calls" in done.stdout


def test_without_a_pi_there_is_nothing_to_drive(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "pi").symlink_to(Path(sys.executable).parent / "pi")  # ours
    done = run(tmp_path, str(ROOT / "examples" / "drive_pi.py"), PATH=str(tmp_path / "bin"))
    assert (done.returncode, done.stderr) == (0, "")
    assert "pi is not installed" in done.stdout


@pytest.mark.parametrize("release", [*RELEASES] or [pytest.param("", marks=pytest.mark.skip("TAU_PEERS is not set"))])
def test_a_real_pi_is_driven(release: str, tmp_path: Path) -> None:
    with Server("I am a test.") as server:
        peer = Peer(release, tmp_path, server, {"defaultProvider": "mock", "defaultModel": "m1"})
        done = subprocess.run(
            [sys.executable, str(ROOT / "examples" / "drive_pi.py"), *RELEASES[release]],
            cwd=peer.cwd,
            env={**os.environ, **peer.env},
            capture_output=True,
            text=True,
            timeout=2 * WITHIN,
        )
    assert (done.returncode, done.stderr) == (0, "")
    assert "its shell says: hello" in done.stdout and "I am a test." in done.stdout

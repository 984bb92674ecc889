"""The reviewer for CI finds what was left behind, and its exit code says so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.rpc_process import WITHIN, surroundings

EXAMPLE = Path(__file__).parents[2] / "examples" / "ci_reviewer.py"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A repository with one commit."""
    surroundings(tmp_path)
    folder = tmp_path / "work"
    (folder / "main.py").write_text("one\ntwo\nthree\n")
    who = ["-c", "user.name=t", "-c", "user.email=t@t"]
    for command in (["init", "-q"], ["add", "."], [*who, "commit", "-qm", "first"]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    return folder


def reviewed(work: Path, *words: str) -> tuple[int, list[str]]:
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLE, work, *words],
        env=surroundings(work.parent),
        capture_output=True,
        encoding="utf-8",
        timeout=2 * WITHIN,
    )
    return done.returncode, (done.stdout + done.stderr).splitlines()


def test_findings_are_reported_and_fail(work: Path) -> None:
    (work / "main.py").write_text("one\ntwo\nbreakpoint()\nthree\n# TODO: four\n")
    assert reviewed(work) == (
        1,
        [
            "main.py:3: warning: breakpoint() was left behind",
            "main.py:5: warning: TODO was left behind",
            "2 things were left behind",
        ],
    )


def test_a_change_without_findings_passes(work: Path) -> None:
    (work / "main.py").write_text("one\ntwo\nthree\nfour\n")
    assert reviewed(work) == (0, ["0 things were left behind"])


def test_no_change_needs_no_review(work: Path) -> None:
    assert reviewed(work) == (0, ["Nothing has changed."])


def test_what_cannot_be_compared_is_no_review(work: Path) -> None:
    code, said = reviewed(work, "--since", "nowhere")
    assert code == 2 and "nowhere" in said[0]

"""Started in a working directory that was deleted, or without stdout."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.cli_process import PI, asked, scripted
from support.rpc_process import WITHIN, surroundings

PI = [PI[0], "-P", *PI[1:]]  # Python 3.13.0 cannot import socket if its path has a working directory that is gone
TAU = [PI[0], "-P", "-c", "from tau.cli.main import tau; tau()"]
SENTENCE = (
    "Error: The working directory cannot be used, because it was deleted or moved (No such file or directory)."
    " Change to one that exists.\n"
)
LINES = {
    "print": [*PI, "--model", "demo", "-p", "hi"],
    "JSON mode": [*PI, "--model", "demo", "--mode", "json", "hi"],
    "RPC mode": [*PI, "--model", "demo", "--mode", "rpc"],
    "a file": [*PI, "--model", "demo", "-p", "@file"],
    "resume": [*PI, "--model", "demo", "-p", "--resume"],
    "doctor": [*TAU, "doctor"],
    "trust": [*TAU, "trust"],
    "version of a dialect": [*PI, "--version"],
}


def gone(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    env = surroundings(folder, settings={})
    where = folder / "gone"
    where.mkdir()
    code = "import os, sys; os.rmdir(os.getcwd()); os.execv(sys.argv[1], sys.argv[1:])"
    how = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "timeout": WITHIN}
    return subprocess.run([sys.executable, "-P", "-c", code, *command], cwd=where, env=env, **how)  # type: ignore[call-overload,no-any-return]


@pytest.mark.parametrize("name", LINES)
def test_a_deleted_working_directory_is_one_sentence_and_exit_code_2(name: str, tmp_path: Path) -> None:
    done = gone(tmp_path, *LINES[name])
    assert (done.returncode, done.stdout, done.stderr) == (2, "", SENTENCE)


@pytest.mark.parametrize("line", [[*PI, "--help"], [*TAU, "completion", "bash"], [*TAU, "--version"]])
def test_what_needs_no_working_directory_does_without(line: list[str], tmp_path: Path) -> None:
    done = gone(tmp_path, *line)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_library_raises_an_error_of_its_own(tmp_path: Path) -> None:
    code = "import asyncio, tau\nasync def main():\n async with tau.open(model='demo'): pass\nasyncio.run(main())"
    done = gone(tmp_path, sys.executable, "-P", "-c", code)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("tau.errors.UsageError: The working directory cannot be used")


@pytest.mark.parametrize("mode", ["text", "json"])
@pytest.mark.parametrize("closed", ["1", "0 1", "0 1 2"])
def test_an_answer_that_cannot_be_delivered_is_exit_code_1_and_is_kept(mode: str, closed: str, tmp_path: Path) -> None:
    env = surroundings(tmp_path)
    closing = " ".join(f"{number}>&-" for number in closed.split())
    command = ["bash", "-c", f'exec "$@" {closing}', "bash", *PI, *scripted(tmp_path), "--mode", mode, "hello"]
    done = subprocess.run(command, cwd=tmp_path / "work", env=env, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    said = b"" if "2" in closed else b"Error: the answer could not be written: stdout is closed.\n"
    assert (done.returncode, done.stderr) == (1, said)
    assert asked(tmp_path) == [[{"type": "text", "text": "hello"}]]


def test_a_command_whose_output_cannot_be_delivered_is_exit_code_1(tmp_path: Path) -> None:
    command = ["bash", "-c", 'exec "$@" >&-', "bash", *TAU, "doctor"]
    done = subprocess.run(command, cwd=tmp_path, env=surroundings(tmp_path), stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (1, b"Error: the output could not be written: stdout is closed.\n")

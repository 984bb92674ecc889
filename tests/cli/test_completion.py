"""Scripts for shells, made from the table of flags."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tau.cli.completion import SHELLS, bash, fish, zsh
from tau.cli.flags import FLAGS
from tau.cli.main import main

TOLD = [flag.name for flag in FLAGS if flag.help]


@pytest.mark.parametrize("shell", SHELLS)
def test_every_flag_that_does_something_is_offered(shell: str) -> None:
    script = SHELLS[shell]()
    dashes = "-l " if shell == "fish" else "--"
    assert [name for name in TOLD if f"{dashes}{name}" not in script] == []


@pytest.mark.parametrize(("shell", "script"), [("bash", bash), ("zsh", zsh), ("fish", fish)])
def test_the_shell_can_read_it(shell: str, script: object) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not on this machine: its script was NOT read")
    assert callable(script)
    done = subprocess.run([shell, "-n"], input=script(), capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("pi --no-s", ["--no-session", "--no-skills"]),
        ("pi --mode ", ["text", "json", "rpc"]),
        ("pi --mode j", ["json"]),
        ("tau do", ["doctor"]),
        ("pi do", []),
        ("tau completion z", ["zsh"]),
        ("pi --dialect 2026-0", ["2026-03", "2026-02", "2026-01"]),
    ],
)
def test_bash_completes(line: str, offered: list[str]) -> None:
    words = line.split(" ")
    ask = f"""{bash()}
COMP_WORDS=({" ".join(f"'{word}'" for word in words)}) COMP_CWORD={len(words) - 1}
_tau {words[0]}
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, timeout=20, check=True)
    assert done.stdout.split() == offered


@pytest.mark.parametrize("argv", [["completion"], ["completion", "tcsh"], ["completion", "bash", "zsh"]])
def test_a_shell_that_is_not_known_is_refused(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main("tau", argv) == 2
    assert capsys.readouterr() == ("", "Error: tau completion bash|zsh|fish prints a script for that shell\n")


def test_it_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main("tau", ["completion", "bash"]) == 0
    assert capsys.readouterr().out == bash() + "\n"

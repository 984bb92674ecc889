"""Scripts for shells, made from the table of flags."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tau.cli.completion import SHELLS, bash, fish, zsh
from tau.cli.flags import FLAGS
from tau.cli.main import main
from tau.store.keys import KEY_VARIABLES

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
        ("pi --mode ", ["text", "json", "rpc", "acp"]),
        ("pi --mode j", ["json"]),
        ("tau do", ["doctor"]),
        ("pi do", []),
        ("tau s", ["serve", "sessions"]),
        ("tau completion z", ["zsh"]),
        ("tau extension ", ["new"]),
        ("pi --tools e", ["edit"]),
        ("pi --model cl", ["claude-a", "claude-b"]),
        ("pi --provider g", ["google", "groq"]),
        ("pi --session 01", ["01ab"]),
        ("pi --dialect 2026-0", ["2026-03", "2026-02", "2026-01"]),
    ],
)
def test_bash_completes(line: str, offered: list[str]) -> None:
    words = line.split(" ")
    ask = f"""{bash()}
tau() {{
  case $2 in
    models) printf '%s\\n' claude-a gpt claude-b ;;
    providers) printf '%s\\n' anthropic google groq ;;
    sessions) echo 01ab ;;
  esac
}}
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


def test_names_of_this_machine_are_listed_for_the_scripts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = {"baseUrl": "http://127.0.0.1:9", "apiKey": "k", "api": "openai-completions"}
    models = [{"id": "m-1"}, {"id": "$(reboot)"}]
    (tmp_path / "models.json").write_text(json.dumps({"providers": {"lab": {**lab, "models": models}}}))
    for name in KEY_VARIABLES:
        for variable in KEY_VARIABLES[name]:
            monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PI_CODING_AGENT_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    def listed(what: str) -> list[str]:
        assert main("tau", ["completion", what]) == 0
        return capsys.readouterr().out.split()

    assert [name in listed("models") for name in ("m-1", "lab/m-1", "demo", "$(reboot)")] == [True, True, True, False]
    assert {"anthropic", "groq", "ollama", "lab"} <= set(listed("providers"))
    assert listed("tools") == ["read", "bash", "edit", "write", "grep", "find", "ls"]
    assert listed("sessions") == []

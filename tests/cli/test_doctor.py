"""tau doctor, as a program: it reads what is really there."""

from __future__ import annotations

import errno
import json
import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from support.model_server import NOWHERE, serving
from tau import __version__
from tau.llm.catalog import DEFAULT_MODELS, LOCAL_PROVIDERS, Catalog


def doctor(folder: Path, program: str = "tau", **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {"PATH": os.environ["PATH"], "HOME": str(folder), "PI_CODING_AGENT_DIR": str(folder), **environment}
    if not (folder / "models.json").exists():  # no server of the tester's is asked
        written(folder, "models.json", json.dumps({"providers": silent()}))
    command = [sys.executable, "-c", f"from tau.cli.main import {program}; {program}()", "doctor"]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env=clean, stdin=subprocess.DEVNULL, timeout=30
    )


def silent() -> dict[str, dict[str, str]]:
    return {name: {"baseUrl": NOWHERE} for name in LOCAL_PROVIDERS}


def written(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)
    (folder / name).chmod(0o600)


def test_with_a_key_nothing_is_wrong(tmp_path: Path) -> None:
    done = doctor(tmp_path, ANTHROPIC_API_KEY="sk-very-secret", XAI_API_KEY="xai-secret")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == f"tau {__version__} (ok works, -- note, !! needs to be fixed)"
    assert lines[-2:] == ["No problems found.", "Next: start `tau` in the folder of a project."]
    for line in (
        "  -- settings.json: not found (optional)",
        f"  ok {tmp_path}",
        f"  ok anthropic: ANTHROPIC_API_KEY; {len(Catalog().models_of('anthropic'))} models",
        f"  ok xai: XAI_API_KEY; {len(Catalog().models_of('xai'))} models",
        "  -- not running: llama.cpp, lmstudio, ollama, vllm",
        f"  ok anthropic/{DEFAULT_MODELS['anthropic']}, thinking medium",
    ):
        assert line in lines
    assert "secret" not in done.stdout


def test_a_server_that_answers_is_reported_with_its_models(tmp_path: Path) -> None:
    with serving({"data": [{"id": "qwen3"}, {"id": "llama"}]}) as (address, _):
        there = {**silent(), "ollama": {"baseUrl": address}}
        written(tmp_path, "models.json", json.dumps({"providers": there}))
        done = doctor(tmp_path)
    assert done.returncode == 0
    assert f"  ok ollama: {address}: qwen3, llama\n" in done.stdout
    assert "  -- none by default; choose one with --provider ollama --model ID\n" in done.stdout


def test_a_missing_key_is_the_next_step_and_not_an_error(tmp_path: Path) -> None:
    done = doctor(tmp_path)
    assert done.returncode == 0
    assert "  -- none yet: it needs the API key of a provider\n" in done.stdout
    *_, verdict, next_step = done.stdout.splitlines()
    assert verdict == "No problems found."
    assert next_step.startswith("Next: set the API key of a provider, for example ANTHROPIC_API_KEY")


def test_settings_of_pi_are_known(tmp_path: Path) -> None:
    of_pi = {"quietStartup": True, "doubleEscapeAction": "fork", "terminal": {"showImages": True}, "tuiMode": "x"}
    written(tmp_path, "settings.json", json.dumps({**of_pi, "lastChangelogVersion": "0.87.1"}))
    done = doctor(tmp_path)
    assert (done.returncode, "unknown" in done.stdout) == (0, False)


def test_comments_in_settings_are_fine_but_not_for_pi(tmp_path: Path) -> None:
    written(tmp_path, "settings.json", '{\n  // mine\n  "theme": "dark",\n}')
    done = doctor(tmp_path)
    note = "  -- settings.json has comments or trailing commas: tau accepts them, pi cannot read them\n"
    assert (done.returncode, note in done.stdout) == (0, True)


def test_at_a_terminal_the_marks_are_coloured(tmp_path: Path) -> None:
    written(tmp_path, "models.json", json.dumps({"providers": silent()}))
    ours, theirs = pty.openpty()
    clean = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PI_CODING_AGENT_DIR": str(tmp_path), "TERM": "xterm"}
    command = [sys.executable, "-m", "tau", "doctor"]
    with subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=theirs, env=clean):
        os.close(theirs)
        shown = b""
        with suppress(OSError):  # the other end was closed
            while chunk := os.read(ours, 65536):
                shown += chunk
    os.close(ours)
    assert b"  \x1b[32mok\x1b[0m Python " in shown


def test_every_mistake_is_reported_with_its_line(tmp_path: Path) -> None:
    written(tmp_path, "settings.json", '{"retry": {\n  "maxRetries": "x"},\n "defaultmodel": "y"}')
    written(
        tmp_path,
        "models.json",
        """{
  // mine
  "providers": {
    "lab": {"baseUrl": "http://x", "apiKey": "$LAB_KEY", "api": "openai-completions", "headers": {"a": "b"},
      "models": [
        {"id": "a", "contextwindow": 5},
        {"id": "b"}
      ]},
    "bad": {"baseUrl": "http://x", "apiKey": "k", "api": "openai-completions",
      "models": [
        {"id": "b", "maxTokens": "x"}]},
    "none": {"baseURL": "http://x"},
    "bare": {"baseUrl": "http://x", "apiKey": "BARE_KEY", "api": "openai-completions", "models": [{"id": "c"}]},
    "headed": {"baseUrl": "http://x", "apiKey": "EMPTY", "api": "openai-completions", "headers": {"x-team": "$TEAM"},
      "models": [{"id": "d"}, {"id": "e"}]},
    "anthropic": {"modelOverrides": {
        "claude-opus-4.8": {"name": "x"}}},
  },
}""",
    )
    written(tmp_path, "auth.json", '{\n"openai": {"type": "api_key", "key": "sk-secret"},\n"xai": {"type": "api_key"}}')
    done = doctor(tmp_path)
    assert done.returncode == 1
    wrong = [line[5:] for line in done.stdout.splitlines() if line.startswith("  !! ")]
    assert wrong == [
        "settings.json:2: retry.maxRetries: expected int, got str. The default is used for it.",
        'settings.json:3: defaultmodel: unknown; did you mean "defaultModel"?',
        "models.json:11: providers.bad.models[0].maxTokens: expected int, got str",
        'models.json:12: Provider none: must specify "baseUrl", "compat", "modelOverrides", or "models".',
        "models.json:17: providers.anthropic.modelOverrides.claude-opus-4.8: no such model",
        'models.json:6: providers.lab.models[0].contextwindow: unknown; did you mean "contextWindow"?',
        'models.json:12: providers.none.baseURL: unknown; did you mean "baseUrl"?',
        'auth.json:3: xai: expected {"type": "api_key", "key": ...}',
        "lab: models.json provides no key: LAB_KEY is not set in the environment",
        "bare: models.json provides no key: BARE_KEY is not set in the environment",
        "headed: the header x-team cannot be sent: TEAM is not set in the environment",
    ]
    assert "secret" not in done.stdout


@pytest.mark.parametrize("name", ["settings.json", "models.json", "auth.json"])
def test_a_file_that_is_not_json_is_reported_with_the_line(tmp_path: Path, name: str) -> None:
    written(tmp_path, name, '{\n  "a": 1\n  "b": 2\n}')
    done = doctor(tmp_path, ANTHROPIC_API_KEY="k")
    assert done.returncode == 1
    (wrong,) = [line for line in done.stdout.splitlines() if line.startswith("  !! ")]
    assert name in wrong and "line 3 column 3" in wrong


def test_a_file_that_others_can_read_is_reported(tmp_path: Path) -> None:
    written(
        tmp_path,
        "auth.json",
        '{"openai": {"type": "api_key", "key": "!echo sk-secret"}, "x": {"type": "oauth"},'
        ' "y": {"type": "oauth", "access": "secret-a", "refresh": "secret-r", "expires": 5}}',
    )
    (tmp_path / "auth.json").chmod(0o644)
    done = doctor(tmp_path)
    assert done.returncode == 1
    assert "other users could read it; now only you can (mode 600)" in done.stdout
    assert "  ok openai: auth.json, from a command; " in done.stdout
    assert 'x: expected {"type": "oauth"' in done.stdout
    assert "  -- auth.json: y: an OAuth login (expired)\n" in done.stdout


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_to_is_reported(tmp_path: Path) -> None:
    folder = tmp_path / "agent"
    folder.mkdir()
    written(folder, "models.json", json.dumps({"providers": silent()}))
    folder.chmod(0o500)
    assert f"{folder}: not writable" in doctor(folder, ANTHROPIC_API_KEY="k").stdout


def test_a_folder_that_cannot_be_looked_into_is_reported(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 300)
    done = doctor(tmp_path, PI_CODING_AGENT_DIR=str(folder))
    assert (done.returncode, done.stderr) == (1, "")
    assert f"  !! {folder}: {os.strerror(errno.ENAMETOOLONG)}" in done.stdout


def test_to_pi_it_is_not_a_command_and_no_prompt_either(tmp_path: Path) -> None:
    done = doctor(tmp_path, program="pi")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith('Error: "doctor" is a command of tau. Run: tau doctor.')


def test_settings_of_compat_are_known_in_both_places_and_their_typos_are_found(tmp_path: Path) -> None:
    content = {"statsOf": "session", "steerafter": "turn", "compat": {"retrySuccess": "run", "keepBashafter": "run"}}
    written(tmp_path, "settings.json", json.dumps(content, indent=1))
    wrong = [line[5:] for line in doctor(tmp_path).stdout.splitlines() if line.startswith("  !! settings.json")]
    assert wrong == [
        'settings.json:3: steerafter: unknown; did you mean "steerAfter"?',
        'settings.json:6: compat.keepBashafter: unknown; did you mean "keepBashAfter"?',
    ]

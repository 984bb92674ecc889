"""The environment of attempts: keys for tau, and for commands only what programs need and what the task names."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from support.fleets import FleetRun
from support.library_agent import calls
from support.limited_server import LimitedServer
from tau.errors import UsageError
from tau.fleet.variables import MAX_MODELS_CHARS, WorkerVariables, models_for_workers
from tau.records.fleet import Task

WORKER = {
    "PATH": "/bin",
    "HOME": "/home/me",
    "LC_ALL": "C",
    "OPENAI_API_KEY": "sk-openai-0123456789",
    "CORP_KEY": "sk-corp-0123456789",
    "DATABASE_URL": "postgres://me:secret@host/db",
    "GITHUB_TOKEN": "ghp-0123456789",
    "TAU_TELEMETRY": "1",
    "JAVA_HOME": "/opt/java",
}


def variables() -> WorkerVariables:
    return WorkerVariables(WORKER, {"providers": {"corp": {"apiKey": "$CORP_KEY"}}})


def test_tau_gets_keys_and_an_agent_nothing_that_its_task_does_not_name() -> None:
    found = variables()
    usual = {"PATH", "HOME", "LC_ALL", "OPENAI_API_KEY", "CORP_KEY", "GITHUB_TOKEN", "TAU_TELEMETRY"}
    assert found.environment(Task(prompt="x")).keys() == usual
    assert found.environment(Task(prompt="x", env=["JAVA_HOME"])).keys() == usual | {"JAVA_HOME"}
    assert found.missing(Task(prompt="x", env=["PATH", "NOPE"])) == ["NOPE"]


def test_settings_of_a_task_keep_what_it_says_about_the_environment() -> None:
    task = Task(prompt="x", env=["A"], settings={"theme": "dark", "childEnvironment": {"passNames": ["B"]}})
    found = variables().settings(task)
    assert found["theme"] == "dark"
    assert found["childEnvironment"]["filterSecrets"] is True
    assert found["childEnvironment"]["passNames"] == ["A", "B"]
    assert "CORP_KEY" in found["childEnvironment"]["secretNames"]


def test_logs_have_no_keys() -> None:
    assert "sk-corp" not in variables().mask("refused: sk-corp-0123456789")


def test_commands_see_what_the_task_names_and_no_key(tmp_path: Path) -> None:
    fleet = FleetRun(tmp_path, [calls("bash", command="env > seen"), {"text": "ok"}])
    fleet.variables = {**WORKER, "PATH": fleet.env["PATH"], "TAU_TELEMETRY": ""}
    output = {"files": ["seen"]}
    named = {"id": "named", "env": ["GITHUB_TOKEN", "JAVA_HOME"], "output": output}
    fleet.tasks([named, {"id": "bare", "output": output}])
    assert fleet.run("--workers", "1").returncode == 0

    def seen(task: str) -> set[str]:
        lines = (fleet.out / "tasks" / task / "1" / "files" / "seen").read_text().splitlines()
        return {line.partition("=")[0] for line in lines} & WORKER.keys()

    assert seen("bare") == {"PATH", "HOME", "LC_ALL"}
    assert seen("named") == {"PATH", "HOME", "LC_ALL", "GITHUB_TOKEN", "JAVA_HOME"}
    log = (fleet.out / "tasks" / "bare" / "1" / "worker.log").read_text()
    assert [line.split(maxsplit=1)[1].split()[0] for line in log.splitlines()] == ["attempt", "works", "prompt", "done"]
    assert (fleet.out / "tasks" / "bare" / "1" / "worker.log").stat().st_mode & 0o777 == 0o600


MODELS = {
    "providers": {
        "my-lab": {
            "baseUrl": "http://127.0.0.1:9/v1",
            "apiKey": "sk-lab-0123456789",
            "headers": {"X-Team": "blue", "Authorization": "Bearer 0123456789"},
            "models": [{"id": "big", "headers": {"X-Token": "tok-0123456789"}}],
            "modelOverrides": {"old": {"headers": {"Cookie": "c-0123456789"}}},
            "compat": {"maxTokensField": "max_completion_tokens"},
        },
        "named": {"apiKey": "CORP_KEY", "headers": {"X-Key": "Bearer $CORP_KEY"}},
        "command": {"apiKey": "!pass show corp"},
        "dummy": {"apiKey": "ollama"},
    }
}


def test_keys_of_the_models_stay_on_this_machine(tmp_path: Path) -> None:
    file = tmp_path / "models.json"
    assert models_for_workers(file, with_keys=False) == ""
    file.write_text("// mine\n" + json.dumps(MODELS))
    assert json.loads(models_for_workers(file, with_keys=True)) == MODELS
    sent = json.loads(models_for_workers(file, with_keys=False))["providers"]
    assert sent.pop("my-lab") == {
        "baseUrl": "http://127.0.0.1:9/v1",
        "apiKey": "$MY_LAB_API_KEY",
        "headers": {"X-Team": "blue", "Authorization": "$MY_LAB_AUTHORIZATION"},
        "models": [{"id": "big", "headers": {"X-Token": "$MY_LAB_X_TOKEN"}}],
        "modelOverrides": {"old": {"headers": {"Cookie": "$MY_LAB_COOKIE"}}},
        "compat": {"maxTokensField": "max_completion_tokens"},
    }
    assert sent == {name: value for name, value in MODELS["providers"].items() if name != "my-lab"}


def test_models_that_workers_cannot_take_are_an_error(tmp_path: Path) -> None:
    file = tmp_path / "models.json"
    file.write_text("{")
    with pytest.raises(UsageError, match=r"models\.json:1 is not valid JSON: .*\.$") as broken:
        models_for_workers(file, with_keys=False)
    assert "ignored" not in str(broken.value)
    file.write_text(json.dumps({"providers": {"x" * MAX_MODELS_CHARS: {}}}))
    with pytest.raises(UsageError, match=r"models\.json has more than 1,000,000 characters"):
        models_for_workers(file, with_keys=False)


def test_workers_of_a_command_know_the_models_and_not_the_key(tmp_path: Path) -> None:
    """The key is where the worker is; nothing of it is in a file of the worker."""
    fleet = FleetRun(tmp_path)
    with LimitedServer(limit=10, seconds=0) as server:
        models = server.models
        models["providers"]["mock"]["apiKey"] = "sk-secret-0123456789"
        (tmp_path / "agent" / "models.json").write_text(json.dumps(models))
        fleet.tasks([{"id": "t", "model": "mock/m1"}])
        root = tmp_path / "elsewhere"
        worker = f"{sys.executable} -m tau fleet worker --root {root}"
        without = fleet.run("--dry-run", "--worker", worker)
        assert without.returncode == 2 and "MOCK_API_KEY" in without.stdout
        done = fleet.run("--worker", f"env MOCK_API_KEY=sk-secret-0123456789 {worker}")
        assert done.returncode == 0, done.stdout
        assert fleet.results()["t"]["outcome"] == "done"
        files = list(root.rglob("models.json"))
        assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
        assert [path for path in files if "sk-secret" in path.read_text()] == []
        fleet.tasks([{"id": "here", "model": "mock/m1"}])
        assert fleet.run("--workers", "1").returncode == 0  # workers of this machine have the key

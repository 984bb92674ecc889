"""The environment of attempts: keys for tau, and for commands only what programs need and what the task names."""

from __future__ import annotations

import json
from pathlib import Path

from support.fleets import FleetRun
from support.library_agent import calls
from tau.fleet.variables import WorkerVariables
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


def variables(folder: Path) -> WorkerVariables:
    models = folder / "models.json"
    models.write_text(json.dumps({"providers": {"corp": {"apiKey": "$CORP_KEY"}}}))
    return WorkerVariables(WORKER, models)


def test_tau_gets_keys_and_an_agent_nothing_that_its_task_does_not_name(tmp_path: Path) -> None:
    found = variables(tmp_path)
    usual = {"PATH", "HOME", "LC_ALL", "OPENAI_API_KEY", "CORP_KEY", "GITHUB_TOKEN", "TAU_TELEMETRY"}
    assert found.environment(Task(prompt="x")).keys() == usual
    assert found.environment(Task(prompt="x", env=["JAVA_HOME"])).keys() == usual | {"JAVA_HOME"}
    assert found.missing(Task(prompt="x", env=["PATH", "NOPE"])) == ["NOPE"]


def test_settings_of_a_task_keep_what_it_says_about_the_environment(tmp_path: Path) -> None:
    task = Task(prompt="x", env=["A"], settings={"theme": "dark", "childEnvironment": {"passNames": ["B"]}})
    found = variables(tmp_path).settings(task)
    assert found["theme"] == "dark"
    assert found["childEnvironment"]["filterSecrets"] is True
    assert found["childEnvironment"]["passNames"] == ["A", "B"]
    assert "CORP_KEY" in found["childEnvironment"]["secretNames"]


def test_logs_have_no_keys(tmp_path: Path) -> None:
    assert "sk-corp" not in variables(tmp_path).mask("refused: sk-corp-0123456789")


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

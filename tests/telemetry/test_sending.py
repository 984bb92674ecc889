"""Telemetry of the program: when it is sent, where to, and that a receiver cannot harm a run."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from support.otlp import Receiver, of_file, tree
from support.rpc_process import scripted
from support.telemetry_process import TRACE, run, to_file

pytest.importorskip("opentelemetry.sdk", reason="needs the extra [otel]")

from tau.runtime.telemetry.sdk import FLUSH_TIMEOUT_S


def test_a_collector_gets_spans_and_metrics(tmp_path: Path) -> None:
    with Receiver() as receiver:
        done = run(tmp_path, "--telemetry", **{**receiver.environment, "TAU_TELEMETRY": ""})
    assert (done.returncode, done.stdout, done.stderr) == (0, "ok\n", "")
    assert tree(receiver.spans) == ["invoke_agent tau", "  chat scripted", "  execute_tool bash", "  chat scripted"]
    assert receiver.metrics >= {
        *("gen_ai.client.token.usage", "gen_ai.client.operation.duration", "gen_ai.invoke_agent.duration"),
        *("gen_ai.execute_tool.duration", "tau.cost", "tau.runs", "tau.sessions"),
    }
    assert all(b"echo T=" not in body for body in receiver.bodies)


def test_the_parent_comes_from_the_environment_and_goes_to_commands_only_if_asked(tmp_path: Path) -> None:
    enabled = {"telemetry": {"enabled": True, "propagateToCommands": True}}
    done = run(tmp_path, "--mode", "json", settings=enabled, TRACEPARENT=TRACE, **to_file(tmp_path))
    spans = of_file(tmp_path / "spans")
    assert {span.trace for span in spans} == {TRACE.split("-")[1]}
    root = next(span for span in spans if span.name == "invoke_agent tau")
    assert root.parent == TRACE.split("-")[2]
    assert f"T=00-{root.trace}-{root.id}" in done.stdout
    assert (tmp_path / "spans").stat().st_mode & 0o777 == 0o600


@pytest.mark.promise("O07")
def test_without_being_asked_nothing_is_sent_or_loaded(tmp_path: Path) -> None:
    with Receiver() as receiver:
        variables = {name: value for name, value in receiver.environment.items() if name != "TAU_TELEMETRY"}
        loaded = run(tmp_path, **variables, PYTHONPROFILEIMPORTTIME="1")
        assert "opentelemetry" not in loaded.stderr
        off = run(tmp_path, settings={"telemetry": {"enabled": True}}, TAU_TELEMETRY="0", **variables)
        disabled = run(tmp_path, "--telemetry", OTEL_SDK_DISABLED="true", **variables)
    assert (off.returncode, disabled.returncode, receiver.paths) == (0, 0, [])


@pytest.mark.promise("O08")
def test_a_project_cannot_switch_it_on(tmp_path: Path) -> None:
    (tmp_path / "work" / ".pi").mkdir(parents=True)
    (tmp_path / "work" / ".pi" / "settings.json").write_text(json.dumps({"telemetry": {"enabled": True}}))
    done = run(tmp_path, "--approve", **to_file(tmp_path))
    assert done.returncode == 0
    assert not (tmp_path / "spans").exists()


def test_a_receiver_that_refuses_is_one_warning(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    done = run(tmp_path, "--telemetry", OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{port}")
    assert (done.returncode, done.stdout) == (0, "ok\n")
    assert done.stderr.count("telemetry") <= 1


@pytest.mark.promise("O03")
def test_a_receiver_that_hangs_does_not_keep_the_program(tmp_path: Path) -> None:
    """Sending gets FLUSH_TIMEOUT_S; `make gate` measures how much later a program ends."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        done = run(tmp_path, "--telemetry", OTEL_EXPORTER_OTLP_ENDPOINT=url)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ok\n", "")
    assert FLUSH_TIMEOUT_S <= 1.5


@pytest.mark.promise("O09")
def test_without_the_package_the_flag_is_an_error_and_the_setting_a_warning(tmp_path: Path) -> None:
    (tmp_path / "without" / "opentelemetry").mkdir(parents=True)
    (tmp_path / "without" / "opentelemetry" / "__init__.py").write_text("")
    without = {"PYTHONPATH": str(tmp_path / "without")}
    flag = run(tmp_path, "--telemetry", **without)
    assert (flag.returncode, flag.stdout) == (2, "")
    assert "[otel]" in flag.stderr
    setting = run(tmp_path, settings={"telemetry": {"enabled": True}}, **without)
    assert (setting.returncode, setting.stdout) == (0, "ok\n")
    assert "[otel]" in setting.stderr


@pytest.mark.parametrize(
    ("flags", "env", "words"),
    [
        ((), {"OTEL_TRACES_EXPORTER": "jaeger"}, "OTEL_TRACES_EXPORTER=jaeger is not known"),
        ((), {"OTEL_TRACES_EXPORTER": "file"}, "TAU_TELEMETRY_FILE is missing"),
        (("--offline",), {"OTEL_TRACES_EXPORTER": "otlp"}, "which --offline forbids"),
        ((), {"TAU_TELEMETRY_CONTENT_BYTES": "many"}, "TAU_TELEMETRY_CONTENT_BYTES=many"),
    ],
)
def test_a_wrong_variable_is_named(tmp_path: Path, flags: tuple[str, ...], env: dict[str, str], words: str) -> None:
    done = run(tmp_path, "--telemetry", *flags, **env)
    assert done.returncode == 2
    assert words in done.stderr


def test_a_prompt_over_rpc_names_its_parent(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    argv = [*scripted(tmp_path, {"text": "ok"}), "--mode", "rpc", "--telemetry", "--no-session"]
    env = {**os.environ, **to_file(tmp_path), "PI_CODING_AGENT_DIR": str(tmp_path / "agent")}
    lines = [{"id": "1", "type": "prompt", "message": "Hi", "traceparent": TRACE}]
    data = "".join(json.dumps(line) + "\n" for line in lines)
    done = subprocess.run(
        argv, cwd=tmp_path / "work", env=env, input=data, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    root = next(span for span in of_file(tmp_path / "spans") if span.name == "invoke_agent tau")
    assert (root.trace, root.parent) == tuple(TRACE.split("-")[1:3])
    assert root.attributes["tau.mode"] == "rpc"


def test_the_doctor_says_where_it_goes_and_whether_content_leaves(tmp_path: Path) -> None:
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "settings.json").write_text('{"telemetry": {"enabled": true}}')

    def doctor(**env: str) -> str:
        argv = [sys.executable, "-m", "tau", "doctor"]
        env = {**os.environ, "PI_CODING_AGENT_DIR": str(tmp_path / "agent"), **env}
        return subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, check=False).stdout

    assert "telemetry is on" not in doctor(TAU_TELEMETRY="0")
    url = "https://user:secret@traces.example:4318/x"
    said = doctor(OTEL_EXPORTER_OTLP_ENDPOINT=url, OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT="span_only")
    assert "telemetry is on and goes to traces.example:4318" in said
    assert "!!" in next(line for line in said.splitlines() if "includes the content of conversations" in line)
    assert "secret" not in said

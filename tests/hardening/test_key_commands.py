"""Commands that print a key: whatever they do wrong, it takes little time and memory and leaves nothing behind."""

from __future__ import annotations

import json
import os
import resource
import signal
import threading
import time
from pathlib import Path

import pytest

from support.rpc_process import Agent, Pipe, is_gone
from tau.concurrency import helper_commands
from tau.concurrency.helper_commands import stop_commands
from tau.errors import ModelError
from tau.store import config_values
from tau.store.auth import AuthFile
from tau.store.config_values import command_output, resolve_value
from tau.store.keys import Keys

WITHIN = 60.0
MIB = 1 << 20

# What a command does, and the key that comes of it.
COMMANDS: dict[str, tuple[str, str | None]] = {
    "prints a key": ("echo key", "key"),
    "prints it in pieces": ("printf k; printf e; printf y", "key"),
    "ends lines as Windows does": ("printf 'key\\r\\n'", "key"),
    "prints blank lines around it": ("printf '\\n\\n key \\n\\n'", "key"),
    "prints nothing": ("true", None),
    "prints white space": ("printf ' \\n\\t'", None),
    "fails after printing": ("echo key; exit 3", None),
    "is killed after printing": ("echo key; kill -9 $$", None),
    "does not exist": ("no-such-program-anywhere", None),
    "is no command": ("if then", None),
    "reads stdin, which is empty": ("cat; echo key", "key"),
    "complains a lot": ("yes complaint | head -c 1000000 >&2; echo key", "key"),
    "closes its stdout first": ("exec >&-; true", None),
    "prints too much": ("head -c 100000 /dev/zero | tr '\\0' a", None),
    "prints lines without end": ("yes", None),
    "prints zeros without end": ("cat /dev/zero", None),
    "prints the longest key": (f"head -c {config_values.MAX_OUTPUT_BYTES} /dev/zero | tr '\\0' a", "a" * 65536),
    "has a zero byte in its line": ("echo a\0b", None),
    "has half a character in its line": ("echo \ud800", None),
}


@pytest.mark.parametrize(("command", "key"), COMMANDS.values(), ids=COMMANDS.keys())
def test_a_command_gives_its_key_or_none(command: str, key: str | None, caplog: pytest.LogCaptureFixture) -> None:
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.monotonic()
    assert resolve_value(f"!{command}", os.environ) == key
    assert time.monotonic() - began < config_values.COMMAND_TIMEOUT_S  # none of them waits for the time limit
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) * 1024 < 64 * MIB
    assert command not in caplog.text
    assert not helper_commands._running


def test_a_program_that_a_command_leaves_behind_is_not_waited_for(tmp_path: Path) -> None:
    """As an agent for passwords that it starts: it keeps the stdout that it was started with."""
    pid = tmp_path / "pid"
    began = time.monotonic()
    assert command_output(f"sleep 600 & echo $! >{pid}; echo key", os.environ) == "key"
    assert time.monotonic() - began < config_values.COMMAND_TIMEOUT_S
    os.kill(int(pid.read_text()), signal.SIGKILL)  # it was left running


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="only Linux lists the children of a process")
def test_a_command_that_takes_too_long_is_ended_with_all_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(config_values, "COMMAND_TIMEOUT_S", 1)
    with Pipe(tmp_path / "pipe") as pipe:
        command = f"sh -c 'echo $$ >{pipe.path}; exec sleep 600' | cat"
        assert command_output(command, os.environ) is None
        assert is_gone(int(pipe.line()), within=WITHIN)
    assert "it did not end within 1 s" in caplog.text and "sleep" not in caplog.text


def test_the_end_of_the_program_ends_the_commands_that_run(tmp_path: Path) -> None:
    with Pipe(tmp_path / "pipe") as pipe:
        command = f"sh -c 'echo $$ >{pipe.path}; exec sleep 600' | cat"
        asking = threading.Thread(target=command_output, args=(command, os.environ))
        asking.start()
        pid = int(pipe.line())
        stop_commands()
        assert is_gone(pid, within=WITHIN)
        asking.join(WITHIN)
        assert not asking.is_alive()


def test_a_command_has_three_streams_and_no_other_descriptor() -> None:
    with open(os.devnull) as ours:
        os.set_inheritable(ours.fileno(), False)
        assert command_output("ls /proc/self/fd | tr '\\n' ' '", os.environ) == "0 1 2 3"  # 3: the folder that ls reads


def test_many_at_once_get_the_same_key_and_leave_nothing(tmp_path: Path) -> None:
    AuthFile(tmp_path / "auth.json").change("a", {"type": "api_key", "key": "!echo key"})
    keys, found = Keys(tmp_path / "auth.json", {}), list[str | None]()
    threads = [threading.Thread(target=lambda: found.append(keys.get("a"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WITHIN)
    assert found == ["key"] * 8 and keys.known_secrets() == {"key"} and not helper_commands._running


def test_a_command_that_hangs_holds_up_neither_an_abort_nor_the_end(tmp_path: Path) -> None:
    with Pipe(tmp_path / "pipe") as pipe:
        provider = {
            "baseUrl": "http://127.0.0.1:9/v1",
            "api": "openai-completions",
            "apiKey": f"!echo $$ >{pipe.path}; exec sleep 600",
            "models": [{"id": "m1"}],
        }
        args = ["--provider", "lab", "--model", "m1"]
        with Agent(tmp_path, models={"providers": {"lab": provider}}, args=args, offline=False) as agent:
            agent.get("prompt", message="go")
            pid = int(pipe.line())
            agent.get("abort")
            assert agent.get("get_state")["isStreaming"] is False
            agent.close()
            assert agent.exit_code() == 0
        assert is_gone(pid, within=WITHIN)


# AWS: `credential_process` in its configuration file.

PROCESSES = {
    "fails": ("exit 1", "AWS credentials: "),
    "complains a lot": ("yes complaint | head -c 1000000 >&2; exit 1", "AWS credentials: "),
    "prints no JSON": ("echo hello", "AWS credentials: "),
    "prints another version": ('echo "{\\"Version\\": 9}"', "AWS credentials: "),
    "prints no key": ('echo "{\\"Version\\": 1, \\"AccessKeyId\\": \\"a\\"}"', "AWS credentials: "),
    "does not exist": ("no-such-program-anywhere", "AWS credentials: "),
}


def use_process(command: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The profile `lab` runs a command."""
    pytest.importorskip("botocore", reason="an extra: botocore")
    from tau.llm import aws

    script = folder / "helper"
    script.write_text(f"#!/bin/sh\n{command}\n")
    script.chmod(0o700)
    (folder / "config").write_text(f"[profile lab]\ncredential_process = {script}\n")
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(folder / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(folder / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    aws.forget()


@pytest.mark.parametrize(("command", "text"), PROCESSES.values(), ids=PROCESSES.keys())
def test_a_command_for_credentials_of_aws_that_fails_is_a_short_error(
    command: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_process(command, tmp_path, monkeypatch)
    from tau.llm import aws

    try:
        with pytest.raises(ModelError) as failed:
            aws.find_credentials({"AWS_PROFILE": "lab"})
    finally:
        aws.forget()
    assert str(failed.value).startswith(text) and len(str(failed.value)) <= 4200
    assert failed.value.transient is False


def test_a_command_for_credentials_of_aws_that_hangs_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_process(f"echo $$ >{tmp_path / 'pid'}; sleep 600 & wait", tmp_path, monkeypatch)
    from tau.llm import aws

    monkeypatch.setattr(aws, "PROCESS_TIMEOUT_S", 1.0)
    try:
        with pytest.raises(ModelError, match="AWS credentials: the credential_process did not end within 1 s"):
            aws.find_credentials({"AWS_PROFILE": "lab"})
    finally:
        aws.forget()
    assert is_gone(int((tmp_path / "pid").read_text()), within=WITHIN) and not helper_commands._running


def test_a_command_for_credentials_of_aws_does_not_outlive_tau(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Pipe(tmp_path / "pipe") as pipe:
        use_process(f"echo $$ >{pipe.path}; exec sleep 600", tmp_path, monkeypatch)
        env = {"AWS_PROFILE": "lab", **{name: text for name, text in os.environ.items() if name.startswith("AWS_")}}
        provider = {"baseUrl": "http://127.0.0.1:9", "api": "bedrock-converse-stream", "models": [{"id": "m1"}]}
        args = ["--provider", "amazon-bedrock", "--model", "m1"]
        models = {"providers": {"amazon-bedrock": provider}}
        with Agent(tmp_path, models=models, args=args, env=env, offline=False) as agent:
            agent.get("prompt", message="go")
            pid = int(pipe.line())
            agent.get("abort")
            assert agent.get("get_state")["isStreaming"] is False
            agent.close()
            assert agent.exit_code() == 0
        assert is_gone(pid, within=WITHIN)


def test_what_cannot_be_in_a_header_is_not_sent(tmp_path: Path) -> None:
    """A key with a line break in it would end the header and begin another."""
    provider = {
        "baseUrl": "http://127.0.0.1:9/v1",
        "api": "openai-completions",
        "apiKey": "!printf 'secret-part-1\\nx-evil: secret-part-2'",
        "models": [{"id": "m1"}],
    }
    models = {"providers": {"lab": provider}}
    args = ["--provider", "lab", "--model", "m1"]
    with Agent(tmp_path, models=models, args=args, offline=False) as agent:
        events = agent.prompt("go")
    error = json.dumps(events)
    assert "contains a line break, which cannot be sent" in error and "secret-part" not in error

"""A server on this machine, with no configuration at all: the whole program against a real socket."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from support.model_server import serving


def rpc(folder: Path, *argv: str, commands: list[dict[str, Any]], **environment: str) -> list[dict[str, Any]]:
    clean = {"PATH": os.environ["PATH"], "HOME": str(folder), "PI_CODING_AGENT_DIR": str(folder), **environment}
    done = subprocess.run(
        [sys.executable, "-m", "tau", "--mode", "rpc", *argv],
        input="".join(json.dumps(command) + "\n" for command in commands),
        capture_output=True,
        text=True,
        cwd=folder,
        env=clean,
        timeout=30,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_ollama_answers_without_a_file_and_without_a_key(tmp_path: Path) -> None:
    with serving({}) as (address, asked):
        told = rpc(
            tmp_path,
            *("--provider", "ollama", "--model", "qwen3"),
            commands=[{"type": "prompt", "message": "hi"}],
            OLLAMA_HOST=address,
            HTTP_PROXY="http://127.0.0.1:9",
        )
    answer = next(record["message"] for record in reversed(told) if record["type"] == "message_end")
    assert (answer["content"], answer["provider"], answer["model"]) == (
        [{"type": "text", "text": "Hello"}],
        "ollama",
        "qwen3",
    )
    assert (answer["usage"]["input"], answer["usage"]["output"], answer["stopReason"]) == (7, 2, "stop")
    assert asked == ["/v1/chat/completions None qwen3"]


def test_a_gateway_gets_reasoning_back_between_calls_and_in_the_next_run(tmp_path: Path) -> None:
    signed = {"type": "reasoning.text", "text": "why", "signature": "SIG", "index": 0}
    encrypted = {"type": "reasoning.encrypted", "data": "ENC", "index": 1}
    bash = {"index": 0, "id": "c", "function": {"name": "bash", "arguments": '{"command":"true"}'}}
    thinks = [
        ({"reasoning": "why", "reasoning_details": [{**signed, "signature": None}]}, None),
        ({"reasoning_details": [{"type": "reasoning.text", "signature": "SIG", "index": 0}]}, None),
        ({"reasoning_details": [encrypted], "tool_calls": [bash]}, "tool_calls"),
    ]
    bodies: list[Any] = []
    model = {"id": "anthropic/claude-x", "reasoning": True}
    with serving({}, bodies=bodies, answers=[thinks]) as (address, _):
        gateway = {"baseUrl": address, "apiKey": "k", "api": "openai-completions", "models": [model]}
        (tmp_path / "models.json").write_text(json.dumps({"providers": {"openrouter": gateway}}))
        told = rpc(
            tmp_path,
            *("--provider", "openrouter", "--model", "anthropic/claude-x"),
            commands=[{"type": "prompt", "message": "hi"}],
        )
        rpc(tmp_path, "--continue", commands=[{"type": "prompt", "message": "and?"}])
    thoughts = [each["message"]["content"][0] for each in told if each["type"] == "message_end"]
    assert {
        "type": "thinking",
        "thinking": "why",
        "thinkingSignature": json.dumps([signed, encrypted], separators=(",", ":")),
    } in thoughts
    answers = [[each for each in body["messages"] if each["role"] == "assistant"] for body in bodies]
    assert [len(each) for each in answers] == [0, 1, 2]
    assert [each[0]["reasoning_details"] for each in answers[1:]] == [[signed, encrypted]] * 2


def test_a_server_is_not_asked_for_its_models_at_the_start(tmp_path: Path) -> None:
    with serving({}) as (address, asked):
        told = rpc(
            tmp_path,
            commands=[{"type": "get_available_models"}, {"type": "set_model", "provider": "ollama", "modelId": "m"}],
            OLLAMA_HOST=address,
        )
    assert asked == []
    first, second = (record for record in told if record["type"] == "response")
    assert first["data"] == {"models": []}
    assert (second["success"], second["data"]["baseUrl"]) == (True, address)

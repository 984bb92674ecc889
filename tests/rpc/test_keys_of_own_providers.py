"""Providers of models.json whose keys are where pi keeps them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from support.model_server import NOWHERE, serving
from support.rpc_process import Agent, Json, command_line, surroundings

pytestmark = pytest.mark.process
HEADERS = {"x-team": "blue", "authorization": "Bearer of-bad-news"}
MODELS: list[Json] = [{"id": "m1", "headers": {"x-own": "1"}}, {"id": "m2"}]
OWN: Json = {"baseUrl": NOWHERE, "api": "openai-completions", "models": MODELS, "headers": HEADERS}


def with_key(folder: Path) -> None:
    (folder / "agent").mkdir(parents=True)
    (file := folder / "agent" / "auth.json").write_text(json.dumps({"own": {"type": "api_key", "key": "sk-of-mine"}}))
    file.chmod(0o600)


def test_a_provider_takes_its_key_from_auth_json(tmp_path: Path) -> None:
    with_key(tmp_path)
    with serving({}) as (address, asked):
        own = {"baseUrl": address, "api": "openai-completions", "models": MODELS}
        with Agent(tmp_path, models={"providers": {"own": own}}, args=["--model", "own/m1"], offline=False) as agent:
            assert [model["id"] for model in agent.get("get_available_models")["models"]] == ["m1", "m2"]
            agent.prompt("hi")
            assert agent.get("get_last_assistant_text") == {"text": "Hello"}
        assert agent.stderr == ""
    assert asked == ["/v1/chat/completions Bearer sk-of-mine m1"]


def test_a_provider_without_a_key_is_listed_with_what_it_needs(tmp_path: Path) -> None:
    env = surroundings(tmp_path, models={"providers": {"own": OWN}})
    program = command_line()[:-2]

    def run(*args: str) -> tuple[int, str]:
        done = subprocess.run([*program, *args], env=env, cwd=tmp_path / "work", capture_output=True, text=True)
        assert "ignored" not in done.stderr
        return done.returncode, done.stdout + done.stderr

    code, shown = run("--list-models", "own")
    assert code == 0 and "m1" in shown and "tau login own" in shown
    code, shown = run("-p", "--model", "own/m1", "hi")
    assert code != 0 and 'No API key found for own. Run "tau login own"' in shown
    with Agent(tmp_path, models={"providers": {"own": OWN}}) as agent:
        assert "own" not in {model["provider"] for model in agent.get("get_available_models")["models"]}


def test_headers_of_providers_are_never_shown(tmp_path: Path) -> None:
    with_key(tmp_path)
    with Agent(tmp_path, models={"providers": {"own": OWN}}, args=["--model", "own/m2"], offline=False) as agent:
        shown = [agent.get("set_model", provider="own", modelId="m1"), agent.get("cycle_model")["model"]]
        shown += [agent.get("get_state")["model"], *agent.get("get_available_models")["models"]]
    assert len(shown) == 5 and all("headers" not in model for model in shown)

"""What becomes a default for later sessions: what the client chose, and nothing that followed from it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.rpc_process import Agent, Json

MODELS: list[Json] = [{"id": "thinks", "reasoning": True}, {"id": "plain", "reasoning": False}]
PROVIDER = {"baseUrl": "http://127.0.0.1:9", "apiKey": "none", "api": "scripted", "models": MODELS}


def saved(agent: Agent) -> Json:
    found: Json = json.loads(agent.settings_file.read_text()) if agent.settings_file.exists() else {}
    return {name: value for name, value in found.items() if name.startswith("default")}


@pytest.mark.parametrize(("provider", "id"), [("tau", "demo"), ("scripted", "scripted"), ("tau", "local")])
def test_an_offline_model_never_becomes_the_default(tmp_path: Path, provider: str, id: str) -> None:
    with Agent(tmp_path, models={"providers": {"lab": PROVIDER}}) as agent:
        agent.get("set_model", provider="lab", modelId="thinks")
        agent.get("set_model", provider=provider, modelId=id)
        assert agent.get("get_state")["model"]["id"] == id
        assert saved(agent) == {"defaultProvider": "lab", "defaultModel": "thinks"}


@pytest.mark.parametrize(("dialect", "level"), [("default", "high"), ("0.73", "high"), ("2026-03", "off")])
def test_a_level_that_was_lowered_becomes_the_default_in_dialects_whose_pi_does_so(
    tmp_path: Path, dialect: str, level: str
) -> None:
    with Agent(tmp_path, models={"providers": {"lab": PROVIDER}}, args=("--dialect", dialect)) as agent:
        agent.get("set_model", provider="lab", modelId="thinks")
        agent.get("set_thinking_level", level="high")
        agent.get("set_model", provider="lab", modelId="plain")
        assert saved(agent)["defaultThinkingLevel"] == level
        agent.get("set_thinking_level", level="low")
        assert saved(agent)["defaultThinkingLevel"] == level


def test_a_level_that_was_lowered_for_a_model_never_becomes_the_default(tmp_path: Path) -> None:
    with Agent(tmp_path, models={"providers": {"lab": PROVIDER}}) as agent:
        agent.get("set_model", provider="lab", modelId="thinks")
        agent.get("set_thinking_level", level="high")
        assert saved(agent)["defaultThinkingLevel"] == "high"
        agent.get("set_model", provider="lab", modelId="plain")
        agent.get("set_thinking_level", level="low")
        assert agent.get("get_state")["thinkingLevel"] == "off"
        assert saved(agent) == {"defaultProvider": "lab", "defaultModel": "plain", "defaultThinkingLevel": "high"}


def test_choices_are_saved_beside_a_value_of_a_wrong_type(tmp_path: Path) -> None:
    odd: Json = {
        "theme": {"light": "l", "dark": "d"},
        "retry": {"maxRetries": "many"},
        "compaction": {"enabled": "yes"},
    }
    with Agent(tmp_path, models={"providers": {"lab": PROVIDER}}, settings=odd) as agent:
        agent.get("set_model", provider="lab", modelId="thinks")
        agent.get("set_thinking_level", level="high")
        agent.get("set_steering_mode", mode="all")
        agent.get("set_auto_retry", enabled=False)
        agent.get("set_auto_compaction", enabled=False)
        assert json.loads(agent.settings_file.read_text()) == {
            **odd,
            "retry": {"maxRetries": "many", "enabled": False},
            "compaction": {"enabled": False},
            "steeringMode": "all",
            "defaultProvider": "lab",
            "defaultModel": "thinks",
            "defaultThinkingLevel": "high",
        }

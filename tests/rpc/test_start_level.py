"""The thinking level that a session is opened with is that of its own model."""

from __future__ import annotations

from pathlib import Path

from support.rpc_process import Agent, Json

MODELS: list[Json] = [{"id": "thinks", "reasoning": True}, {"id": "plain", "reasoning": False}]
PROVIDER = {"baseUrl": "http://127.0.0.1:9", "apiKey": "none", "api": "scripted", "models": MODELS}
PLAIN_BY_DEFAULT = {"defaultProvider": "lab", "defaultModel": "plain", "defaultThinkingLevel": "low"}


def test_a_level_on_the_command_line_is_fitted_to_the_model_of_the_session(tmp_path: Path) -> None:
    with Agent(tmp_path, models={"providers": {"lab": PROVIDER}}) as agent:
        agent.get("set_model", provider="lab", modelId="thinks")
        agent.prompt("hi")
        file = agent.get("get_state")["sessionFile"]
        agent.close()
        assert agent.exit_code() == 0
    args = ["--script", str(tmp_path / "script.json"), "--session", file, "--thinking", "high"]
    with Agent(tmp_path, settings=PLAIN_BY_DEFAULT, offline=False, args=args) as agent:
        state = agent.get("get_state")
        assert (state["model"]["id"], state["thinkingLevel"]) == ("thinks", "high")

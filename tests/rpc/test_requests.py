"""What a session asks of its model, apart from the conversation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.anthropic_server import ModelServer
from support.rpc_agent import Agent


def sized(models: dict[str, Any], **sizes: int) -> dict[str, Any]:
    """The models with another context window and output limit."""
    mock = models["providers"]["mock"]
    return {"providers": {"mock": {**mock, "models": [{**mock["models"][0], **sizes}]}}}


def test_an_answer_may_only_be_as_long_as_the_context_window_has_room_for(tmp_path: Path) -> None:
    with ModelServer("Hello.") as server:
        models = sized(server.models, contextWindow=100_000, maxTokens=64_000)
        with Agent(tmp_path, models=models, offline=False, args=["--model", "mock/m1", "--no-tools"]) as agent:
            agent.prompt("hi")
            agent.prompt("x" * 200_000)
        short, long = (request["max_tokens"] for request in server.asked)
    assert short == 64_000
    assert 44_000 < long < 46_000  # a window of 100,000 less 50,000 for the prompt and a reserve of 4,096


def test_caches_last_an_hour_if_the_environment_says_so(tmp_path: Path) -> None:
    def markers(**env: str) -> list[Any]:
        with ModelServer("Hello.") as server:
            folder = tmp_path / f"agent{len(env)}"
            with Agent(folder, models=server.models, offline=False, args=["--model", "mock/m1"], env=env) as agent:
                agent.prompt("hi")
            (request,) = server.asked
        places = (request["system"][-1], request["tools"][-1], request["messages"][-1]["content"][-1])
        return [place["cache_control"] for place in places]

    assert markers() == [{"type": "ephemeral"}] * 3
    assert markers(PI_CACHE_RETENTION="long") == [{"type": "ephemeral", "ttl": "1h"}] * 3

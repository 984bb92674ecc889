"""Models that an extension asks in its own way, in the real program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.rpc_agent import Agent
from support.rpc_process import Json, of, text, texts

MODELS = [{"id": "m1", "reasoning": True, "cost": {"input": 1, "output": 2, "cacheRead": 0, "cacheWrite": 0}}]


def speaking(folder: Path, body: str, settings: Json | None = None, **options: Any) -> Agent:
    """An agent whose model is this: the body of `stream(model, context, options)`."""
    lines = "\n".join(f"        {line}" for line in body.strip("\n").splitlines())
    path = folder / "ext.py"
    path.write_text(
        f"""
import asyncio, os


def setup(pi):
    async def stream(model, context, options):
{lines}

    pi.register_provider("mine", {{"models": {MODELS!r}, "stream": stream}})
    pi.on("session_start", lambda event, ctx: ctx.ui.notify("begun"))
"""
    )
    args = ["-e", str(path), "--model", "mine/m1"]
    return Agent(folder, args=args, settings=settings, offline=False, **options)


def last(events: list[Json]) -> Json:
    ends = [event["message"] for event in of("message_end", events)]
    return [message for message in ends if message["role"] == "assistant"][-1]


def test_an_answer_is_made_of_the_pieces_that_are_yielded(tmp_path: Path) -> None:
    body = """
yield {"type": "thinking", "delta": "Hm"}
yield {"type": "thinking", "delta": "m.", "signature": "abc"}
yield {"type": "text", "delta": "Hel"}
await asyncio.sleep(0.05)
yield {"type": "text", "delta": "lo"}
yield {"type": "usage", "input": 1000, "output": 500, "cache_read": 10}
yield {"type": "done", "stop_reason": "length"}
"""
    with speaking(tmp_path, body) as agent:
        answer = last(agent.prompt("go"))
        assert agent.stderr == ""
    assert answer["content"] == [
        {"type": "thinking", "thinking": "Hmm.", "thinkingSignature": "abc"},
        {"type": "text", "text": "Hello"},
    ]
    assert (answer["api"], answer["provider"], answer["model"]) == ("extension-stream", "mine", "m1")
    assert (answer["stopReason"], answer["usage"]["cacheRead"], answer["usage"]["cost"]["output"]) == (
        "length",
        10,
        0.001,
    )


def test_what_is_said_is_seen_as_it_is_said(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    body = f"""
yield {{"type": "text", "delta": "first"}}
while not os.path.exists({str(gate)!r}):
    await asyncio.sleep(0.01)
yield {{"type": "text", "delta": "second"}}
"""
    with speaking(tmp_path, body) as agent:
        agent.send("prompt", message="go")
        agent.until(lambda event: event.get("assistantMessageEvent", {}).get("delta") == "first")
        gate.touch()
        assert texts(agent.settled(), "assistant") == ["firstsecond"]


def test_tools_are_called_and_their_results_handed_back(tmp_path: Path) -> None:
    body = """
results = [message for message in context.messages if message["role"] == "toolResult"]
if not results:
    yield {"type": "text", "delta": "Let me see."}
    yield {"type": "tool_call", "id": "call_1", "name": "bash", "arguments": {"command": "echo $((6 * 7))"}}
else:
    said = [context.system != "", context.tools[0]["name"], options.thinking_level, model.id]
    yield {"type": "text", "delta": f"{said} {results[0]['content'][0]['text']}"}
"""
    with speaking(tmp_path, body) as agent:
        events = agent.prompt("go")
        (end,) = of("tool_execution_end", events)
        assert text(end["result"]) == "42\n"
        assert texts(events, "assistant")[-1] == "[True, 'read', 'medium', 'm1'] 42\n"


def test_a_great_many_pieces_all_arrive_in_order(tmp_path: Path) -> None:
    body = """
for number in range(30_000):
    yield {"type": "text", "delta": f"{number},"}
"""
    with speaking(tmp_path, body) as agent:
        assert texts(agent.prompt("go"), "assistant") == ["".join(f"{number}," for number in range(30_000))]
        assert of("extension_error", agent.events) == []


FAILURES = {
    "raises": ("yield {'type': 'text', 'delta': 'so far'}\nraise ValueError('out of words')", "out of words"),
    "says nonsense": ("yield {'type': 'zork'}", "The extension sent an invalid chunk of an answer: "),
    "yields no dict": ("yield 5", "A chunk of an answer must be a dict with a type, not 5"),
    "dies": ("yield {'type': 'text', 'delta': 'x'}\nos._exit(3)", "Its process ended with code 3."),
    "is silent": ("yield {'type': 'text', 'delta': 'x'}\nawait asyncio.sleep(3600)", "The extension sent nothing for "),
}


@pytest.mark.parametrize("how", FAILURES)
def test_what_goes_wrong_is_the_error_of_the_answer(tmp_path: Path, how: str) -> None:
    body, why = FAILURES[how]
    settings = {"retry": {"enabled": False}, "httpIdleTimeoutMs": 500 if how == "is silent" else 60_000}
    with speaking(tmp_path, body, settings) as agent:
        answer = last(agent.prompt("go"))
        assert (answer["stopReason"], answer["errorMessage"].startswith(why)) == ("error", True)
        assert agent.get("get_state")["isStreaming"] is False


def test_one_that_died_is_asked_again_when_it_is_back(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    body = f"""
if not os.path.exists({str(mark)!r}):
    open({str(mark)!r}, "w").close()
    os._exit(3)
yield {{"type": "text", "delta": "back"}}
"""
    with speaking(tmp_path, body, {"retry": {"baseDelayMs": 500, "maxRetries": 10}}) as agent:
        assert texts(agent.prompt("go"), "assistant")[-1] == "back"


@pytest.mark.parametrize("how", ["await asyncio.sleep(3600)", "while True: pass"])
def test_an_abort_stops_it(tmp_path: Path, how: str) -> None:
    body = f"""
yield {{"type": "text", "delta": "begun"}}
await asyncio.sleep(0.05)
{how}
"""
    with speaking(tmp_path, body) as agent:
        agent.send("prompt", message="go")
        agent.until(lambda event: event.get("assistantMessageEvent", {}).get("delta") == "begun")
        assert agent.ask("abort", within=10)["success"]
        assert last(agent.events)["stopReason"] == "aborted"

"""The tree of spans of a run: what happened, in which run, and nothing of what was said."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import tau
from support.library_agent import HANGS, calls, opened, play, says
from support.otlp import tree
from support.rpc_process import Json

pytest.importorskip("opentelemetry.sdk", reason="needs the extra [otel]")

from opentelemetry.sdk.trace import TracerProvider

from support.telemetry_spans import RETRY, Collected, collected

CANARY = "canary-4711"


def test_a_prompt_is_a_run_with_one_request(tmp_path: Path) -> None:
    found = collected(tmp_path, says("Hel", "lo"))
    assert tree(found.spans) == ["invoke_agent tau", "  chat scripted"]
    run, chat = found.named("invoke_agent tau").attributes, found.named("chat scripted").attributes
    assert (run["gen_ai.usage.input_tokens"], run["tau.turns"], run["tau.mode"]) == (10, 1, "library")
    assert (chat["gen_ai.usage.output_tokens"], chat["gen_ai.response.finish_reasons"]) == (5, ("stop",))
    assert chat["gen_ai.conversation.id"] == run["gen_ai.conversation.id"]
    assert found.named("chat scripted").events == ["tau.first_chunk"]


def test_tools_are_spans_of_the_run(tmp_path: Path) -> None:
    found = collected(tmp_path, calls("bash", command="exit 3"), calls("read", path="none"), says("ok"))
    assert tree(found.spans) == [
        *("invoke_agent tau", "  chat scripted", "  execute_tool bash"),
        *("  chat scripted", "  execute_tool read !tool", "  chat scripted"),
    ]
    bash = found.named("execute_tool bash").attributes
    assert (bash["tau.tool.exit_code"], bash["tau.tool.is_error"], bash["gen_ai.tool.type"]) == (3, True, "function")


def test_a_retry_is_an_event_and_the_failed_request_names_its_class(tmp_path: Path) -> None:
    failure: Json = {"blocks": [], "error": {"message": "529 overloaded"}}
    found = collected(tmp_path, failure, says("ok"), settings=RETRY)
    assert tree(found.spans) == ["invoke_agent tau", "  chat scripted !overloaded", "  chat scripted"]
    run = found.named("invoke_agent tau")
    assert (run.events, run.attributes["tau.retries"]) == (["tau.retry"], 1)


def test_an_aborted_run_ends_its_spans(tmp_path: Path) -> None:
    async def story(agent: tau.Agent) -> None:
        run = agent.prompt("Hi")
        async for event in run:
            if isinstance(event, tau.events.MessageUpdate):
                await agent.abort()
        await run

    found = collected(tmp_path, HANGS, story=story)
    assert tree(found.spans) == ["invoke_agent tau !aborted", "  chat scripted !aborted"]
    assert found.named("invoke_agent tau").attributes["tau.aborted"] is True


def test_a_budget_is_named(tmp_path: Path) -> None:
    found = collected(
        tmp_path, calls("bash", command="true"), says("ok"), budget=tau.Budget(max_turns=1, allow_unknown_cost=True)
    )
    assert found.named("invoke_agent tau").attributes["tau.budget.limit"] == "turns"


def test_a_model_that_was_stuck_is_named(tmp_path: Path) -> None:
    about = collected(tmp_path, calls("no_such_tool")).named("invoke_agent tau").attributes
    assert (about["tau.budget.limit"], about["error.type"]) == ("stuck", "stuck")


def test_a_denied_call_is_not_a_failure_of_the_tool(tmp_path: Path) -> None:
    rules = {"deny": [{"tool": "bash"}], "otherwise": "allow"}
    found = collected(tmp_path, calls("bash", command="true"), says("ok"), permissions=rules)
    bash = found.named("execute_tool bash")
    assert (bash.attributes["tau.tool.denied_by"], bash.failed, bash.events) == ("rule", False, ["tau.permission"])


def test_a_compaction_is_a_span_with_its_request(tmp_path: Path) -> None:
    async def story(agent: tau.Agent) -> None:
        await agent.prompt("a " * 2000)
        await agent.compact()

    settings = {"compaction": {"keepRecentTokens": 1}}
    found = collected(tmp_path, says("b " * 2000), says("summary"), says("more"), story=story, settings=settings)
    assert "invoke_workflow compaction" in tree(found.spans)
    assert any(
        line == "  chat scripted" for line in tree(found.spans)[tree(found.spans).index("invoke_workflow compaction") :]
    )


def test_a_steering_message_is_an_event(tmp_path: Path) -> None:
    async def story(agent: tau.Agent) -> None:
        run = agent.prompt("Hi")
        async for event in run:
            if isinstance(event, tau.events.ToolStart):
                await agent.steer("and this")
        await run

    found = collected(tmp_path, calls("bash", command="sleep 0.1"), says("ok"), says("ok"), story=story)
    assert "tau.steered" in found.named("invoke_agent tau").events


def test_the_span_of_the_caller_is_the_parent(tmp_path: Path) -> None:
    found = Collected()
    tracer = found.provider.get_tracer("program")

    async def story() -> None:
        async with opened(tmp_path, says("ok"), says("ok"), telemetry=found.provider) as agent:
            with tracer.start_as_current_span("the program"):
                await agent.prompt("Hi")
            await agent.prompt("Hi")

    play(story())
    lines = tree(found.spans)
    assert lines.count("  invoke_agent tau") == 1
    assert lines.count("invoke_agent tau") == 1


@pytest.mark.promise("O06")
def test_sessions_of_one_process_do_not_mix(tmp_path: Path) -> None:
    found, count = Collected(), 40

    async def one(number: int) -> None:
        answers = (calls("bash", command="true"), says("a"), says("b"))
        async with opened(tmp_path / str(number), *answers, telemetry=found.provider) as agent:
            await agent.prompt("Hi")
            await agent.prompt("again")

    async def story() -> None:
        await asyncio.gather(*map(one, range(count)))

    play(story())
    spans = {span.id: span for span in found.spans}
    assert sum(span.name == "invoke_agent tau" for span in spans.values()) == 2 * count
    for span in spans.values():
        if span.name == "invoke_agent tau":
            assert span.parent == ""
        else:
            parent = spans[span.parent]
            assert parent.name == "invoke_agent tau"
            assert parent.attributes["gen_ai.conversation.id"] == span.attributes["gen_ai.conversation.id"]


def test_nothing_of_the_conversation_is_sent(tmp_path: Path) -> None:
    answers = (
        {"blocks": [{"thinking": CANARY}, {"text": CANARY}]},
        {"blocks": [{"text": CANARY}, {"tool": "bash", "arguments": {"command": f"echo {CANARY}; false {CANARY}"}}]},
        {"blocks": [{"tool": "write", "arguments": {"path": f"{CANARY}.txt", "content": CANARY}}]},
        {"blocks": [], "error": {"message": f"500 {CANARY}"}},
        says(CANARY),
    )

    async def story(agent: tau.Agent) -> None:
        await agent.prompt(CANARY)
        await agent.prompt(CANARY)

    found = collected(tmp_path, *answers, story=story, settings=RETRY, system_prompt=CANARY)
    assert len(found.spans) >= 8
    assert CANARY not in repr(found.spans)


def test_content_is_sent_if_it_is_asked_for_without_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk-live-0123456789abcdef0123"
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    env |= {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_ONLY", "TAU_TELEMETRY_CONTENT_BYTES": "400"}
    answer: Json = {"blocks": [{"text": f"{CANARY} {key}"}, {"tool": "bash", "arguments": {"command": f"echo {key}"}}]}
    found = collected(tmp_path, answer, says("x" * 5000), env=env)
    chat = [span for span in found.spans if span.name == "chat scripted"]
    assert CANARY in chat[0].attributes["gen_ai.output.messages"]
    assert len(chat[1].attributes["gen_ai.output.messages"].encode()) <= 403
    assert "gen_ai.tool.call.result" in found.named("execute_tool bash").attributes
    assert key not in repr(found.spans)


def test_a_failure_of_telemetry_harms_nothing(tmp_path: Path) -> None:
    class Broken(TracerProvider):
        def get_tracer(self, *args: Any, **names: Any) -> Any:
            return self

        def start_span(self, *args: Any, **names: Any) -> Any:
            raise RuntimeError("broken")

    async def story() -> str:
        async with opened(tmp_path, says("Hello"), telemetry=Broken()) as agent:
            return (await agent.prompt("Hi")).text

    assert play(story()) == "Hello"

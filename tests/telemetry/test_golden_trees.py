"""The tree of spans for what can happen in a run: overflow, an abort at any event, extensions, forks, unknown tools."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk", reason="needs the extra [otel]")

import tau
from support.library_agent import HANGS, calls, opened, play, says
from support.otlp import tree
from support.otlp_check import complaints
from support.rpc_process import Json
from support.telemetry_spans import RETRY, Collected, collected

OVERFLOW: Json = {"blocks": [], "error": {"message": "400 prompt is too long"}}


def test_an_overflow_is_compacted_within_the_run(tmp_path: Path) -> None:
    async def story(agent: tau.Agent) -> None:
        await agent.prompt("a " * 2000)
        await agent.prompt("Hi")

    settings = {**RETRY, "compaction": {"keepRecentTokens": 1}}
    found = collected(tmp_path, says("b"), OVERFLOW, says("summary"), says("ok"), story=story, settings=settings)
    assert tree(found.spans)[2:] == [
        *("invoke_agent tau", "  chat scripted !overflow", "  invoke_workflow compaction", "    chat scripted"),
        "  chat scripted",
    ]
    assert complaints(found.spans) == []


@pytest.mark.parametrize("at", range(14))
def test_an_abort_at_any_event_leaves_a_whole_tree(tmp_path: Path, at: int) -> None:
    """Every span has ended, below its run, and the run says that it was aborted or that it was done before."""

    async def story(agent: tau.Agent) -> None:
        run, seen = agent.prompt("Hi"), 0
        async for _ in run:
            if seen == at:
                await agent.abort()
            seen += 1
        await run

    answers = (calls("bash", command="true"), {"blocks": [], "error": {"message": "529 overloaded"}}, HANGS)
    found = collected(tmp_path, *answers, story=story, settings=RETRY)
    root = found.named("invoke_agent tau")
    assert {span.parent for span in found.spans if span.id != root.id} <= {root.id}
    assert (root.attributes["tau.aborted"], root.attributes["error.type"]) == (True, "aborted")
    assert complaints(found.spans) == []


def test_a_budget_fails_the_run_by_name(tmp_path: Path) -> None:
    budget = tau.Budget(max_turns=1, allow_unknown_cost=True)
    found = collected(tmp_path, calls("bash", command="true"), says("ok"), budget=budget)
    assert tree(found.spans)[0] == "invoke_agent tau !budget"
    assert complaints(found.spans) == []


def test_tools_of_extensions_keep_their_names_and_unknown_ones_do_not(tmp_path: Path) -> None:
    def setup(pi: Any) -> None:
        @pi.tool
        def weather(city: str) -> str:
            """The weather."""
            return f"sunny in {city}"

    answers = (calls("weather", city="Paris"), calls("rm_secret_project", x=1), says("ok"))
    found = collected(tmp_path, *answers, extensions=[setup])
    assert tree(found.spans) == [
        *("invoke_agent tau", "  chat scripted", "  execute_tool weather"),
        *("  chat scripted", "  execute_tool _OTHER !tool", "  chat scripted"),
    ]
    assert found.named("execute_tool weather").attributes["gen_ai.tool.type"] == "extension"
    assert complaints(found.spans) == []


def test_a_fork_is_another_conversation(tmp_path: Path) -> None:
    async def story(agent: tau.Agent) -> None:
        await agent.prompt("Hi")
        await agent.clone()
        await agent.prompt("again")

    found = collected(tmp_path, says("a"), says("b"), story=story, session=True, session_dir=tmp_path / "sessions")
    assert tree(found.spans) == ["invoke_agent tau", "  chat scripted"] * 2
    assert len({span.attributes["gen_ai.conversation.id"] for span in found.spans}) == 2


def test_prompts_that_wait_keep_their_own_parents(tmp_path: Path) -> None:
    """Each run has the span in which its prompt was made, also if runs start later."""
    found = Collected()
    tracer = found.provider.get_tracer("program")

    async def second(agent: tau.Agent) -> None:
        with tracer.start_as_current_span("second"):
            await agent.prompt("second")

    async def story() -> None:
        async with opened(tmp_path, says("a"), telemetry=found.provider) as agent:
            with tracer.start_as_current_span("first"):
                run = agent.prompt("first")
                async for event in run:
                    if isinstance(event, tau.events.AgentEnd):  # the first run has not settled
                        other = asyncio.create_task(second(agent))
            await other

    play(story())
    spans = {span.id: span for span in found.spans}
    runs = [span for span in spans.values() if span.name == "invoke_agent tau"]
    assert [spans[span.parent].name for span in runs] == ["first", "second"]

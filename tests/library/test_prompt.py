"""A prompt can be awaited and read, and ends the same way for everybody who waits for it."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import Any

import pytest

import tau
from support.library_agent import HANGS, calls, opened, play, says
from tau import events
from tau.core.agent.structured_output import TOOL_NAME

WHOLE = [
    *("agent_start", "turn_start", "message_start", "message_end", "message_start"),
    *("message_update", "message_update", "message_update", "message_end", "turn_end", "agent_end", "agent_settled"),
]


def test_awaited_it_is_its_result(tmp_path: Path) -> None:
    async def story() -> tau.Result:
        async with opened(tmp_path, says("Hel", "lo")) as agent:
            return await agent.prompt("Hi")

    result = play(story())
    assert (result.text, result.stop_reason, result.error, result.ok) == ("Hello", "stop", None, True)
    assert [type(message).__name__ for message in result.messages] == ["User", "Assistant"]
    assert (result.usage.input, result.usage.output, result.cost, result.cost_unknown) == (10, 5, 0, False)


def test_read_it_tells_everything_in_order(tmp_path: Path) -> None:
    async def story() -> list[str]:
        async with opened(tmp_path, says("Hel", "lo")) as agent:
            return [events.type_of(event) async for event in agent.prompt("Hi")]

    told = play(story())
    assert [kind for at, kind in enumerate(told) if kind != "message_update" or told[at - 1] != kind] == [
        kind for at, kind in enumerate(WHOLE) if kind != "message_update" or WHOLE[at - 1] != kind
    ]


def test_it_can_be_read_and_then_awaited(tmp_path: Path) -> None:
    async def story() -> tuple[str, str]:
        async with opened(tmp_path, says("Hello")) as agent:
            run = agent.prompt("Hi")
            text = "".join([piece async for event in run if (piece := delta(event))])
            return text, (await run).text

    assert play(story()) == ("Hello", "Hello")


def delta(event: tau.AgentEvent) -> str:
    match event:
        case events.MessageUpdate(assistant_message_event=events.TextDelta(delta=text)):
            return text
    return ""


def test_a_prompt_starts_only_when_it_is_awaited(tmp_path: Path) -> None:
    async def story() -> int:
        async with opened(tmp_path) as agent:
            agent.prompt("Hi")
            gc.collect()
            return agent.state.message_count

    with pytest.warns(RuntimeWarning, match="prompt 'Hi' was never awaited"):
        assert play(story()) == 0


def test_a_reader_that_is_behind_gets_joined_pieces_and_misses_nothing(tmp_path: Path) -> None:
    async def story() -> tuple[int, str]:
        async with opened(tmp_path, {"blocks": [{"text": "a"}], "repeat": 5000}) as agent:
            run = agent.prompt("Hi")
            stream = aiter(run)
            await run
            told = [event async for event in stream]
            return len(told), "".join(map(delta, told))

    assert play(story()) == (12, "a" * 5000)


def test_leaving_early_does_not_abort(tmp_path: Path) -> None:
    async def story() -> str | None:
        async with opened(tmp_path, calls("bash", command="echo hi"), says("done")) as agent:
            async for event in agent.prompt("go"):
                if isinstance(event, events.ToolStart):
                    break
            await agent.wait_idle()
            return agent.last_text()

    assert play(story()) == "done"


def test_a_failure_is_a_result(tmp_path: Path) -> None:
    async def story() -> tau.Result:
        failing = {"text": "x", "error": {"message": "401 no such key", "after": 0}}
        async with opened(tmp_path, failing) as agent:
            return await agent.prompt("Hi")

    result = play(story())
    assert (result.stop_reason, result.error, result.ok) == ("error", "401 no such key", False)


def test_an_answer_that_was_tried_again_is_not_among_the_messages(tmp_path: Path) -> None:
    async def story() -> tau.Result:
        failing = {"text": "x", "error": {"message": "529 overloaded", "after": 0}}
        settings = {"retry": {"baseDelayMs": 1}}
        async with opened(tmp_path, failing, says("fine"), settings=settings) as agent:
            return await agent.prompt("Hi")

    result = play(story())
    assert [type(message).__name__ for message in result.messages] == ["User", "Assistant"]
    assert (result.text, result.ok) == ("fine", True)


def test_a_refusal_is_raised_to_those_who_wait_and_to_those_who_read(tmp_path: Path) -> None:
    async def story() -> list[str]:
        heard = []
        async with opened(tmp_path, HANGS) as agent:
            first = agent.prompt("one").start()
            async for _ in first:
                break
            with pytest.raises(tau.CommandError) as awaited:
                await agent.prompt("two")
            with pytest.raises(tau.CommandError) as read:
                async for _ in agent.prompt("three"):
                    pass
            heard = [str(awaited.value), str(read.value)]
            await agent.abort()
            assert (await first).stop_reason == "aborted"
        return heard

    assert all("already processing" in text for text in play(story()))


def test_a_message_can_wait_for_the_run_under_way(tmp_path: Path) -> None:
    async def story() -> tuple[str, list[str]]:
        slow = {"blocks": [{"text": ["o", "n", "e"]}], "delayMs": 20}
        async with opened(tmp_path, slow, says("two")) as agent:
            first = agent.prompt("one").start()
            async for _ in first:
                break
            second = await agent.prompt("and?", while_busy="follow_up")
            await first
            said = [message.text for message in agent.messages() if isinstance(message, events.Assistant)]
            return second.text, said

    assert play(story()) == ("two", ["one", "two"])


def test_prompts_in_a_row_each_have_their_own_end(tmp_path: Path) -> None:
    async def story() -> list[tuple[str, int]]:
        async with opened(tmp_path, says("a"), says("b")) as agent:
            results = [await agent.prompt(text) for text in ("1", "2")]
            return [(result.text, len(result.messages)) for result in results]

    assert play(story()) == [("a", 2), ("b", 2)]


def test_steering_reaches_the_run(tmp_path: Path) -> None:
    async def story() -> list[str]:
        slow = calls("bash", command="sleep 0.2")
        async with opened(tmp_path, slow, says("heard you")) as agent:
            async for event in agent.prompt("go"):
                if isinstance(event, events.ToolStart):
                    await agent.steer("stop that")
            return [text_of(message) for message in agent.messages() if isinstance(message, events.User)]

    assert play(story()) == ["go", "stop that"]


def text_of(message: events.User) -> str:
    content: Any = message.content
    return content if isinstance(content, str) else str(content[0].text)


def test_the_answer_so_far_can_be_asked_for(tmp_path: Path) -> None:
    async def story() -> tuple[list[Any], object]:
        async with opened(tmp_path, HANGS) as agent:
            run = agent.prompt("Hi").start()
            async for event in run:
                if delta(event):
                    break
            assert agent.partial is not None
            content: list[Any] = list(agent.partial.content)
            await agent.abort()
            return content, agent.partial

    assert play(story()) == ([events.Text("for ")], None)


def test_an_image_that_is_none_is_refused(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path) as agent:
            with pytest.raises(tau.CommandError, match="not valid base64"):
                await agent.prompt("look", [tau.Image("!", "image/png")])

    play(story())


def test_an_answer_can_be_an_object(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

    async def story() -> Any:
        async with opened(tmp_path, calls(TOOL_NAME, n=3), says("there")) as agent:
            return (await agent.prompt("count", output_schema=schema)).output

    assert play(story()) == {"n": 3}


def test_a_budget_ends_a_run(tmp_path: Path) -> None:
    async def story() -> tau.Result:
        async with opened(tmp_path, calls("bash", command="true"), budget=tau.Budget(max_turns=2)) as agent:
            return await agent.prompt("go")

    result = play(story())
    assert result.exceeded is not None and result.exceeded.limit == "turns"


def test_a_handler_may_ask_the_agent_that_tells_it(tmp_path: Path) -> None:
    async def story() -> list[str]:
        done = asyncio.Event()
        heard: list[str] = []
        async with opened(tmp_path, HANGS) as agent:

            async def handler(event: tau.AgentEvent) -> None:
                heard.append(events.type_of(event))
                if isinstance(event, events.MessageUpdate) and agent.is_streaming:
                    await agent.abort()
                    done.set()

            agent.subscribe(handler)
            result = await agent.prompt("Hi")
            await done.wait()
            assert result.stop_reason == "aborted"
        return heard

    assert play(story())[-1] == "agent_settled"

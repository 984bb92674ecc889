from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from support.in_process_session import House, play
from support.rpc_process import calls, kinds, of, said, text, texts
from support.virtual_clock import Clock, played
from tau.errors import CommandError
from tau.extension_api.hooks import HOOKS
from tau.records.base import UNSET
from tau.records.events import AgentStart, Event
from tau.runtime.extensions.command_table import Command


def names(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


# Telling.


def test_without_extensions_what_is_published_goes_to_the_client_and_nowhere_else(tmp_path: Path) -> None:
    async def story() -> None:
        house = House(tmp_path)
        waiting = asyncio.sleep(0)
        house.session.client = lambda event: waiting
        assert house.session.publish(AgentStart()) is waiting
        await waiting

    play(story())


def test_an_extension_is_told_what_the_client_is_told(tmp_path: Path) -> None:
    async def story() -> None:
        house = House(tmp_path, calls("echo hi"), {"text": "done"})
        hooks = [name for name in HOOKS if name.startswith(("agent_", "turn_", "message_", "tool_execution_"))]
        told = house.notes(*hooks)
        heard = [event for event in await house.prompt("go") if event["type"] in hooks]
        waited = [event for event in told if not HOOKS[event["type"]].streaming]
        assert names(waited) == [event["type"] for event in heard if not HOOKS[event["type"]].streaming]
        assert [(one["type"], one["turnIndex"]) for one in told if one["type"].startswith("turn_")] == [
            ("turn_start", 0),
            ("turn_end", 0),
            ("turn_start", 1),
            ("turn_end", 1),
        ]
        assert [one["message"] for one in of("message_end", told)] == [
            one["message"] for one in of("message_end", heard)
        ]

    play(story())


def test_extensions_hear_of_it_before_the_client_does(tmp_path: Path) -> None:
    async def story() -> None:
        house = House(tmp_path)
        order: list[str] = []
        house.on("agent_start", lambda event: order.append("extension"))
        client = house.session.client

        def listening(event: Any) -> Any:
            if isinstance(event, Event) and isinstance(event, AgentStart):
                order.append("client")
            return client(event)

        house.session.client = listening
        await house.prompt("go")
        assert order == ["extension", "client"]

    play(story())


def test_observers_of_a_streaming_answer_are_not_awaited(tmp_path: Path) -> None:
    async def story() -> None:
        house = House(tmp_path, {"blocks": [{"text": ["a", "b", "c", "d"]}]})
        seen: list[str] = []

        async def never(event: dict[str, Any]) -> None:
            seen.append(event["assistantMessageEvent"]["type"])
            await asyncio.Event().wait()

        house.on("message_update", never)
        assert texts(await house.prompt("go"), "assistant") == ["abcd"]
        assert len(seen) == 1

    play(story())


def test_observers_get_no_delta_that_pi_never_sends(tmp_path: Path) -> None:
    async def story() -> None:
        house = House(tmp_path, {"error": {"message": "401 no", "after": 0}})
        updates, ends = house.notes("message_update"), house.notes("message_end")
        await house.prompt("go")
        assert [end["message"]["role"] for end in ends] == ["user", "assistant"]
        assert updates == []

    play(story())


@pytest.mark.promise("C15", "C21")
def test_an_observer_that_raises_or_is_late_is_one_error_and_the_run_continues(tmp_path: Path) -> None:
    async def story() -> None:
        house = House(tmp_path, settings={"extensionHost": {"observerTimeoutMs": 50}})

        def fails(event: dict[str, Any]) -> None:
            raise ValueError("no good")

        house.on("agent_start", fails, "bad.py")
        house.on("agent_end", lambda event: asyncio.Event().wait(), "slow.py")
        assert texts(await house.prompt("go"), "assistant") == ["ok"]
        assert house.errors == [
            ("bad.py", "agent_start", "no good"),
            ("slow.py", "agent_end", "No answer within 0.05 s."),
        ]

    play(story())


def test_an_answer_that_was_in_time_counts_although_we_were_late_to_see_it(tmp_path: Path) -> None:
    async def story(clock: Clock) -> None:
        house = House(tmp_path)

        def gate(event: dict[str, Any]) -> dict[str, Any]:
            clock.let_pass(3600)  # a machine that stands still just now
            return {"action": "transform", "text": "changed"}

        house.on("input", gate)
        assert texts(await house.prompt("go"), "user") == ["changed"]
        assert house.errors == []

    played(story)


@pytest.mark.parametrize("hook", ["agent_start", "message_end", "context", "tool_call", "tool_result", "agent_end"])
def test_an_abort_lets_a_run_go_that_waits_for_an_extension(tmp_path: Path, hook: str) -> None:
    async def story() -> None:
        house = House(tmp_path, calls("echo hi"), {"text": "done"})
        begun = asyncio.Event()

        async def never(event: dict[str, Any]) -> None:
            begun.set()
            while True:  # deaf to cancellation, as code may be
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    await asyncio.sleep(0.01)
                    if not house.session.runs.busy:
                        raise

        house.on(hook, never)
        await house.session.input.submit("go", [], None)
        await begun.wait()
        await asyncio.wait_for(house.session.abort(), 5)
        assert house.heard[-1] == {"type": "agent_settled", "aborted": True}
        assert house.errors == []

    play(story())


# What is said.


def test_input_goes_from_hand_to_hand(tmp_path: Path) -> None:
    async def story() -> None:
        house = House(tmp_path)
        house.on("input", lambda event: {"action": "transform", "text": event["text"] + " one"})
        house.on("input", lambda event: {"action": "transform", "text": event["text"] + " two"})
        assert texts(await house.prompt("say"), "user") == ["say one two"]

    play(story())


def test_input_that_an_extension_has_dealt_with_starts_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        house = House(tmp_path)
        seen = house.notes("input")
        house.on("input", {"action": "handled"})
        assert await house.prompt("hush") == []
        assert seen == [{"type": "input", "text": "hush", "images": [], "source": "rpc"}]

    play(story())


def test_a_prompt_that_is_still_being_looked_at_can_be_aborted(tmp_path: Path) -> None:
    async def story() -> None:
        house = House(tmp_path)
        begun = asyncio.Event()

        async def never(event: dict[str, Any]) -> None:
            begun.set()
            await asyncio.Event().wait()

        house.on("input", never)
        prompt = asyncio.create_task(house.session.input.submit("go", [], None))
        await begun.wait()
        await house.session.abort()
        with pytest.raises(CommandError, match="Aborted"):
            await prompt
        assert not house.session.runs.busy

    play(story())


def test_a_command_of_an_extension_is_no_prompt(tmp_path: Path) -> None:
    async def story() -> None:
        house = House(tmp_path)
        ran = asyncio.Event()
        seen: list[str] = []

        async def greet(args: str) -> None:
            seen.append(args)
            ran.set()

        house.session.extensions.commands["greet"] = Command("greet", "guest.py", greet, UNSET)
        input_seen = house.notes("input")
        assert await house.prompt("/greet you there") == []
        await ran.wait()
        assert (seen, input_seen) == (["you there"], [])
        with pytest.raises(CommandError, match='Extension command "/greet" cannot be queued'):
            await house.session.input.submit("/greet", [], "steer", queue_only=True)

    play(story())


def test_an_extension_adds_messages_and_changes_the_system_prompt_of_one_run(tmp_path: Path) -> None:
    async def story() -> None:
        house = House(tmp_path)
        usual = await house.act("get_system_prompt")
        seen = house.notes("before_agent_start")
        message = {"customType": "note", "content": "mind the gap", "display": True}
        handler = house.on("before_agent_start", {"message": message, "systemPrompt": "Be brief."})
        prompts: list[str] = []

        async def look(event: dict[str, Any]) -> None:
            prompts.append(await house.act("get_system_prompt"))

        house.on("context", look)
        events = await house.prompt("go")
        parts = seen[0].pop("systemPromptOptions")
        assert parts["selectedTools"] == ["read", "bash", "edit", "write"]
        told = {"type": "before_agent_start", "messageType": "user", "prompt": "go", "images": []}
        assert seen == [{**told, "systemPrompt": usual}]
        assert [one["content"] for one in said(events, "custom")] == ["mind the gap"]
        house.session.extensions.off("before_agent_start", handler)
        await house.prompt("again")
        assert prompts == ["Be brief.", usual]

    play(story())


def test_an_extension_learns_which_message_starts_a_run(tmp_path: Path) -> None:
    async def story() -> None:
        house = House(tmp_path)
        seen = house.notes("before_agent_start")
        message = {"customType": "note", "content": "wake up", "display": True}
        await house.act("send_message", message=message, triggerTurn=True)
        await house.session.runs.idle()
        (event,) = seen
        assert (event["messageType"], event["message"]["content"]) == ("custom", "wake up")

    play(story())


# What the model is sent.


def test_the_model_sees_the_conversation_that_extensions_leave(tmp_path: Path) -> None:
    async def story() -> None:
        house = House(tmp_path)
        await house.prompt("first")
        asked: list[list[str]] = []

        def last(event: dict[str, Any]) -> dict[str, Any]:
            return {"messages": event["messages"][-1:]}

        house.on("context", last)
        house.on("context", lambda event: asked.append([text(one) for one in event["messages"]]))
        await house.prompt("second")
        assert asked == [["second"]]
        assert [text(one) for one in said(house.heard, "user")] == ["first", "second"]

    play(story())


@pytest.mark.parametrize("broken", ["nonsense", [{"no": "role"}], [{"role": "user"}]])
def test_a_broken_conversation_is_an_error_of_the_extension_and_not_used(tmp_path: Path, broken: Any) -> None:
    async def story() -> None:
        house = House(tmp_path)
        seen: list[int] = []
        house.on("context", {"messages": broken}, "broken.py")
        house.on("context", lambda event: seen.append(len(event["messages"])))
        assert texts(await house.prompt("go"), "assistant") == ["ok"]
        assert ([error[:2] for error in house.errors], seen) == ([("broken.py", "context")], [1])

    play(story())


# Tools.


def test_a_blocked_call_is_a_failed_result_with_the_reason_and_nothing_else(tmp_path: Path) -> None:
    async def story() -> None:
        house = House(tmp_path, calls("touch made"), {"text": "done"})
        seen = house.notes("tool_call", "tool_result")
        house.on("tool_call", {"block": True, "reason": "Not today"})
        events = await house.prompt("go")
        assert of("tool_execution_end", events) == [
            {
                "type": "tool_execution_end",
                "toolCallId": "call_0",
                "toolName": "bash",
                "result": {"content": [{"type": "text", "text": "Not today"}], "details": {}},
                "isError": True,
            }
        ]
        assert seen == [
            {"type": "tool_call", "toolName": "bash", "toolCallId": "call_0", "input": {"command": "touch made"}}
        ]
        assert not (tmp_path / "work" / "made").exists()

    play(story())


@pytest.mark.promise("C16")
def test_a_gate_that_fails_or_is_late_is_shut(tmp_path: Path) -> None:
    async def story() -> None:
        house = House(
            tmp_path,
            calls("echo 1"),
            calls("echo 2"),
            {"text": "done"},
            settings={"extensionHost": {"handlerTimeoutMs": 50}},
        )

        async def gate(event: dict[str, Any]) -> None:
            if event["input"]["command"] == "echo 1":
                raise ValueError("boom")
            await asyncio.Event().wait()

        house.on("tool_call", gate, "gate.py")
        ends = of("tool_execution_end", await house.prompt("go"))
        assert [(end["isError"], text(end["result"])) for end in ends] == [
            (True, "boom"),
            (True, "Extension gate.py failed, so this is blocked: No answer within 0.05 s."),
        ]
        assert [error[:2] for error in house.errors] == [("gate.py", "tool_call")] * 2

    play(story())


def test_changed_arguments_are_what_runs_and_are_checked_again(tmp_path: Path) -> None:
    async def story() -> None:
        house = House(tmp_path, calls("echo a"), calls("echo b"), {"text": "done"})

        def change(event: dict[str, Any]) -> dict[str, Any]:
            return {"input": {"command": "echo changed"} if event["input"]["command"] == "echo a" else {"command": [1]}}

        house.on("tool_call", change)
        first, second = of("tool_execution_end", await house.prompt("go"))
        assert (first["isError"], text(first["result"]).strip()) == (False, "changed")
        assert (second["isError"], "Validation failed" in text(second["result"])) == (True, True)

    play(story())


def test_extensions_change_the_result_of_a_tool_one_after_another(tmp_path: Path) -> None:
    async def story() -> None:
        house = House(tmp_path, calls("echo secret"), {"text": "done"})
        house.on("tool_result", lambda event: {"content": [{"type": "text", "text": "***"}]})
        house.on("tool_result", lambda event: {"details": {"was": event["content"]}, "isError": True})
        events = await house.prompt("go")
        (end,) = of("tool_execution_end", events)
        assert (end["result"], end["isError"]) == (
            {"content": [{"type": "text", "text": "***"}], "details": {"was": [{"type": "text", "text": "***"}]}},
            True,
        )
        (result,) = said(events, "toolResult")
        assert (result["content"], result["isError"]) == ([{"type": "text", "text": "***"}], True)

    play(story())


def test_a_broken_result_is_an_error_of_the_extension_and_changes_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        house = House(tmp_path, calls("echo fine"), {"text": "done"})
        house.on("tool_result", {"content": [{"type": "video"}]}, "broken.py")
        (end,) = of("tool_execution_end", await house.prompt("go"))
        assert (text(end["result"]).strip(), end["isError"]) == ("fine", False)
        assert [error[:2] for error in house.errors] == [("broken.py", "tool_result")]

    play(story())


def test_the_order_of_one_tool_call(tmp_path: Path) -> None:
    async def story() -> None:
        house = House(tmp_path, calls("echo hi"), {"text": "done"})
        told = house.notes("tool_execution_start", "tool_call", "tool_result", "tool_execution_end")
        await house.prompt("go")
        assert kinds(told) == ["tool_execution_start", "tool_call", "tool_result", "tool_execution_end"]

    play(story())

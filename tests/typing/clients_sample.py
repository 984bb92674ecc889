"""Every public name of the clients, used as a program would: checked by mypy --strict and pyright, never run."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path
from typing import assert_type

import tau
from tau import AgentGone, Answer, CommandError, Dialog, RpcClient, TauError, events, sync
from tau.client.stream import Events
from tau.records.events import CompactionResult
from tau.records.messages import StoredMessage
from tau.records.models import Model, ThinkingLevel
from tau.records.replies import (
    BashResult,
    Cancelled,
    Cycled,
    Entries,
    Forked,
    ForkPoint,
    Navigated,
    Queues,
    SessionRow,
    SessionState,
    SessionStats,
    SlashCommand,
    Tree,
)


def one_line(event: events.RpcEvent) -> str:
    match event:
        case events.MessageUpdate(assistant_message_event=events.TextDelta(delta=text)):
            assert_type(text, str)
            return text
        case events.MessageUpdate(assistant_message_event=events.ToolCallEnd(tool_call=call)):
            assert_type(call, events.ToolCall)
            return call.name
        case events.ToolEnd(tool_name=name, result=events.Outcome(content=content), is_error=failed):
            assert_type(content, list[events.Text | events.Image])
            return f"{name}: {'failed' if failed else len(content)}"
        case events.AgentEnd(messages=messages, will_retry=False):
            return str(len(messages))
        case events.MessageEnd(message=events.Assistant(stop_reason="error", error_message=str(why))):
            return why
        case events.AutoRetryStart(delay_ms=delay):
            assert_type(delay, int)
            return f"again in {delay} ms"
        case events.CompactionEnd(result=CompactionResult(summary=summary)):
            return summary
        case events.Notify(message=message):
            return message
        case events.UnknownEvent(type=kind, raw=fields):
            return f"{kind}: {len(fields)} fields"
        case _:
            return events.type_of(event)


def answer(dialog: Dialog) -> Answer:
    match dialog:
        case events.Select(options=options):
            return options[0]
        case events.Confirm(title=title):
            return title == "Sure?"
        case events.Input() | events.Editor():
            return None


async def answer_later(dialog: Dialog) -> Answer:
    return answer(dialog)


async def hear(event: events.RpcEvent) -> None:
    print(events.raw(event)["type"])


async def asynchronous() -> None:
    client = tau.RpcClient(
        cwd=Path(),
        provider="anthropic",
        model="claude",
        args=["--no-session"],
        env={"A": "b"},
        executable=["node", "cli.js"],
        dialect=None,
        timeout=30,
    )
    assert_type(client, RpcClient)
    await client.start()
    async with RpcClient(executable="pi") as other:
        assert_type(other, RpcClient)
    assert_type(client.on_event(lambda event: print(one_line(event))), Callable[[], None])
    client.on_event(hear)
    client.on_dialog(answer)
    client.on_dialog(answer_later, "select", "confirm")
    client.on_dialog(lambda dialog: None)
    assert_type(client.events(), Events)
    async for event in client.events(limit=None):
        assert_type(event, events.RpcEvent)
    assert_type(client.prompt_events("hi"), AsyncGenerator[events.RpcEvent, None])
    assert_type(await client.prompt_and_wait("hi", [events.Image("", "image/png")]), list[events.RpcEvent])
    await client.wait_for_idle(10)
    await client.wait_for_idle(None)
    assert_type(client.stderr, str)
    assert_type(client.pid, int | None)
    assert_type(client.exit_code, int | None)

    await client.prompt("hi", streaming_behavior="followUp")
    await client.steer("hi")
    await client.follow_up("hi")
    await client.abort()
    assert_type(await client.clear_queue(), Queues)
    assert_type(await client.get_state(), SessionState)
    assert_type(await client.get_messages(), list[StoredMessage])
    assert_type(await client.get_session_stats(), SessionStats)
    assert_type(await client.get_last_assistant_text(), str | None)
    assert_type(await client.get_commands(), list[SlashCommand])
    assert_type(await client.set_model("p", "m"), Model)
    assert_type(await client.cycle_model(), Cycled | None)
    assert_type(await client.get_available_models(), list[Model])
    await client.set_thinking_level("high")
    assert_type(await client.cycle_thinking_level(), ThinkingLevel | None)
    assert_type(await client.get_available_thinking_levels(), list[ThinkingLevel])
    await client.set_steering_mode("all")
    await client.set_follow_up_mode("one-at-a-time")
    await client.set_auto_retry(True)
    await client.abort_retry()
    assert_type(await client.compact("short"), CompactionResult)
    await client.set_auto_compaction(False)
    assert_type(await client.bash("ls", exclude_from_context=True), BashResult)
    await client.abort_bash()
    assert_type(await client.new_session(), Cancelled)
    assert_type(await client.switch_session(Path("x")), Cancelled)
    await client.set_session_name("x")
    assert_type(await client.list_sessions(all=True), list[SessionRow])
    assert_type(await client.get_fork_messages(), list[ForkPoint])
    assert_type(await client.fork("x"), Forked)
    assert_type(await client.clone(), Cancelled)
    assert_type(await client.navigate("x", summarize=True), Navigated)
    assert_type(await client.get_entries("x"), Entries)
    assert_type(await client.get_tree(), Tree)
    assert_type(await client.export_html("x.html"), str)
    await client.stop()


def waiting() -> None:
    try:
        with tau.sync.RpcClient(model="demo") as client:
            assert_type(client, sync.RpcClient)
            client.on_event(lambda event: print(one_line(event)))
            client.on_dialog(answer, "input")
            assert_type(client.prompt_and_wait("hi"), list[events.RpcEvent])
            assert_type(client.prompt_events("hi"), Iterator[events.RpcEvent])
            for event in client.events():
                assert_type(event, events.RpcEvent)
            assert_type(client.get_state(), SessionState)
            assert_type(client.get_state().model, Model | None)
            assert_type(client.get_messages(), list[StoredMessage])
            assert_type(client.bash("ls").exit_code, int | events.UnsetType)
            assert_type(client.cycle_model(), Cycled | None)
            assert_type(client.export_html(), str)
            client.wait_for_idle(timeout=5)
    except CommandError as error:
        print(error)
    except AgentGone as gone:
        assert_type(gone.exit_code, int | None)
        assert_type(gone.stderr, str)
    except TauError:
        raise

"""Every public name of the library, used as a program would: checked by mypy --strict and pyright, never run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, assert_type

import tau
from tau import (
    DEFAULT_TOOLS,
    Agent,
    AgentEvent,
    Answer,
    Budget,
    CallContext,
    Dialog,
    ExtensionFailure,
    Image,
    Node,
    Outcome,
    Result,
    Run,
    RunStopReason,
    Text,
    Tool,
    ToolContext,
    ToolError,
    UsageError,
    events,
    sync,
)
from tau.records.events import BudgetExceeded, CompactionResult
from tau.records.messages import AnyMessage, StoredMessage, Usage
from tau.records.models import Model, ThinkingLevel
from tau.records.replies import (
    BashResult,
    ContextUsage,
    Forked,
    ForkPoint,
    Navigated,
    Queues,
    SessionRow,
    SessionState,
    SessionStats,
    SlashCommand,
)


def plain(a: int, b: list[str] | None = None) -> str:
    """A tool."""
    return f"{a} {b}"


@tau.tool
async def awaited(text: str, context: CallContext) -> Outcome:
    context.progress(text)
    assert_type(context.cancelled, bool)
    assert_type(context.wait(1.0), bool)
    return Outcome([Text(text), Image("", "image/png")])


@tau.tool(name="other", description="Another.", parameters={"type": "object"})
def renamed(**named: Any) -> None:
    raise ToolError("no")


async def run(arguments: dict[str, Any], context: ToolContext) -> Outcome:
    return Outcome([Text(context.cwd)])


OWN = Tool("own", "Own.", "own", {"type": "object"}, run)


async def permission(tool: str, input: dict[str, Any]) -> bool | str:
    return tool == "read" or "no"


def at_once(tool: str, input: dict[str, Any]) -> bool:
    return False


def answer(dialog: Dialog) -> Answer:
    return True if isinstance(dialog, events.Confirm) else None


def hook(event: dict[str, Any]) -> dict[str, Any]:
    return {"block": True}


def setup(pi: Any) -> None:
    pi.on("tool_call", hook)


def one_line(event: AgentEvent) -> str:
    match event:
        case events.MessageUpdate(assistant_message_event=events.TextDelta(delta=text), usage=usage):
            assert_type(text, str)
            assert_type(usage, Usage | events.UnsetType)
            return text
        case events.ToolStart(tool_name=name):
            return name
        case events.ToolEnd(result=Outcome(content=content)):
            assert_type(content, list[Text | Image])
            return ""
        case events.AgentSettled(aborted=aborted):
            assert_type(aborted, bool)
            return ""
        case events.Notify(message=message):
            return message
        case _:
            return events.type_of(event)


async def hear(event: AgentEvent) -> None:
    print(one_line(event))


async def asynchronous() -> None:
    async with tau.open(
        Path(),
        model="anthropic/claude",
        provider=None,
        scoped_models=["a", "b"],
        thinking="high",
        tools=[*DEFAULT_TOOLS, plain, awaited, renamed, OWN],
        api_key="k",
        keys={"openai": "k"},
        session=Path("x.jsonl"),
        resume=False,
        session_id="x",
        fork_of="x",
        session_dir="x",
        name="x",
        system_prompt="x",
        append_system_prompt=["x"],
        context_files=False,
        skills=False,
        templates=["x"],
        extensions=["gate.py", setup],
        find_extensions=False,
        hooks={"tool_call": hook, "agent_end": [hook]},
        permission=permission,
        dialogs={"confirm": answer},
        on_event=hear,
        settings={"retry": {"enabled": False}},
        trust=True,
        budget=Budget(max_turns=3),
        record=Path(),
        replay=None,
        agent_dir=Path(),
        env={},
        script=[{"text": "x"}],
    ) as agent:
        assert_type(agent, Agent)
    agent = await tau.open(permission=at_once, dialogs=answer, on_event=lambda event: print(one_line(event)))
    assert_type(agent, Agent)

    prompted = agent.prompt("hi", [Image("", "image/png")], while_busy="steer", output_schema={"type": "object"})
    assert_type(prompted, Run[Any])
    async for event in prompted:
        assert_type(event, AgentEvent)
    result = await prompted
    assert_type(result, Result[Any])
    assert_type(result.text, str)
    assert_type(result.messages, list[AnyMessage])
    assert_type(result.usage, Usage)
    assert_type(result.cost, float)
    assert_type(result.cost_unknown, bool)
    assert_type(result.stop_reason, RunStopReason | None)
    assert_type(result.error, str | None)
    assert_type(result.exceeded, BudgetExceeded | None)
    assert_type(result.ok, bool)
    assert_type(prompted.start(), Run[Any])
    assert_type(prompted.done, bool)

    assert_type(agent.subscribe(hear), Callable[[], None])
    async for event in agent.events():
        assert_type(event, AgentEvent)
    assert_type(agent.partial, events.Assistant | None)
    assert_type(agent.on("tool_call", hook), Callable[[], None])
    agent.on("tool_call")(hook)
    assert_type(agent.on_dialog(answer, "confirm"), Callable[[], None])
    assert_type(agent.warnings, list[str])
    assert_type(agent.closed, bool)

    assert_type(agent.state, SessionState)
    assert_type(agent.model, Model | None)
    assert_type(agent.thinking, ThinkingLevel)
    assert_type(agent.cwd, str)
    assert_type(agent.session_id, str)
    assert_type(agent.session_file, Path | None)
    assert_type(agent.name, str | None)
    assert_type(agent.leaf_id, str | None)
    assert_type((agent.is_streaming, agent.is_busy, agent.is_compacting), tuple[bool, bool, bool])
    assert_type(agent.retry_attempt, int)
    assert_type(agent.messages(), list[StoredMessage])
    assert_type(agent.stats(), SessionStats)
    assert_type(agent.context_usage(), ContextUsage | None)
    assert_type(agent.last_text(), str | None)
    assert_type(await agent.system_prompt(), str)
    assert_type(await agent.commands(), list[SlashCommand])
    await agent.steer("hi")
    await agent.follow_up("hi")
    assert_type(await agent.clear_queue(), Queues)
    await agent.send_user_message([Text("hi")], deliver_as="follow_up")
    await agent.send_message("note", "hi", details={"a": 1}, trigger_turn=True, deliver_as="next_turn")
    await agent.abort()
    await agent.wait_idle()
    await agent.abort_retry()
    assert_type(await agent.compact("short"), CompactionResult)
    await agent.abort_compaction()
    assert_type(await agent.bash("ls", exclude_from_context=True), BashResult)
    agent.abort_bash()
    assert_type(agent.models(), list[Model])
    assert_type(await agent.set_model("a/b"), Model)
    assert_type(await agent.cycle_model(), Model | None)
    assert_type(agent.set_scoped_models(["a"]), list[Model])
    assert_type(agent.thinking_levels(), list[ThinkingLevel])
    assert_type(await agent.set_thinking("low"), ThinkingLevel)
    assert_type(await agent.cycle_thinking(), ThinkingLevel | None)
    await agent.set_steering_mode("all")
    await agent.set_follow_up_mode("all")
    await agent.set_auto_compaction(True)
    await agent.set_auto_retry(True)
    assert_type(agent.tools, list[str])
    assert_type(agent.all_tools(), list[str])
    agent.set_tools(["read"])
    assert_type(await agent.new_session(), bool)
    assert_type(await agent.switch_session(Path("x")), bool)
    assert_type(await agent.fork("x"), Forked)
    assert_type(await agent.clone(), bool)
    assert_type(await agent.navigate("x", summarize=True), Navigated)
    await agent.set_name("x")
    assert_type(await agent.sessions(everywhere=True), list[SessionRow])
    assert_type(agent.fork_points(), list[ForkPoint])
    for entry in agent.entries(since="x"):
        assert_type(entry.id, str)
    assert_type(agent.tree(), list[Node])
    assert_type(agent.tree()[0].label, str | None)
    assert_type(await agent.export_html("x.html"), Path)
    await agent.reload()
    await agent.close()


def waiting() -> None:
    try:
        with sync.open(".", model="demo", session=False, tools=[plain]) as agent:
            assert_type(agent, sync.Agent)
            assert_type(agent.prompt("hi"), Result[None])
            assert_type(agent.stream("hi"), Iterator[AgentEvent])
            assert_type(agent.state, SessionState)
            assert_type(agent.models(), list[Model])
            assert_type(agent.bash("ls"), BashResult)
            assert_type(agent.fork("x"), Forked)
            assert_type(agent.subscribe(lambda event: None), Callable[[], None])
            agent.abort()
    except UsageError as error:
        print(error)
    except ExtensionFailure:
        raise

"""Functions of the program take part: hooks, permission, setup functions, dialogs. What fails, fails closed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import tau
from support.library_agent import calls, opened, play, says
from tau import events


async def outcome(folder: Path, **wanted: Any) -> tuple[str, bool]:
    async with opened(folder, calls("bash", command="echo ran"), says("done"), **wanted) as agent:
        ends = [event async for event in agent.prompt("go") if isinstance(event, events.ToolEnd)]
    (block,) = ends[0].result.content
    assert isinstance(block, events.Text)
    return block.text, ends[0].is_error


@pytest.mark.parametrize(
    ("said", "came"),
    [
        (True, ("ran\n", False)),
        (False, ("The user does not allow this call of bash.", True)),
        ("Not on a Sunday.", ("Not on a Sunday.", True)),
        (None, ("The user does not allow this call of bash.", True)),
    ],
)
@pytest.mark.parametrize("plain", [True, False])
def test_permission_is_asked_before_a_tool_runs(said: Any, came: tuple[str, bool], plain: bool, tmp_path: Path) -> None:
    asked = []

    def permission(tool: str, input: dict[str, Any]) -> Any:
        asked.append((tool, input))
        return said

    async def awaited(tool: str, input: dict[str, Any]) -> Any:
        return permission(tool, input)

    assert play(outcome(tmp_path, permission=permission if plain else awaited)) == came
    assert asked == [("bash", {"command": "echo ran"})]


def test_permission_that_breaks_is_none(tmp_path: Path) -> None:
    async def permission(tool: str, input: dict[str, Any]) -> bool:
        raise ConnectionError("nobody there")

    assert play(outcome(tmp_path, permission=permission)) == ("nobody there", True)


def test_a_person_may_take_longer_than_a_hook(tmp_path: Path) -> None:
    async def permission(tool: str, input: dict[str, Any]) -> bool:
        await asyncio.sleep(0.3)
        return True

    settings = {"extensionHost": {"handlerTimeoutMs": 100}}
    assert play(outcome(tmp_path, permission=permission, settings=settings)) == ("ran\n", False)


def test_an_abort_does_not_wait_for_permission(tmp_path: Path) -> None:
    async def story() -> tau.Result:
        asked = asyncio.Event()

        async def permission(tool: str, input: dict[str, Any]) -> bool:
            asked.set()
            await asyncio.Event().wait()
            return True

        async with opened(tmp_path, calls("bash", command="echo ran"), permission=permission) as agent:
            run = agent.prompt("go").start()
            await asked.wait()
            await agent.abort()
            return await run

    assert play(story()).stop_reason == "aborted"


@pytest.mark.parametrize(
    ("said", "got"),
    [(False, "False"), ("no bash please", "str"), ({"blok": True}, 'one with "blok"')],
)
def test_a_guard_with_a_mistake_in_its_answer_blocks_and_says_why(said: Any, got: str, tmp_path: Path) -> None:
    wrong = f'tool_call: expected None or a dict with "block", "reason", "input", but got {got}'
    blocked = (f"Extension <program> failed, so this is blocked: {wrong}", True)
    assert play(outcome(tmp_path, hooks={"tool_call": lambda event: said})) == blocked


def test_a_hook_changes_what_a_tool_is_given(tmp_path: Path) -> None:
    def louder(event: Any) -> Any:
        return {"input": {"command": event["input"]["command"].upper().replace("ECHO", "echo")}}

    assert play(outcome(tmp_path, hooks={"tool_call": louder})) == ("RAN\n", False)


def test_a_hook_can_be_added_and_taken_back(tmp_path: Path) -> None:
    async def story() -> list[str]:
        heard: list[str] = []
        async with opened(tmp_path) as agent:

            @agent.on("agent_start")
            async def begun(event: Any, ctx: Any) -> None:
                heard.append(f"{event['type']} in {ctx.cwd}")

            end = agent.on("agent_end", lambda event: heard.append(event["type"]))
            await agent.prompt("one")
            end()
            await agent.prompt("two")
        return heard

    begun = f"agent_start in {tmp_path / 'work'}"
    assert play(story()) == [begun, "agent_end", begun]


def test_a_setup_function_is_an_extension(tmp_path: Path) -> None:
    begun: list[str] = []

    def setup(pi: Any) -> None:
        pi.on("session_start", lambda event, ctx: begun.append(event["reason"]))

        @pi.tool
        def shout(text: str) -> str:
            """Say it loudly."""
            return text.upper()

        @pi.command("greet")
        async def greet(args: str, ctx: Any) -> None:
            begun.append(f"hello {args}")

    async def story() -> tuple[list[str], str, tau.Result]:
        async with opened(tmp_path, calls("shout", text="a"), says("done"), extensions=[setup]) as agent:
            ends = [event async for event in agent.prompt("go") if isinstance(event, events.ToolEnd)]
            (block,) = ends[0].result.content
            assert isinstance(block, events.Text)
            return agent.tools, block.text, await agent.prompt("/greet you")

    tools, text, greeted = play(story())
    assert (tools[-1], text, begun) == ("shout", "A", ["startup", "hello you"])
    assert (greeted.stop_reason, greeted.messages) == (None, [])


def test_a_setup_that_fails_opens_nothing(tmp_path: Path) -> None:
    def setup(pi: Any) -> None:
        raise RuntimeError("not today")

    async def story() -> None:
        with pytest.raises(tau.ExtensionFailure, match="not today"):
            await opened(tmp_path, extensions=[setup])

    play(story())


def test_an_extension_from_a_file_runs_beside_it(tmp_path: Path) -> None:
    (tmp_path / "gate.py").write_text(
        "def setup(pi):\n    pi.on('tool_call', lambda event, ctx: {'block': True, 'reason': 'closed'})\n"
    )
    assert play(outcome(tmp_path, extensions=[tmp_path / "gate.py"])) == ("closed", True)


def asking(pi: Any) -> None:
    async def gate(event: Any, ctx: Any) -> Any:
        return None if await ctx.ui.confirm("Sure?", event["input"]["command"]) else {"block": True, "reason": "no"}

    pi.on("tool_call", gate)


@pytest.mark.parametrize(
    ("dialogs", "came"),
    [
        (lambda dialog: dialog.title == "Sure?", ("ran\n", False)),
        ({"confirm": lambda dialog: False}, ("no", True)),
        ({"input": lambda dialog: "x"}, ("no", True)),
        (None, ("no", True)),
    ],
)
def test_dialogs_are_answered_by_the_program_or_have_their_defaults(
    dialogs: Any, came: tuple[str, bool], tmp_path: Path
) -> None:
    assert play(outcome(tmp_path, extensions=[asking], dialogs=dialogs)) == came


def test_a_task_that_a_handler_left_behind_can_show_a_dialog(tmp_path: Path) -> None:
    async def story() -> bool:
        ended, tasks = asyncio.Event(), []

        def setup(pi: Any) -> None:
            @pi.on("agent_start")
            async def start(event: Any, ctx: Any) -> None:
                async def later() -> bool:
                    await ended.wait()
                    return bool(await ctx.ui.confirm("Continue?"))

                tasks.append(asyncio.ensure_future(later()))

        async with opened(tmp_path, extensions=[setup], dialogs=lambda dialog: True) as agent:
            await agent.prompt("go")
            ended.set()
            return await tasks[0]

    assert play(story()) is True


async def cancelled(*given: Any) -> bool:
    """Await something that is cancelled."""
    other: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    other.cancel()
    return await other


SAID = "Something that it awaited was cancelled."


@pytest.mark.parametrize(
    ("wanted", "came"),
    [
        ({"extensions": [asking], "dialogs": cancelled}, ("no", True)),
        ({"permission": cancelled}, (SAID, True)),
        ({"hooks": {"tool_call": cancelled}}, (SAID, True)),
    ],
)
def test_what_ends_cancelled_by_itself_fails_closed(wanted: Any, came: tuple[str, bool], tmp_path: Path) -> None:
    async def story() -> tuple[str, bool]:
        asyncio.get_running_loop().set_exception_handler(lambda loop, about: None)
        return await outcome(tmp_path, **wanted)

    assert play(story()) == came


@pytest.mark.parametrize("as_function", [True, False])
def test_a_tool_that_ends_cancelled_by_itself_fails_and_the_run_goes_on(tmp_path: Path, as_function: bool) -> None:
    async def stuck() -> str:
        """Get stuck."""
        return str(await cancelled())

    async def run(arguments: dict[str, Any], context: tau.ToolContext) -> tau.Outcome:
        return tau.Outcome([events.Text(await stuck())])

    async def story() -> tuple[list[Any], str | None]:
        offered = stuck if as_function else tau.Tool("stuck", "Stuck.", "", {"type": "object"}, run)
        async with opened(tmp_path, calls("stuck"), says("done"), tools=[offered]) as agent:
            prompt = agent.prompt("go")
            ends = [event async for event in prompt if isinstance(event, events.ToolEnd)]
            return [block.text.endswith(SAID) for end in ends for block in end.result.content], (await prompt).text

    assert play(story()) == ([True], "done")


def test_a_handler_of_events_that_ends_cancelled_by_itself_gets_the_next_event(tmp_path: Path) -> None:
    async def story() -> tuple[int, list[str]]:
        reported: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, about: reported.append(str(about["exception"])))
        heard: list[tau.AgentEvent] = []

        async def handler(event: tau.AgentEvent) -> None:
            heard.append(event)
            await cancelled()

        async with opened(tmp_path) as agent:
            agent.subscribe(handler)
            await agent.prompt("go")
        return len(heard), reported

    heard, reported = play(story())
    assert heard > 1 and reported == [SAID] * heard


def test_a_handler_of_events_that_fails_is_reported_and_nothing_else(tmp_path: Path) -> None:
    async def story() -> tuple[str, list[str]]:
        reported: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, about: reported.append(str(about["exception"])))

        def handler(event: tau.AgentEvent) -> None:
            if isinstance(event, events.AgentStart):
                raise RuntimeError("oh")

        async with opened(tmp_path, on_event=handler) as agent:
            return (await agent.prompt("go")).text, reported

    assert play(story()) == ("ok", ["oh"])

"""Extensions start anew with every session: nothing that they know or have registered in one is left in the next."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from support.extension_processes import Lab, limits, running, written
from support.fleets import wait_for
from support.library_agent import calls as called
from support.library_agent import opened, says
from support.library_agent import play as play_agent
from support.node_program import node, node_limits, script
from support.rpc_agent import Agent
from support.rpc_process import Json, of
from support.terminal_session import TerminalSession
from tau.records import events

HOOKS = "session_before_switch session_before_fork session_shutdown session_switch session_fork session_start"
PYTHON = """
    import json

    turns = 0

    def setup(pi):
        mine = 0

        def tell(event, ctx):
            nonlocal mine
            global turns
            mine, turns = mine + 1, turns + 1
            ctx.ui.notify(json.dumps([event["type"], event.get("reason"), mine, turns]))

        for name in "HOOKS".split():
            pi.on(name, tell)

        @pi.command("late")
        def late(args, ctx):
            pi.register_command("more", lambda args, ctx: None)
            pi.register_tool("extra", "Extra", {"type": "object"}, lambda: "x")
            pi.set_active_tools(["read", "extra"])
            ctx.ui.notify("late")
    """
TYPESCRIPT = """
    let turns = 0;
    export default function (pi: any) {
        let mine = 0;
        const tell = (event: any, ctx: any) => {
            mine++;
            turns++;
            ctx.ui.notify(JSON.stringify([event.type, event.reason ?? null, mine, turns]));
        };
        for (const name of "HOOKS".split(" ")) pi.on(name, tell);
        pi.registerCommand("late", { handler: async (args: string, ctx: any) => {
            pi.registerCommand("more", { handler: async () => {} });
            pi.registerTool({ name: "extra", description: "Extra", parameters: { type: "object" },
                execute: async () => ({ content: [] }) });
            pi.setActiveTools(["read", "extra"]);
            ctx.ui.notify("late");
        } });
    }
    """
USUAL = {"read", "bash", "edit", "write"}


@pytest.mark.parametrize("language", ["python", "typescript"])
def test_a_new_a_resumed_and_a_forked_session_have_extensions_of_their_own(tmp_path: Path, language: str) -> None:
    if language == "python":
        file, settings = written(tmp_path, PYTHON.replace("HOOKS", HOOKS)), None
    else:
        file = script(tmp_path, TYPESCRIPT.replace("HOOKS", HOOKS))
        settings = {"extensionHost": {"node": node(), "loadTimeoutMs": 60_000}}
    with Agent(tmp_path, args=["-e", str(file)], settings=settings) as agent:

        def commands() -> set[str]:
            return {row["name"] for row in agent.get("get_commands")["commands"]}

        def tools() -> set[str]:
            return {row["name"] for row in agent.get("get_tools")["tools"] if row["active"]}

        def check(reason: str, begun: int, kind: str, **fields: Any) -> None:
            """`begun`: the number of events that the extension has seen when the switch begins."""
            before = len(agent.events)
            assert not agent.get(kind, **fields)["cancelled"]
            seen = [json.loads(one["message"]) for one in agent.events[before:] if one.get("method") == "notify"]
            name = "fork" if reason == "fork" else "switch"
            assert [row[:3] for row in seen] == [
                [f"session_before_{name}", None if reason == "fork" else reason, begun + 1],
                ["session_shutdown", reason, begun + 2],
                [f"session_{name}", reason, 1],
                ["session_start", reason, 2],
            ]
            fresh = [row[2] == row[3] for row in seen[2:]]  # as in pi, what a module has outside of its function stays
            assert fresh == [language == "python"] * 2

        agent.prompt("first")
        first = agent.get("get_state")["sessionFile"]
        agent.get("prompt", message="/late")
        agent.until(lambda event: event.get("message") == "late")
        agent.prompt("go on")
        assert (commands(), tools()) == ({"late", "more"}, {"read", "extra"})
        check("new", 1, "new_session")
        assert (commands(), tools()) == ({"late"}, USUAL)
        check("resume", 2, "switch_session", sessionPath=first)
        check("fork", 2, "fork", entryId=agent.get("get_fork_messages")["messages"][-1]["entryId"])
        check("fork", 2, "clone")
        assert of("extension_error", agent.records) == []


def test_another_place_in_the_session_is_no_other_session(tmp_path: Path) -> None:
    file = written(tmp_path, PYTHON.replace("HOOKS", f"{HOOKS} session_tree"))
    with Agent(tmp_path, args=["-e", str(file)]) as agent:
        agent.prompt("first")
        agent.get("navigate", entryId=agent.get("get_fork_messages")["messages"][0]["entryId"])
        seen = [json.loads(one["message"]) for one in agent.events if one.get("method") == "notify"]
        assert seen == [["session_start", "startup", 1, 1], ["session_tree", None, 2, 2]]


def test_a_client_keeps_the_tools_that_it_selected(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, session=True) as agent:
            agent.set_tools(["read"])
            await agent.new_session()
            assert agent.tools == ["read"]

    play_agent(story())


COMMANDS = """
    import asyncio

    def setup(pi):
        @pi.command("go")
        async def go(args, ctx):
            before = ctx.session.id
            assert (await ctx.new_session()) == {"cancelled": False}
            ctx.ui.notify(str(ctx.session.id != before))
            pi.set_session_name("named")
            ctx.ui.notify("named")

        @pi.command("wait")
        async def wait(args, ctx):
            async def later():
                while True:
                    await asyncio.sleep(0.001)
                    try:
                        pi.set_session_name("of the first session")
                        ctx.ui.set_status("mark", "of the first session")
                    except Exception as error:
                        with open("refused", "w") as file:
                            file.write(str(error))
                        return
            pi.task = asyncio.create_task(later())
    """


def test_a_command_goes_on_in_the_session_that_it_opens_and_other_work_does_not(tmp_path: Path) -> None:
    with Agent(tmp_path, args=["-e", str(written(tmp_path, COMMANDS))]) as agent:
        agent.prompt("first")
        agent.get("prompt", message="/wait")
        agent.until(lambda event: event.get("method") == "setStatus")
        agent.get("prompt", message="/go")
        agent.until(lambda event: event.get("message") == "named")
        assert agent.get("get_state")["sessionName"] == "named"
        refused = tmp_path / "work" / "refused"
        wait_for(lambda: refused.exists() and "belongs to a session that has been left" in refused.read_text())
        assert agent.get("get_state")["sessionName"] == "named"


GATE = """
    import os

    def setup(pi):
        if os.path.exists("BROKEN"):
            FAULT
        count = [0]

        @pi.on("tool_call")
        def gate(event, ctx):
            count[0] += 1
            return {"block": True, "reason": str(count[0])}
    """


async def renew(lab: Lab) -> None:
    async def announce() -> None:
        await lab.shown("session_start", reason="new")

    await lab.running.renew(announce)


@pytest.mark.parametrize("fault", ["raise ValueError('not now')", "os._exit(3)", "while True: pass"])
def test_a_gate_that_cannot_start_anew_stays_closed_until_it_can(tmp_path: Path, fault: str) -> None:
    broken = tmp_path / "broken"
    file = written(tmp_path, GATE.replace("BROKEN", str(broken)).replace("FAULT", fault))

    async def story() -> None:
        async with running(file) as lab:
            assert [(await lab.bash("ls"))["reason"] for _ in range(2)] == ["1", "2"]
            broken.touch()
            if fault.startswith("while"):
                lab.settings = limits(load_timeout_ms=300)
            await renew(lab)
            lab.settings = limits(load_timeout_ms=60_000)
            assert [event for event, _ in lab.told] == ["load"]
            answer = await lab.bash("ls")
            assert answer["block"] and "could not be loaded" in answer["reason"]
            broken.unlink()
            await renew(lab)
            assert (await lab.bash("ls"))["reason"] == "1"

    asyncio.run(story())


def test_an_extension_of_several_files_starts_anew_when_they_are_gone(tmp_path: Path) -> None:
    package = tmp_path / "kit"
    package.mkdir()
    (package / "__init__.py").write_text("from .state import gate\n\ndef setup(pi):\n    pi.on('tool_call', gate)\n")
    body = (
        "seen = []\n\ndef gate(event, ctx):\n    seen.append(1)\n    return {'block': True, 'reason': str(len(seen))}\n"
    )
    (package / "state.py").write_text(body)

    async def story() -> None:
        async with running(package) as lab:
            assert [(await lab.bash("ls"))["reason"] for _ in range(2)] == ["1", "2"]
            (package / "state.py").unlink()
            await renew(lab)
            assert [(await lab.bash("ls"))["reason"] for _ in range(2)] == ["1", "2"]
            assert lab.errors == []

    asyncio.run(story())


ORDERED = """
    (globalThis as any).order ??= [];
    export default async function (pi: any) {
        if ((globalThis as any).order.length >= 2 && "NAME" === "bad") throw new Error("not now");
        await new Promise((resolve) => setTimeout(resolve, "NAME" === "one" ? 100 : 0));
        (globalThis as any).order.push("NAME");
        pi.on("tool_call", () => ({ block: "NAME" === "two", reason: (globalThis as any).order.join(" ") }));
    }
    """


def test_typescript_extensions_start_anew_in_load_order_and_one_that_fails_leaves_the_others(tmp_path: Path) -> None:
    files = [script(tmp_path, ORDERED.replace("NAME", name), f"{name}.ts") for name in ("one", "two")]

    async def story() -> None:
        async with running(*files, settings=node_limits()) as lab:
            assert (await lab.bash("ls"))["reason"] == "one two"
            await renew(lab)
            assert (await lab.bash("ls"))["reason"] == "one two one two"
        bad = script(tmp_path, ORDERED.replace("NAME", "bad"), "bad.ts")
        async with running(bad, *files, settings=node_limits()) as lab:
            assert (await lab.bash("ls"))["reason"] == "bad one two"
            await renew(lab)
            assert [event for event, _ in lab.told] == ["load"]
            assert "not now" in lab.told[0][1]
            assert "could not be loaded" in (await lab.bash("ls"))["reason"]
            lab.extensions.handlers["tool_call"] = [
                one for one in lab.extensions.handlers["tool_call"] if one.path != str(bad)
            ]
            assert (await lab.bash("ls"))["reason"] == "bad one two one two"

    asyncio.run(story())


SHOWS = """
    import asyncio

    def setup(pi):
        @pi.command("show")
        def show(args, ctx):
            ctx.ui.set_status("mark", "of this session")
            ctx.ui.set_widget("lines", ["of this session"])
            ctx.ui.notify("shown")
    """


def test_what_an_extension_shows_in_the_terminal_goes_with_its_session(tmp_path: Path) -> None:
    async def story() -> None:
        terminal = TerminalSession(tmp_path, extension=SHOWS)
        await terminal.handle.start()
        state = terminal.ui.state
        await terminal.handle.submit("/show", [], None)
        await terminal.until(lambda: ("info", "shown") in terminal.front_end.notices)
        assert state.status_lines(40) and state.widget_lines("aboveEditor", 40)
        await terminal.handle.new_session()
        assert not state.status_lines(40) and not state.widget_lines("aboveEditor", 40)
        await terminal.handle.close()

    asyncio.run(story())


def test_functions_of_the_program_start_anew_and_its_hooks_stay(tmp_path: Path) -> None:
    refuse = False
    begun: list[str] = []

    def setup(pi: Any) -> None:
        if refuse:
            raise RuntimeError("not now")
        count = 0

        def gate(event: Any, ctx: Any) -> Json:
            nonlocal count
            count += 1
            return {"block": True, "reason": f"number {count}"}

        pi.on("tool_call", gate)

    def ends(event: Any) -> None:
        begun.append(event["type"])

    async def story() -> list[str]:
        nonlocal refuse
        blocked: list[str] = []
        script = [called("bash", command="true"), says("done")] * 3
        async with opened(tmp_path, *script, session=True, extensions=[setup], hooks={"session_start": ends}) as agent:
            for refused in (False, True, False):
                async for event in agent.prompt("go"):
                    if isinstance(event, events.ToolEnd):
                        (block,) = event.result.content
                        assert isinstance(block, events.Text)
                        blocked.append(block.text)
                refuse = refused
                await agent.new_session()
        return blocked

    first, second, third = play_agent(story())
    assert (first, second) == ("number 1", "number 1")
    assert "not now" in third
    assert begun == ["session_start"] * 4

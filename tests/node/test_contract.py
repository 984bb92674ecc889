"""Promises of the API for TypeScript extensions that need no session: reads, registrations, calls and their ends."""

# ruff: noqa: E501  # lines of extensions

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from support.extension_processes import WITHIN, Lab
from support.extension_processes import running as started
from support.node_program import node, node_limits, script
from tau.runtime.extensions import node_process

# A tool whose argument is a program; what it returns is in the details.
RUN = """
    export default function (pi: any) {
        const kept: any = {};
        pi.registerTool({ name: "run", description: "d", parameters: { type: "object", properties: {} },
            execute: async (id: string, { code }: any, signal: AbortSignal, onUpdate: any, ctx: any) => {
                const program = new Function("pi", "ctx", "kept", "signal", `return (async () => { ${code} })()`);
                return { content: [], details: { value: (await program(pi, ctx, kept, signal)) ?? null } };
            } });
        kept.events = [];
        kept.remove = pi.on("agent_start", () => { kept.events.push("first"); });
        pi.on("agent_start", () => { kept.events.push("second"); });
        pi.on("before_provider_headers", (event: any) => { event.headers["x-added"] = "1"; });
        pi.on("session_before_compact", (event: any) => ({ cancel: !event.signal.aborted && event.preparation.fileOps.read.has("a") }));
    }
    """


async def run(lab: Lab, code: str) -> Any:
    return (await lab.tool("run", code=" ".join(code.split()))).details["value"]


def test_the_entries_are_read_once_while_the_session_does_not_change(tmp_path: Path) -> None:
    entries = [{"type": "custom", "id": f"e{at}", "parentId": f"e{at - 1}" if at else None} for at in range(3)]

    async def story() -> None:
        async with started(script(tmp_path, RUN), settings=node_limits()) as lab:
            lab.facts |= {"sessionId": "s", "leafId": "e1", "entryCount": 2}
            lab.answers["read_entries"] = lambda params: entries[2:] if params.get("after") else entries[:2]
            reading = "const s = ctx.sessionManager; for (let i = 0; i < 5; i++) { await new Promise(setImmediate); s.getEntries(); s.getBranch(); } return [s.getEntries().length, s.getLeafEntry().id];"
            assert await run(lab, reading) == [2, "e1"]
            lab.facts |= {"leafId": "e2", "entryCount": 3}
            assert await run(lab, reading) == [3, "e2"]
            assert [params for name, params in lab.acts if name == "read_entries"] == [{}, {"after": "e1"}]

    asyncio.run(story())


@pytest.mark.promise("J11")
def test_a_read_without_an_answer_fails_and_the_next_one_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_process, "SYNC_TIMEOUT_S", 1)

    async def story() -> None:
        async with started(script(tmp_path, RUN), settings=node_limits()) as lab:
            lab.answers["get_commands"] = lambda params: asyncio.sleep(3600)
            lab.answers["get_all_tools"] = lambda params: [{"name": "one"}]
            failing = "try { pi.getCommands(); } catch (error) { return [error.message, pi.getAllTools()]; }"
            assert await run(lab, failing) == ["get_commands: no answer within 5 s", [{"name": "one"}]]

    asyncio.run(story())


def test_handlers_change_events_in_place_and_are_taken_back(tmp_path: Path) -> None:
    async def story() -> None:
        async with started(script(tmp_path, RUN), settings=node_limits()) as lab:
            await lab.shown("agent_start")
            assert await run(lab, "kept.remove(); return kept.events") == ["first", "second"]
            await lab.shown("agent_start")
            assert await run(lab, "return kept.events") == ["first", "second", "second"]
            changed = await lab.shown("before_provider_headers", headers={"x-given": "2"})
            assert changed == {"headers": {"x-given": "2", "x-added": "1"}}
            files = {"readFiles": ["a"], "modifiedFiles": []}
            preparation = {"fileOps": files, "previousSummary": None}
            assert await lab.shown("session_before_compact", preparation=preparation) == {"cancel": True}

    asyncio.run(story())


def test_the_result_of_a_compaction_reaches_its_functions(tmp_path: Path) -> None:
    async def story() -> None:
        async with started(script(tmp_path, RUN), settings=node_limits()) as lab:
            lab.answers["compact"] = lambda params: {"summary": params["customInstructions"]}
            good = "return new Promise((resolve) => ctx.compact({ customInstructions: 'short', onComplete: resolve }))"
            assert await run(lab, good) == {"summary": "short"}

            def fail(params: dict[str, Any]) -> None:
                raise ValueError("nothing to compact")

            lab.answers["compact"] = fail
            bad = "return new Promise((resolve) => ctx.compact({ onError: (error) => resolve(error.message) }))"
            assert await run(lab, bad) == "nothing to compact"

    asyncio.run(story())


def test_a_tool_may_forbid_others_at_the_same_time_and_a_cancelled_call_aborts_its_signal(tmp_path: Path) -> None:
    source = """
    export default function (pi: any) {
        const empty = { type: "object", properties: {} };
        pi.registerTool({ name: "alone", description: "d", parameters: empty, executionMode: "sequential",
            execute: async () => ({ content: [{ type: "text", text: "x" }], usage: { input: 1 }, terminate: true }) });
        pi.registerTool({ name: "slow", description: "d", parameters: empty,
            execute: (id: string, params: any, signal: AbortSignal, onUpdate: any, ctx: any) => new Promise((resolve) => {
                signal.addEventListener("abort", () => { pi.appendEntry("aborted", ctx.signal === signal || ctx.signal === undefined); resolve({ content: [] }); });
                pi.appendEntry("waiting");
            }) });
    }
    """

    async def story() -> None:
        async with started(script(tmp_path, source), settings=node_limits()) as lab:
            assert lab.extensions.tools["alone"].sequential and not lab.extensions.tools["slow"].sequential
            assert (await lab.tool("alone")).terminate is True
            call = asyncio.create_task(lab.tool("slow"))
            await lab.until(lambda: lab.acts)
            call.cancel()
            await lab.until(lambda: len(lab.acts) == 2)
            assert lab.acts[1] == ("append_entry", {"customType": "aborted", "data": True})

    asyncio.run(story())


def test_commands_of_the_same_name_stay_and_the_last_shortcut_is_used(tmp_path: Path) -> None:
    source = """
    export default function (pi: any) {
        pi.registerCommand("plan", { handler: async () => pi.appendEntry("NAME"), getArgumentCompletions: () => ["NAME"] });
        pi.registerShortcut("ctrl+x", { handler: () => pi.appendEntry("key NAME") });
    }
    """
    files = [script(tmp_path, source.replace("NAME", name), f"{name}.ts") for name in ("a", "b")]

    async def story() -> None:
        async with started(*files, settings=node_limits()) as lab:
            assert (lab.told, list(lab.extensions.commands)) == ([], ["plan:1", "plan:2"])
            await lab.extensions.commands["plan:2"].run("")
            await lab.extensions.terminal.shortcuts["ctrl+x"].call({})
            await lab.until(lambda: len(lab.acts) == 2)
            assert [params["customType"] for _, params in lab.acts] == ["b", "key b"]

    asyncio.run(story())


@pytest.mark.promise("J09")
def test_programs_that_an_extension_starts_do_not_inherit_its_connection(tmp_path: Path) -> None:
    async def story() -> None:
        async with started(script(tmp_path, RUN), settings=node_limits()) as lab:
            listed = await run(lab, "return (await pi.exec('ls', ['/proc/self/fd'])).stdout")
            assert "3" in listed.split() and "5" not in listed.split()  # 3 is the folder that ls reads

    if sys.platform != "linux":
        pytest.skip("needs /proc")
    asyncio.run(story())


# tau, with an extension that loops; it is killed from outside.
KILLED = """
import asyncio, os, sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from support.extension_processes import running
from support.node_program import node_limits
async def story():
    async with running(Path({file!r}), settings=node_limits(handler_timeout_ms=600_000)) as lab:
        await lab.shown("agent_start")
asyncio.run(story())
"""


@pytest.mark.promise("J09")
@pytest.mark.skipif(sys.platform != "linux", reason="needs the signal for the end of a parent")
def test_a_process_that_loops_ends_with_tau(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    source = f"""
    import {{ renameSync, writeFileSync }} from "node:fs";
    export default function (pi: any) {{
        pi.on("agent_start", () => {{
            writeFileSync("{pid_file}.new", String(process.pid));
            renameSync("{pid_file}.new", "{pid_file}");
            for (;;);
        }});
    }}
    """
    program = KILLED.format(tests=str(Path(__file__).parent.parent), file=str(script(tmp_path, source)))
    environment = {**os.environ, "TAU_NODE": node()}

    async def story() -> None:
        tau = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], env=environment)
        try:
            async with asyncio.timeout(WITHIN):
                while not pid_file.exists():
                    assert tau.poll() is None
                    await asyncio.sleep(0.02)
                ended = os.pidfd_open(int(pid_file.read_text()))
                tau.send_signal(signal.SIGKILL)
                gone = asyncio.Event()
                asyncio.get_running_loop().add_reader(ended, gone.set)
                await gone.wait()
        finally:
            tau.kill()
            tau.wait()

    asyncio.run(story())

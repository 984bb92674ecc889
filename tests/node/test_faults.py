"""TypeScript extensions that fail in every way: tau goes on, and the failure is reported once."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from support.extension_processes import WITHIN, written
from support.extension_processes import running as started
from support.node_program import node_limits, script
from tau.errors import CommandError, ToolError
from tau.records.messages import ToolCall
from tau.runtime.abort import AbortSignal
from tau.runtime.extensions.hooks import HookDispatcher

# A gate that does what the command of the tool call names.
FAULTS = """
    import { spawnSync } from "node:child_process";
    import { writeSync } from "node:fs";

    const kept: unknown[] = [];
    const faults: Record<string, () => unknown> = {
        fail: () => { throw new Error("on purpose"); },
        hang: () => new Promise(() => {}),
        loop: () => { for (;;); },
        leave: () => process.exit(7),
        die: () => process.kill(process.pid, "SIGKILL"),
        leak: () => { for (;;) kept.push(new Array(1 << 20).fill({})); },
        unsayable: () => { const self: any = {}; self.self = self; return self; },
        rejection: () => { Promise.reject(new Error("in the background")); },
        timer: () => { setTimeout(() => { throw new Error("in a timer"); }, 1); },
        talk: () => {
            console.log("printed");
            writeSync(1, "written\\n");
            spawnSync("sh", ["-c", "echo child"], { stdio: "inherit" });
        },
        garbage: () => { writeSync(4, "nonsense\\n"); writeSync(4, "1 nonsense\\n"); },
        pid: () => ({ block: true, reason: String(process.pid) }),
    };

    export default function (pi: any) {
        pi.on("tool_call", async (event: any) => {
            const fault = faults[event.input.command];
            if (fault) return await fault();
            event.input.command = "fine";
        });
    }
    """
FINE = {"input": {"command": "fine"}}
GATES = {
    "fail": "on purpose",
    "hang": "No answer within 1 s.",
    "leave": "Its process ended with code 7.",
    "die": "Its process was ended by SIGKILL.",
    "leak": "Its process ran out of memory (128 MB).",
}


@pytest.mark.promise("J01")
@pytest.mark.parametrize("fault", GATES)
def test_a_gate_that_fails_blocks_and_is_reported_once_and_works_again(tmp_path: Path, fault: str) -> None:
    file = script(tmp_path, FAULTS)
    settings = node_limits(handler_timeout_ms=1000 if fault == "hang" else 60_000, memory_limit_mb=128)

    async def story() -> None:
        async with started(file, settings=settings) as lab:
            assert (await lab.bash(fault))["block"] is True
            lab.settings = node_limits(memory_limit_mb=128)
            assert await lab.bash("nothing") == FINE
            assert lab.told == [("tool_call", GATES[fault])]

    asyncio.run(story())


# What a gate may return in pi, and what tau makes of it: None lets the call run.
ANSWERS = """
    const answers: Record<string, unknown> = {
        nothing: undefined,
        no: false,
        count: 3,
        empty: {},
        open: { block: false },
        unset: { block: undefined, reason: "it is dangerous" },
        more: { terminate: true },
        shut: { block: true, reason: "it is dangerous", more: 1 },
        text: "it is dangerous",
        typo: { blok: true },
    };

    export default function (pi: any) {
        pi.on("tool_call", (event: any) => { event.input.seen = true; return answers[event.input.command]; });
        pi.on("user_bash", (event: any) => answers[event.command]);
    }
    """


def test_a_gate_may_return_what_it_may_in_pi_and_an_unclear_answer_blocks(tmp_path: Path) -> None:
    file = script(tmp_path, ANSWERS)

    async def story() -> None:
        async with started(file, settings=node_limits()) as lab:
            hooks = HookDispatcher(lab.extensions, lambda: 0)

            async def reason(name: str) -> str | None:
                call = ToolCall("1", "bash", {"command": name})
                answer = await hooks.tool_call(call, {"command": name}, AbortSignal())
                if answer.get("block"):
                    return str(answer["reason"]).partition("blocked: ")[2] or str(answer["reason"])
                assert answer["input"] == {"command": name, "seen": True}
                return None

            for name in ("nothing", "no", "count", "empty", "open", "unset", "more"):
                assert await reason(name) is None, name
            assert await reason("shut") == "it is dangerous"
            wrong = 'tool_call: expected None or a dict with "block", "reason", "input", but got'
            assert await reason("text") == f"{wrong} str"
            assert await reason("typo") == f'{wrong} one with "blok"'

            for name in ("nothing", "no", "count", "empty"):
                assert await hooks.user_bash(name, False, "/", AbortSignal()) is None, name
            with pytest.raises(CommandError, match="user_bash: expected None"):
                await hooks.user_bash("text", False, "/", AbortSignal())

    asyncio.run(story())


@pytest.mark.promise("J02")
def test_a_busy_loop_is_ended_and_python_extensions_do_not_notice(tmp_path: Path) -> None:
    file, other = script(tmp_path, FAULTS), written(tmp_path, PYTHON, "calm")

    async def story() -> None:
        async with started(other, file, settings=node_limits(handler_timeout_ms=300)) as lab:
            assert (await lab.bash("loop"))["block"] is True
            assert (await lab.tool("calm")).content[0].text == "calm"  # type: ignore[union-attr]
            lab.settings = node_limits()
            async with asyncio.timeout(WITHIN):
                while (answer := await lab.bash("nothing")) != FINE:
                    assert "block" in answer
            assert lab.told[0] == ("tool_call", "No answer within 0.3 s.")

    asyncio.run(story())


PYTHON = """
    def setup(pi):
        @pi.tool
        def calm(): "Stay calm."; return "calm"
    """


@pytest.mark.promise("J03")
@pytest.mark.parametrize(("fault", "text"), [("rejection", "in the background"), ("timer", "in a timer")])
def test_a_failure_outside_of_a_call_is_reported_with_its_line_and_the_process_goes_on(
    tmp_path: Path, fault: str, text: str
) -> None:
    file = script(tmp_path, FAULTS)
    line = next(at for at, line in enumerate(file.read_text().split("\n"), 1) if text in line)

    async def story() -> None:
        async with started(file, settings=node_limits()) as lab:
            before = await lab.bash("pid")
            await lab.bash(fault)
            await lab.until(lambda: lab.errors)
            assert lab.told == [("task", f"{text} ({file}:{line})")]
            assert await lab.bash("pid") == before

    asyncio.run(story())


@pytest.mark.promise("J05")
def test_what_cannot_be_json_is_an_error_of_the_call(tmp_path: Path) -> None:
    file = script(tmp_path, FAULTS)

    async def story() -> None:
        async with started(file, settings=node_limits()) as lab:
            assert "circular" in (await lab.bash("unsayable"))["reason"]

    asyncio.run(story())


@pytest.mark.promise("J04")
def test_what_an_extension_prints_goes_to_stderr(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = script(tmp_path, FAULTS)

    async def story() -> None:
        async with started(file, settings=node_limits()) as lab:
            await lab.bash("talk")

    asyncio.run(story())
    shown = capfd.readouterr()
    assert shown.out == ""
    assert [line for line in ("printed", "written", "child") if line in shown.err] == ["printed", "written", "child"]


@pytest.mark.promise("J05")
def test_a_line_that_is_no_message_ends_the_process(tmp_path: Path) -> None:
    file = script(tmp_path, FAULTS)

    async def story() -> None:
        async with started(file, settings=node_limits()) as lab:
            await lab.bash("garbage")
            await lab.until(lambda: lab.errors)
            assert "no message" in lab.errors[0].error
            assert await lab.bash("nothing") == FINE

    asyncio.run(story())


@pytest.mark.promise("J06")
def test_a_process_that_ends_during_a_tool_call_is_reported_once_and_started_again(tmp_path: Path) -> None:
    file = script(
        tmp_path,
        """
        export default function (pi: any) {
            pi.registerTool({ name: "end", description: "d", parameters: { type: "object", properties: {} },
                execute: async (id: string, params: any) => {
                    if (params.now) process.kill(process.pid, "SIGKILL");
                    return { content: [{ type: "text", text: "here" }] };
                } });
        }
        """,
    )

    async def story() -> None:
        async with started(file, settings=node_limits()) as lab:
            with pytest.raises(ToolError, match=r"Its process was ended by SIGKILL\."):
                await lab.tool("end", now=True)
            async with asyncio.timeout(WITHIN):
                while "end" not in lab.extensions.tools:
                    await asyncio.sleep(0.01)
            assert (await lab.tool("end")).content[0].text == "here"  # type: ignore[union-attr]
            assert lab.told == [("exit", "Its process was ended by SIGKILL.")]

    asyncio.run(story())


def pid_tool(name: str) -> str:
    return f"""
    export default function (pi: any) {{
        pi.registerTool({{ name: "{name}", description: "d", parameters: {{ type: "object", properties: {{}} }},
            execute: async () => ({{ content: [{{ type: "text", text: String(process.pid) }}] }}) }});
    }}
    """


@pytest.mark.promise("J07")
def test_extensions_share_a_process_until_its_second_end_and_then_each_has_its_own(tmp_path: Path) -> None:
    files = [script(tmp_path, pid_tool(name), f"{name}.ts") for name in ("one", "two")]

    async def story() -> None:
        async with started(*files, settings=node_limits()) as lab:

            async def pids() -> list[int]:
                found = [await lab.tool(name) for name in ("one", "two")]
                return [int(each.content[0].text) for each in found]  # type: ignore[union-attr]

            async def restarted() -> None:
                async with asyncio.timeout(WITHIN):
                    while lab.extensions.tools.keys() != {"one", "two"}:
                        await asyncio.sleep(0.01)

            for ends in (1, 2):
                first, second = await pids()
                assert first == second
                os.kill(first, signal.SIGKILL)
                await lab.until(lambda ends=ends: len(lab.errors) == ends)  # type: ignore[misc]
                await restarted()
            first, second = await pids()
            assert first != second
            os.kill(first, signal.SIGKILL)
            await lab.until(lambda: len(lab.errors) == 3)
            await restarted()
            assert (await pids())[1] == second
            assert all(error.event == "exit" and "SIGKILL" in error.error for error in lab.errors)

    asyncio.run(story())


@pytest.mark.promise("J08")
def test_an_extension_that_cannot_be_loaded_leaves_the_others_alone(tmp_path: Path) -> None:
    sources = ["syntax error", "export const nothing = 1;", "throw new Error('at once');", pid_tool("fine")]
    sources.insert(2, "export default async () => { await new Promise(() => {}); };")
    files = [script(tmp_path, source, f"{at}.ts") for at, source in enumerate(sources)]

    async def story() -> None:
        async with started(*files, settings=node_limits(load_timeout_ms=1500)) as lab:
            assert list(lab.extensions.tools) == ["fine"]
            told = {Path(error.extension_path).name: error.error for error in lab.errors}
            assert told.keys() == {"0.ts", "1.ts", "2.ts", "3.ts"}
            assert "does not export a valid factory function" in told["1.ts"]
            assert told["2.ts"] == "It was not loaded within 1.5 s."
            assert told["3.ts"] == f"Failed to load extension: at once ({files[3]}:1)"

    asyncio.run(story())

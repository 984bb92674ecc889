"""What extensions in TypeScript leave behind: no process, and no file that others can read."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from support.extension_processes import WITHIN, running
from support.node_program import node_limits, script
from support.rpc_process import is_gone

SHELLS = """
    import { createBashTool, createLocalBashOperations } from "@earendil-works/pi-coding-agent";

    export default function (pi: any) {
        pi.on("tool_call", async (event: any) => {
            const { command } = event.input;
            if (command === "pid") return { block: true, reason: String(process.pid) };
            if (command.startsWith("seq")) {
                const bash = createBashTool(process.cwd(), { operations: createLocalBashOperations() });
                const done = await bash.execute("1", { command });
                return { block: true, reason: done.details.fullOutputPath };
            }
            createLocalBashOperations().exec(command, process.cwd(), { onData: () => {} }).catch(() => {});
        });
    }
    """


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_command_of_an_extension_ends_with_the_process_of_the_extension(tmp_path: Path, end: str) -> None:
    file, marks = script(tmp_path, SHELLS), tmp_path / "pids"

    async def story() -> list[int]:
        async with asyncio.timeout(WITHIN), running(file, settings=node_limits()) as lab:
            await lab.bash(f"echo $$ >> {marks}; sleep 600 & echo $! >> {marks}; wait")
            while not marks.exists() or marks.read_text().count("\n") < 2:
                await asyncio.sleep(0.01)
            host = int((await lab.bash("pid"))["reason"])
            if end == "kill":
                os.kill(host, signal.SIGKILL)
        pids = [int(line) for line in marks.read_text().split()]
        async with asyncio.timeout(WITHIN):
            while not all(is_gone(pid, within=0) for pid in pids):
                await asyncio.sleep(0.01)
        return pids

    assert len(asyncio.run(story())) == 2


def test_the_whole_output_of_a_command_is_in_a_file_that_only_the_user_can_read(tmp_path: Path) -> None:
    file = script(tmp_path, SHELLS)

    async def story() -> Path:
        async with running(file, settings=node_limits()) as lab:
            lab.answers["get_builtin_tools"] = lambda params: [{"name": "bash"}]
            return Path((await lab.bash("seq 5000"))["reason"])

    output = asyncio.run(story())
    assert output.read_text().endswith("5000\n") and output.stat().st_mode & 0o077 == 0
    output.unlink()

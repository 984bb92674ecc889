"""Harbor: its adapter for pi, with a shell on this machine instead of a container."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path
from typing import Any

from harbor.agents.installed.pi import Pi
from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.models.agent.context import AgentContext
from steps import ANSWER, READ, WITHIN, expect, step


class Shell(BaseEnvironment):
    """What the adapter uses of an environment."""

    def __init__(self) -> None:
        self.default_user = None

    async def exec(self, command: str, cwd: Any = None, env: Any = None, **_: Any) -> ExecResult:
        started = await asyncio.create_subprocess_exec(
            *("bash", "-c", command.replace(". ~/.nvm/nvm.sh;", "")),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, **(env or {})},
        )
        out, err = await asyncio.wait_for(started.communicate(), WITHIN)
        return ExecResult(stdout=out.decode(), stderr=err.decode(), return_code=started.returncode or 0)

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        Path(target_path).write_bytes(Path(source_path).read_bytes())

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the adapter uses {name} of the environment")


Shell.__abstractmethods__ = frozenset()


async def run(logs: Path, instruction: str, *, resume: bool = False, **options: Any) -> AgentContext:
    agent = Pi(
        logs_dir=logs,
        model_name="openai/m1",
        model_api="openai-completions",
        extra_env={"OPENAI_API_KEY": "no-secret", "OPENAI_BASE_URL": os.environ["LOOPBACK"]},
        **options,
    )
    agent._resume = resume
    agent.environment_logs_dir = logs
    context = AgentContext()
    try:
        await agent.run(instruction, Shell(), context)
    finally:
        agent.populate_context_post_run(context)
    return context


async def main() -> None:
    logs = Path(tempfile.mkdtemp(dir=os.environ["HOME"]))
    with step("prompt"):
        context = await run(logs, READ)
        expect((context.n_input_tokens, context.n_output_tokens), (14, 4))
        expect(ANSWER in (logs / "trajectory.json").read_text(), True)

    with step("resume"):
        await run(logs, "say again", resume=True)
        (session,) = (logs / "pi" / "sessions").glob("*.jsonl")
        expect(session.read_text().count('"role":"user"'), 2)

    with step("max-turns"):  # its extension aborts the run; that is no failure of the trial
        await run(Path(tempfile.mkdtemp(dir=os.environ["HOME"])), READ, max_turns=1)

    with step("error"):  # pi ends with 0 after an answer that failed
        await run(Path(tempfile.mkdtemp(dir=os.environ["HOME"])), "refuse")


asyncio.run(main())

"""One attempt at a task, in a worker: prepare the folder, ask the agent, check, and keep the result."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tau
from tau.core.models.failures import is_transient
from tau.errors import TauError
from tau.fleet.capacity import is_disk_full
from tau.fleet.git import GitError
from tau.fleet.mirror import mirror_of
from tau.fleet.probe import sandbox_problem
from tau.fleet.task_inputs import read_attachments, remaining, used_up
from tau.fleet.workspace import WorkFolder
from tau.records.base import encode, replace
from tau.records.events import AutoRetryStart, MessageEnd
from tau.records.fleet import (
    CheckResult,
    FromWorker,
    Limited,
    Order,
    Outcome,
    Progress,
    Result,
    Seconds,
    Usage,
)
from tau.records.messages import Assistant
from tau.runtime.telemetry import names

if TYPE_CHECKING:
    from tau.runtime.telemetry.workflow import WorkflowTelemetry

COMMAND_TIMEOUT_S = 600.0
TAIL_BYTES = 64 * 1024
REFUSED = ("429", "529", "rate limit", "rate_limit", "too many requests", "overloaded")

Say = Callable[[FromWorker], None]


class TaskFailed(Exception):
    """The attempt cannot go on; `transient` if another one may succeed, `uncounted` if a provider's limit ended it."""

    def __init__(
        self, text: str, *, transient: bool = False, uncounted: bool = False, outcome: Outcome = "failed"
    ) -> None:
        super().__init__(text)
        self.transient = transient
        self.uncounted = uncounted
        self.outcome: Outcome = outcome


def _is_refusal(error: str) -> bool:
    """True if a provider refused a request because there were too many."""
    return any(word in error.lower() for word in REFUSED)


class AttemptRun:
    """`root` is the folder of the fleet on this machine; `say` sends a line to the coordinator."""

    def __init__(self, order: Order, root: Path, say: Say, environment: Mapping[str, str]) -> None:
        self._order = order
        self._root = root
        self._say = say
        self._environment = environment
        self._folder = Path(order.folder)
        self._draft = self._folder.with_name(f"{self._folder.name}.partial")
        self.work = WorkFolder(order, root)
        self.transient = False
        self.uncounted = False
        self._spent = 0.0
        task = order.task
        self.result = Result(
            task.id, order.number, "failed", order.task_hash, labels=task.labels, worker=f"{os.uname().nodename}"
        )

    async def run(self) -> Result:
        """Work to the end; whatever fails becomes the outcome. Cancelling it stops the agent and keeps nothing."""
        shutil.rmtree(self._draft, ignore_errors=True)
        self._draft.mkdir(parents=True, mode=0o700)
        if self._order.dry_run:
            return await self._rehearse()
        try:
            with self._telemetry() or nullcontext() as telemetry:
                await self._work(telemetry)
                if telemetry is not None:
                    telemetry.set(names.FLEET_OUTCOME, self.result.outcome)
        except TaskFailed as error:
            self.transient, self.uncounted = error.transient, error.uncounted
            self._set(outcome=error.outcome, error=str(error))
        except (GitError, OSError, TauError, TimeoutError) as error:
            if is_disk_full(error):
                self._make_room()
                raise
            self._set(outcome="failed", error=str(error) or type(error).__name__)
        try:
            await asyncio.to_thread(self._keep)
        except OSError:
            self._make_room()
            raise
        return self.result

    def _telemetry(self) -> WorkflowTelemetry | None:
        """The span of this attempt, if the environment asks for telemetry."""
        if not self._environment.get("TAU_TELEMETRY"):
            return None
        from tau.runtime.telemetry.workflow import begin_workflow

        order = self._order
        about = {names.FLEET_RUN: order.run, names.FLEET_TASK: order.task.id or "", names.FLEET_ATTEMPT: order.number}
        return begin_workflow("fleet_task", "fleet", about, self._environment)

    def _make_room(self) -> None:
        shutil.rmtree(self._draft, ignore_errors=True)

    async def _work(self, telemetry: WorkflowTelemetry | None) -> None:
        task, started = self._order.task, time.monotonic()
        await self._check_machine()
        await self.work.prepare(await mirror_of(self._order, self._root))
        self._set(base=self.work.base)
        async with self._open(telemetry) as agent:
            self._set(model=f"{agent.model.provider}/{agent.model.id}" if agent.model else "")
            if task.setup is not None:
                code, tail = await self._command(agent, task.setup, "setup.log")
                if code:
                    raise TaskFailed(f"setup ended with {code}: {tail[-300:].strip()}", transient=is_transient(tail))
            setup_done = time.monotonic()
            outcome = await self._ask(agent)
            asked = time.monotonic()
            self._set(seconds=Seconds(setup=setup_done - started, run=asked - setup_done))
            await self._take_patch()
            if task.check is not None and outcome == "done":
                code, tail = await self._command(agent, task.check, "check.log")
                self._set(check=CheckResult(code, tail[-4000:]))
                outcome = "unsolved" if code else "solved"
                self._set(seconds=replace(self.result.seconds, check=time.monotonic() - asked))
            self._set(outcome=outcome, session="session.jsonl")
        if isinstance(task.output, dict):
            await asyncio.to_thread(self._copy_files, task.output["files"])

    def _open(self, telemetry: WorkflowTelemetry | None) -> Any:
        task = self._order.task
        given: dict[str, Any] = {
            "model": task.model,
            "provider": task.provider,
            "thinking": task.thinking,
            "system_prompt": task.system_prompt,
            "script": task.script,
        }
        given = {name: value for name, value in given.items() if value is not None}
        if task.tools is not None:
            given["tools"] = task.tools
        if task.append_system_prompt is not None:
            given["append_system_prompt"] = task.append_system_prompt
        sandbox: Any = task.sandbox or self._order.sandbox
        return tau.open(
            str(self.work.path),
            session=str(self._draft / "session.jsonl"),
            agent_dir=self._root / "agent",
            env=self._variables(),
            settings=task.settings,
            extensions=task.extensions,
            find_extensions=False,
            trust=False,
            budget=task.budget,
            permissions=task.permissions,
            sandbox=None if sandbox == "none" else sandbox,
            on_event=self._on_event,
            telemetry=telemetry or False,
            **given,
        )

    def _variables(self) -> dict[str, str]:
        """Keys, proxies and what programs need; of other variables only those that the task names."""
        named = {name: os.environ[name] for name in self._order.task.env if name in os.environ}
        return {**self._environment, **named}

    def _on_event(self, event: Any) -> None:
        if isinstance(event, AutoRetryStart) and _is_refusal(event.error_message):
            self._say(Limited(self._order.task.provider or (self._order.task.model or "").partition("/")[0]))
        elif isinstance(event, MessageEnd) and isinstance(event.message, Assistant):
            self._charge(event.message)

    def _charge(self, answer: Assistant) -> None:
        """Every answer is reported: what it cost must be known even if this worker is killed."""
        self._spent += answer.usage.cost.total
        if self._spent:
            self._say(Progress(self._order.attempt, self._spent, answer.usage.total_tokens))

    async def _ask(self, agent: tau.Agent) -> Outcome:
        task = self._order.task
        texts = [task.prompt] if isinstance(task.prompt, str) else task.prompt
        if task.prompt_file is not None:
            texts = [await asyncio.to_thread(Path(task.prompt_file).read_text)]
        attached, images = await asyncio.to_thread(read_attachments, task.attachments)
        started = time.monotonic()
        for at, text in enumerate(texts):
            if at:
                agent._require_handle().set_budget(remaining(task.budget, self.result, time.monotonic() - started))
            result = await agent.prompt(
                text if at else attached + text,
                () if at else images,
                output_schema=task.output_schema if at == len(texts) - 1 else None,
            )
            self._count(agent, result)
            if at < len(texts) - 1 and result.ok and (limit := used_up(task.budget, self.result)) is not None:
                self._set(error=f"The budget of the task was used up: {limit}.")
                return "limited"
            if result.exceeded is not None:
                self._set(error=result.error)
                return "limited"
            if not result.ok:
                error = result.error or "The run failed."
                raise TaskFailed(error, transient=is_transient(error), uncounted=_is_refusal(error))
        return "done"

    def _count(self, agent: tau.Agent, result: Any) -> None:
        turns = sum(isinstance(message, Assistant) for message in result.messages)
        calls = sum(len(message.tool_calls) for message in result.messages if isinstance(message, Assistant))
        before, used = self.result, result.usage
        self._set(
            text=result.text,
            output=result.output,
            cost=before.cost + result.cost,
            cost_unknown=before.cost_unknown or result.cost_unknown,
            turns=before.turns + turns,
            tool_calls=before.tool_calls + calls,
            usage=Usage(
                before.usage.input + used.input,
                before.usage.output + used.output,
                before.usage.cache_read + used.cache_read,
                before.usage.cache_write + used.cache_write,
            ),
        )
        tokens = self.result.usage.input + self.result.usage.output
        self._say(Progress(self._order.attempt, self.result.cost, tokens, self.result.turns))

    async def _command(self, agent: tau.Agent, command: str, log: str) -> tuple[int, str]:
        """Run a command where the agent works, in the same sandbox. Returns its code and the end of its output."""
        async with asyncio.timeout(COMMAND_TIMEOUT_S):
            done = await agent.bash(command, exclude_from_context=True)
        tail = done.output.encode(errors="replace")[-TAIL_BYTES:]
        (self._draft / log).write_bytes(tail)
        code = done.exit_code
        return (code if isinstance(code, int) else 1), tail.decode(errors="replace")

    async def _take_patch(self) -> None:
        """Before the check: what that leaves behind is not the agent's work."""
        output = self._order.task.output
        if output == "none":
            return
        self._set(patch=await self.work.patch(self._draft / "patch.diff"))
        if output == "branch":
            await self.work.commit()

    def _copy_files(self, patterns: list[str]) -> None:
        inside = self.work.path.resolve()
        for pattern in patterns:
            for found in self.work.path.glob(pattern):
                # A link of the agent may lead out of its folder, to files that it could not read itself.
                if found.is_file() and found.resolve().is_relative_to(inside) and not found.is_symlink():
                    to = self._draft / "files" / found.relative_to(self.work.path)
                    to.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(found, to)

    def _set(self, **changes: Any) -> None:
        self.result = replace(self.result, **changes)

    def _keep(self) -> None:
        """Write the result, make everything durable, and give the folder its final name."""
        (self._draft / "result.json").write_bytes(encode(self.result) + b"\n")
        for path in [*self._draft.rglob("*"), self._draft]:
            with suppress(OSError):
                handle = os.open(path, os.O_RDONLY)
                try:
                    os.fsync(handle)
                finally:
                    os.close(handle)
        with suppress(FileExistsError, OSError):
            self._draft.rename(self._folder)
        handle = os.open(self._folder.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    async def _rehearse(self) -> Result:
        """A dry run: everything that an attempt needs, and nothing else. The result says what is missing."""
        try:
            await self._check_machine()
            await self.work.prepare(await mirror_of(self._order, self._root))
            async with self._open(None) as agent:
                agent._require_handle().models.ready()
            self._set(outcome="done")
        except (TaskFailed, GitError, OSError, TauError, TimeoutError) as error:
            self._set(outcome="failed", error=str(error) or type(error).__name__)
        finally:
            await asyncio.to_thread(shutil.rmtree, self._draft, True)
        return self.result

    async def _check_machine(self) -> None:
        """Raises TaskFailed if this machine lacks the sandbox or a variable."""
        task = self._order.task
        if missing := [name for name in task.env if name not in os.environ]:
            raise TaskFailed(f"env: this worker has no variable {', '.join(missing)}")
        if (problem := await sandbox_problem(task.sandbox or self._order.sandbox)) is not None:
            raise TaskFailed(f"sandbox: {problem}")

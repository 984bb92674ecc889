"""One attempt at a task, in a worker: prepare the folder, ask the agent, check, and keep the result."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tau
from tau.core.fleet.tasks import COMMAND_TIMEOUT_S
from tau.core.models.failures import classify
from tau.errors import TauError
from tau.fleet.attempt_files import PROMPTS_BEGUN, WORK_FOLDER, copy_files, create_draft, store
from tau.fleet.attempt_log import AttemptLog
from tau.fleet.capacity import is_disk_full
from tau.fleet.git import GitError
from tau.fleet.mirror import mirror_of
from tau.fleet.probe import sandbox_problem
from tau.fleet.refusals import Refusals
from tau.fleet.takeover import INTERRUPTED, Lost, held, take_over
from tau.fleet.task_inputs import read_attachments, remaining, used_up
from tau.fleet.variables import WorkerVariables
from tau.fleet.workspace import WorkFolder
from tau.records.base import replace
from tau.records.budgets import Budget
from tau.records.events import AutoRetryStart, MessageEnd
from tau.records.fleet import (
    CheckResult,
    FromWorker,
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

TAIL_BYTES = 64 * 1024

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


class AttemptRun:
    """`root` is the folder of the fleet on this machine; `say` sends a line to the coordinator."""

    def __init__(self, order: Order, root: Path, say: Say, variables: WorkerVariables) -> None:
        self._order = order
        self._root = root
        self._say = say
        self._variables = variables
        self._folder = Path(order.folder)
        self._draft = self._folder.with_name(f"{self._folder.name}.partial")
        self._log = AttemptLog(self._draft / "worker.log", variables.mask)
        self._refusals = Refusals(order, say)
        self._limits: Budget = order.task.budget  # of the current prompt
        self.work = WorkFolder(order, root)
        self.transient = False
        self.uncounted = False
        self._spent = 0.0
        self._defects: list[str] = []  # of tau itself, while tools ran
        task = order.task
        self.result = Result(
            task.id, order.number, "failed", order.task_hash, labels=task.labels, worker=f"{os.uname().nodename}"
        )

    async def run(self) -> Result:
        """Work to the end; whatever fails becomes the outcome. Cancelling it stops the agent and keeps nothing."""
        create_draft(self._draft)
        if self._order.dry_run:
            return await self._rehearse()
        with self._log.is_current(), self._lock():
            await self._run()
            self._log.note(f"{self.result.outcome}" + (f": {self.result.error}" if self.result.error else ""))
            try:
                await asyncio.to_thread(store, self._draft, self._folder, self.result)
            except OSError:
                self._make_room()
                raise
        return self.result

    def _lock(self) -> AbstractContextManager[Any]:
        """Held by the process, so that an attempt that continues this one knows when it is gone."""
        order = self._order
        return held(self._root, order, order.number) if order.after_loss == "continue" else nullcontext()

    async def _run(self) -> None:
        self._log.note(f"attempt {self._order.number} of {self._order.task.id}, process {os.getpid()}")
        try:
            with self._telemetry() or nullcontext() as telemetry:
                await self._work(telemetry)
                if telemetry is not None:
                    telemetry.set(names.FLEET_OUTCOME, self.result.outcome)
        except TaskFailed as error:
            self.transient, self.uncounted = error.transient, error.uncounted
            self._set(outcome=error.outcome, error=str(error))
        except (GitError, OSError, TauError) as error:
            if is_disk_full(error):
                self._make_room()
                raise
            self.transient = not isinstance(error, TauError)  # git and files are not the fault of the task
            self._set(outcome="failed", error=str(error) or type(error).__name__)

    def _telemetry(self) -> WorkflowTelemetry | None:
        """The span of this attempt, if the environment asks for telemetry."""
        environment = self._variables.environment(self._order.task)
        if not environment.get("TAU_TELEMETRY"):
            return None
        from tau.runtime.telemetry.workflow import begin_workflow

        order = self._order
        about = {names.FLEET_RUN: order.run, names.FLEET_TASK: order.task.id or "", names.FLEET_ATTEMPT: order.number}
        return begin_workflow("fleet_task", "fleet", about, environment)

    def _make_room(self) -> None:
        shutil.rmtree(self._draft, ignore_errors=True)

    async def _work(self, telemetry: WorkflowTelemetry | None) -> None:
        task, started = self._order.task, time.monotonic()
        await self._check_machine()
        lost = await self._prepare()
        self._set(base=self.work.base)
        async with self._open(telemetry) as agent:
            self._watch(agent)
            self._set(model=f"{agent.model.provider}/{agent.model.id}" if agent.model else "")
            if task.setup is not None and (lost is None or not lost.has_set_up):
                code, tail = await self._command(agent, task.setup, "setup.log")
                if code:
                    raise TaskFailed(
                        f"setup ended with {code}: {tail[-300:].strip()}", transient=classify(tail).is_transient
                    )
            setup_done = time.monotonic()
            outcome = await self._ask(agent, lost)
            asked = time.monotonic()
            self._set(seconds=Seconds(setup=setup_done - started, run=asked - setup_done))
            await self._take_patch()
            if task.check is not None and outcome == "done":
                code, tail = await self._command(agent, task.check, "check.log")
                self._set(check=CheckResult(code, tail[-4000:]))
                outcome = "unsolved" if code else "solved"
                self._set(seconds=replace(self.result.seconds, check=time.monotonic() - asked))
            if self._defects and outcome != "solved":
                raise TaskFailed(f"internal error: {self._defects[0]}", transient=True)
            self._set(outcome=outcome, session="session.jsonl")
        if isinstance(task.output, dict):
            await asyncio.to_thread(copy_files, self.work.path, task.output["files"], self._draft / "files")

    async def _prepare(self) -> Lost | None:
        """Make the work folder, or take up that of a lost attempt."""
        lost = await take_over(self._order, self._root)
        if lost is None:
            await self.work.prepare(await mirror_of(self._order, self._root))
        else:
            await self.work.take_up(lost.work)
            await asyncio.to_thread(lost.copy_to, self._draft)
        if self._order.after_loss == "continue":
            (self._draft / WORK_FOLDER).write_text(str(self.work.path))
        continued = "" if lost is None else f", continues attempt {self._order.continues}"
        self._log.note(f"works in {self.work.path}{continued}")
        return lost

    def _watch(self, agent: tau.Agent) -> None:
        """See the responses of the provider, and what happens."""
        handle = agent._require_handle()
        handle.extensions.on("after_provider_response", "<fleet>", self._refusals.on_response)
        handle.on_tool_defect(self._defects.append)
        agent.subscribe(lambda event: self._on_event(agent, event))

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
            agent_dir=self._root / "agent" / self._order.run,
            env=self._variables.environment(task),
            settings=self._variables.settings(task),
            extensions=task.extensions,
            find_extensions=False,
            trust=False,
            budget=task.budget,
            permissions=task.permissions,
            sandbox=None if sandbox == "none" else sandbox,
            telemetry=telemetry or False,
            **given,
        )

    def _on_event(self, agent: tau.Agent, event: Any) -> None:
        if isinstance(event, AutoRetryStart):
            self._log.note(f"retry {event.attempt} after {event.delay_ms} ms: {event.error_message}")
            if self._refusals.on_retry(event) and self._limits.time_limit is not None:  # its clock stands still
                wait = event.delay_ms / 1000
                self._limits = replace(self._limits, time_limit=self._limits.time_limit + wait)
                agent._require_handle().set_budget(self._limits)
        elif isinstance(event, MessageEnd) and isinstance(event.message, Assistant):
            self._charge(event.message)

    def _charge(self, answer: Assistant) -> None:
        """Every answer is reported: what it cost must be known even if this worker is killed."""
        self._spent += answer.usage.cost.total
        if self._spent:
            self._say(Progress(self._order.attempt, self._spent, answer.usage.total_tokens))

    async def _ask(self, agent: tau.Agent, lost: Lost | None) -> Outcome:
        task = self._order.task
        texts = [task.prompt] if isinstance(task.prompt, str) else task.prompt
        if task.prompt_file is not None:
            texts = [await asyncio.to_thread(Path(task.prompt_file).read_text)]
        attached, images = await asyncio.to_thread(read_attachments, task.attachments)
        # The prompt that was interrupted is in the session already, unless it was lost before it was stored.
        interrupted = lost is not None and lost.prompts > 0 and bool(agent.messages())
        first = lost.prompts - 1 if lost is not None and interrupted else 0
        started = time.monotonic()
        for at, text in list(enumerate(texts))[first:]:
            if at > first:
                seconds = time.monotonic() - started - self._refusals.waited
                self._limits = remaining(task.budget, self.result, seconds)
                agent._require_handle().set_budget(self._limits)
            if self._order.after_loss == "continue":
                (self._draft / PROMPTS_BEGUN).write_text(str(at + 1))
            is_last = at == len(texts) - 1
            is_first = at == 0 and not interrupted
            prompt = INTERRUPTED if interrupted and at == first else attached + text if is_first else text
            self._log.note(f"prompt {at + 1} of {len(texts)}")
            result = await agent.prompt(
                prompt, images if is_first else (), output_schema=task.output_schema if is_last else None
            )
            self._count(agent, result)
            if (outcome := self._outcome(result, is_last=is_last)) is not None:
                return outcome
        return "done"

    def _outcome(self, result: Any, *, is_last: bool) -> Outcome | None:
        """What a prompt that has ended means for the task; None if it goes on. Raises TaskFailed."""
        if result.exceeded is not None:
            self._set(error=result.error)
            return "stuck" if result.stop_reason == "stuck" else "limited"
        if not result.ok:
            error = result.error or "The run failed."
            raise TaskFailed(error, transient=classify(error).is_transient, uncounted=self._refusals.on_failure(error))
        if not is_last and (limit := used_up(self._order.task.budget, self.result)) is not None:
            self._set(error=f"The budget of the task was used up: {limit}.")
            return "limited"
        return None

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
        """Run a command where the agent works, in the same sandbox. Returns its code and the end of its output.

        A command that was killed says nothing about the task, which is tried again. Raises TaskFailed.
        """
        name = log.removesuffix(".log")
        try:
            async with asyncio.timeout(COMMAND_TIMEOUT_S):
                done = await agent.bash(command, exclude_from_context=True)
        except TimeoutError:
            raise TaskFailed(f"{name} did not end within {COMMAND_TIMEOUT_S:.0f} s") from None
        except TauError as error:
            raise TaskFailed(f"{name}: {error}", transient=True) from None
        tail = done.output.encode(errors="replace")[-TAIL_BYTES:]
        (self._draft / log).write_bytes(tail)
        code = done.exit_code
        self._log.note(f"{name} ended with {code if isinstance(code, int) else done.signal}")
        if not isinstance(code, int):
            raise TaskFailed(f"{name} was killed by {done.signal}", transient=True)
        return code, tail.decode(errors="replace")

    async def _take_patch(self) -> None:
        """Before the check: what that leaves behind is not the agent's work."""
        output = self._order.task.output
        if output == "none":
            return
        self._set(patch=await self.work.patch(self._draft / "patch.diff"))
        if output == "branch":
            await self.work.commit(self._draft)
        for name in self.work.left_out:
            self._log.note(f"{name} is a repository of its own: it is not in the patch")

    def _set(self, **changes: Any) -> None:
        self.result = replace(self.result, **changes)

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
        if missing := self._variables.missing(task):
            raise TaskFailed(f"env: this worker has no variable {', '.join(missing)}")
        if (problem := await sandbox_problem(task.sandbox or self._order.sandbox)) is not None:
            raise TaskFailed(f"sandbox: {problem}")

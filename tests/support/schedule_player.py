"""Plays a case in a scheduled loop, and records what was asked, answered and published, each with its step.

Commands go through the functions that the RPC server calls, actions through those of extensions.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
from collections import Counter
from collections.abc import Awaitable, Mapping
from contextvars import Context
from typing import Any, NoReturn

from support.schedule_cases import LEVELS, SWITCHES, Json
from support.schedule_extension import System
from support.schedule_loop import ScheduleLoop, Stuck
from support.schedule_record import Asked, ErrorLog, Left, Record, descriptors, plain, targets
from support.schedule_world import Workshop, scheduled
from tau.errors import CommandError, TauError
from tau.records.base import decode, encode
from tau.records.commands import Command
from tau.rpc.commands import HANDLERS
from tau.runtime.extensions.loader import InProcessChannel, load_function
from tau.runtime.history.session_log import SessionLog
from tau.runtime.protocol.requests import Request
from tau.runtime.session.extension_actions import act, actions_for, session_facts
from tau.runtime.session.session import Session

PATIENCE_S = 60.0  # virtual, for everything to end by itself; then it is aborted
MAX_SENT = 4  # messages that the hooks of an extension send in one schedule
ABANDONED: list[Any] = []  # tasks of a schedule that was stuck, which must not be destroyed without their loop
COMMANDS = {str(kind.__struct_config__.tag): kind for kind in HANDLERS}


def no_lender() -> NoReturn:
    raise AssertionError("this client offers no tools")


class Player:
    def __init__(self, case: Json, workshop: Workshop, *, permute: bool = False) -> None:
        self.case = case
        self.record = Record(ordered=not permute)
        self.loop = ScheduleLoop(case["seed"], stall=case["stall"], permute=permute)
        self._workshop = workshop
        self._counts: Counter[str] = Counter()
        self._waiting = [one for one in case["operations"] if "on" in one]
        self._tasks: set[asyncio.Task[Any]] = set()
        self._channel: InProcessChannel | None = None
        self._sent = 0
        self._system = System(self.loop, case["hooks"], has_command=case["extensions"] == "process")
        self._system.happened, self._system.sends = self._happened, self._next_text
        self._system.reloads = lambda session: self._note("hook reload", session, "")
        self.record.loads = self._system.loads
        self._closing: asyncio.Task[None] | None = None
        self._over = False  # nothing more is asked
        self._logs: list[tuple[int, SessionLog]] = []
        self.session: Session

    def play(self) -> Record:
        record, loop = self.record, self.loop
        logs = ErrorLog(record)
        open_before = descriptors()
        try:
            with scheduled(loop, self.case, self._workshop), self._system.emulated(), logs:
                loop.run_until_complete(self._main())
        except Stuck as stuck:
            names = sorted(str(task.get_coro()).split(" at ")[0] for task in asyncio.all_tasks(loop))
            record.problems.append(("hang", f"{stuck}: {names}"))
        finally:
            left = [task for task in asyncio.all_tasks(loop)]
            record.problems += [("task left", str(task.get_coro())) for task in left if not _is_main(task)]
            ABANDONED.extend(left)
            record.steps, record.seconds = loop.steps, loop.time()
            loop._ready.clear()  # type: ignore[attr-defined]
            loop._scheduled.clear()  # type: ignore[attr-defined]
            loop.close()
        record.problems += [("exception", text) for text in loop.errors]
        self._let_go()
        if targets(descriptors() - open_before):
            gc.collect()  # a session has reference cycles
            if (found := targets(descriptors() - open_before)) and not left:
                record.problems.append(("descriptor left", f"{found}"))
        return record

    async def _main(self) -> None:
        record, loop = self.record, self.loop
        self.handle = self._workshop.factory(self.case).open(self._publish)
        self.session = session = self.handle._session
        loop.after_step = self._look
        self._watch_reloads()
        self._look()
        await self._load_extension()
        start = loop.create_task(session.extension_lifecycle.start())
        while not (await asyncio.wait([start], timeout=PATIENCE_S))[0]:
            session.hooks.abort()  # as the server does for an abort during the start: a dialog may have no answer
            session.dialogs.cancel()
        if start.cancelled() and self._closing is None:
            record.problems.append(("cancelled", "the start of the extensions"))
        elif not start.cancelled():
            start.result()
        for operation in self.case["operations"]:
            if "at" in operation:
                loop.call_at(loop.time() + operation["at"], self._start, operation)
        await self._until_quiet()
        if self._closing is None:
            record.queued = session.queues.texts("steer"), session.queues.texts("follow_up")
            self._close()
        assert self._closing is not None
        await self._closing
        await asyncio.sleep(0.5)  # commands may still come: the process has not ended
        self._over = True
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=10.0)
        for task in [*self._tasks]:
            record.problems.append(("no response", f"{task.get_name()} did not end with the session"))
            task.cancel()
        session.runs.cancel()
        self.handle.kill()
        if self._channel is not None:
            await self._channel.end()
        await self.handle.release()
        await asyncio.sleep(30.0)
        record.accepted, record.settled = session.runs.accepted, session.runs.settled

    async def _until_quiet(self) -> None:
        """Wait until all operations with a time have come and everything has ended; abort what takes too long."""
        last = max([one["at"] for one in self.case["operations"] if "at" in one], default=0.0)
        await asyncio.sleep(last + 0.001)
        for attempt in range(12):
            deadline = self.loop.time() + PATIENCE_S
            while self.loop.time() < deadline and (self._tasks or self._busy):
                await asyncio.sleep(0.5)
            if self._closing is not None:
                return
            if not self._tasks and not self._busy:
                await asyncio.sleep(6.0)  # reloads wait so long for commands
                if not self._tasks and not self._busy:
                    return
            if attempt:
                self._start({"do": "abort", "n": 300 + attempt, "pick": 0})
                self._start({"do": "abort_bash", "n": 320 + attempt, "pick": 0})
        self.record.problems.append(("hang", f"busy after every abort: {[task.get_name() for task in self._tasks]}"))

    @property
    def _busy(self) -> bool:
        session = self.session
        commands, lifecycle = session.running_commands._tasks, session.extension_lifecycle
        return session.runs.busy or session.compactor.busy or bool(commands) or lifecycle._reloading is not None

    # What is seen.

    def _look(self) -> None:
        log = self.session.log
        if not self._logs or self._logs[-1][1] is not log:
            self._logs.append((self.loop.steps, log))
            self._happened("log")

    def _let_go(self) -> None:
        """Keep what the rules need of the sessions, and drop the logs: an open file closes with its log."""
        for step, log in self._logs:
            lines = [] if log.path is not None and log.path.exists() else [bytes(one) for one in log.tree.after(None)]
            self.record.sessions.append(Left(step, log.id, log.path, lines))
        self._logs.clear()
        self._system.forget()
        del self.session, self.handle, self._channel

    def _watch_reloads(self) -> None:
        plan: Any = self.session.extension_lifecycle._plan
        read = plan.again

        async def again() -> Any:
            self.record.reads.append(self.loop.steps)
            return await read()

        plan.again = again

    def _publish(self, event: Any) -> Awaitable[None] | None:
        tag = str(event.__struct_config__.tag) if hasattr(event, "__struct_config__") else "message_update"
        self.record.events.append((self.loop.steps, tag, event))
        if tag == "agent_settled":
            queues = self.session.queues
            self.record.idle.append((self.loop.steps, [*queues.texts("steer"), *queues.texts("follow_up")]))
        self._happened(tag)
        if tag == "confirm":
            self._answer_dialog(event.id)
        if self.case["backpressure"] and self.loop.random.random() < self.case["backpressure"]:
            return asyncio.sleep(self.loop.random.choice((0.0, 0.001, 0.05)))
        return None

    def _answer_dialog(self, id: str) -> None:
        """The user answers at once, later, or never."""
        random = self.loop.random
        if random.random() < 0.7:
            answer = {"id": id, "confirmed": random.random() < 0.5}
            self.loop.call_later(random.choice((0.0, 0.05, 2.0)), self.session.dialogs.answer, answer)

    def _happened(self, event: str) -> None:
        self._counts[event] += 1
        for one in [*self._waiting]:
            name, count, passes = one["on"]
            if name == event and count == self._counts[event]:
                self._waiting.remove(one)
                self.loop.call_soon(self._after, passes, one)

    def _after(self, passes: int, operation: Json) -> None:
        if passes:
            self.loop.call_soon(self._after, passes - 1, operation)
        else:
            self._start(operation)

    # What is asked.

    def _start(self, operation: Json) -> None:
        if self._over:
            return None
        if operation["do"] == "close":
            return self._close()
        asked = Asked(operation, self.loop.steps, self.session.log.id, closing=self._closing is not None)
        self.record.asked.append(asked)
        self._happened("ask switch" if asked.do in SWITCHES else f"ask {asked.do.removeprefix('act ')}")
        try:
            reply = self._call(asked)
        except CommandError as error:
            self._answered(asked, error=str(error))
            return None
        if inspect.iscoroutine(reply):
            task = self.loop.create_task(
                self._finish(asked, reply), name=f"{asked.do} {operation['n']}", context=Context()
            )
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            self._answered(asked, reply)
        return None

    async def _finish(self, asked: Asked, reply: Any) -> None:
        try:
            answer = await reply
        except TauError as error:
            self._answered(asked, error=str(error))
        except asyncio.CancelledError:
            self._answered(asked, error="cancelled")
            raise
        except Exception as error:
            self.record.problems.append(("internal error", f"{asked.do}: {type(error).__name__}: {error}"))
            self._answered(asked, error=repr(error))
        else:
            self._answered(asked, answer)

    def _answered(self, asked: Asked, answer: Any = None, *, error: str | None = None) -> None:
        asked.done = self.loop.steps
        if error is None:
            asked.answers.append(plain(answer))
        else:
            asked.errors.append(error)

    def _close(self) -> None:
        if self._closing is None:
            self.record.closed_at = self.loop.steps
            self._closing = self.loop.create_task(self.session.close())

    def _call(self, asked: Asked) -> Any:
        do, number, pick = asked.do, asked.operation["n"], asked.operation.get("pick", 0)
        text = f"text-{number}."
        if do.startswith("act "):
            asked.source = "extension"
            return act(self.session, do[4:], self._action_params(asked, do[4:], text, pick))
        if do == "command":
            do, params = "prompt", {"message": f"/go {pick} {number}"}
        else:
            params = self._params(asked, do, text, pick)
        kind: type[Command] = COMMANDS[do]
        body = encode({"type": do, **params})
        return HANDLERS.call(self.handle, decode(kind, body), Request(kind, do, b"", body), no_lender)

    def _params(self, asked: Asked, do: str, text: str, pick: int) -> Json:
        session = self.session
        match do:
            case "prompt":
                asked.text = text
                behavior = (None, None, "steer", "followUp")[pick % 4]
                return {"message": text, **({"streamingBehavior": behavior} if behavior else {})}
            case "steer" | "follow_up":
                asked.text = text
                return {"message": text}
            case "bash":
                asked.text = text
                return {"command": f"work {(0.0, 0.05, 0.3, 2.0)[pick % 4]} {text}"}
            case "set_session_name":
                asked.text = text
                return {"name": text}
            case "switch_session":
                return {"sessionPath": self._path(pick)}
            case "fork" | "navigate":
                points = session.log.tree.fork_points()
                entry = points[pick % len(points)].entry_id if points else "none"
                return {"entryId": entry} | ({"summarize": pick % 2 == 0} if do == "navigate" else {})
            case "set_model":
                return {"provider": "lab", "modelId": ("large", "other", "none")[pick % 3]}
            case "set_thinking_level":
                return {"level": LEVELS[pick % 3]}
        return {}

    def _action_params(self, asked: Asked, name: str, text: str, pick: int) -> Json:
        match name:
            case "send_message":
                asked.text = text
                deliver = (None, "steer", "followUp", "nextTurn")[pick % 4]
                return {"message": _message(text), "triggerTurn": pick % 3 > 0, "deliverAs": deliver}
            case "send_user_message":
                asked.text = text
                return {"content": text, "deliverAs": (None, "steer", "followUp")[pick % 3]}
            case "append_entry":
                return {"customType": "fuzz", "data": text}
            case "set_session_name":
                asked.text = text
                return {"name": text}
            case "switch_session":
                return {"sessionPath": self._path(pick)}
            case "fork":
                return {"entryId": self._params(asked, "fork", text, pick)["entryId"]}
        return {}

    def _path(self, pick: int) -> str:
        files = sorted(self._workshop.sessions.glob("*.jsonl"))
        if not files or pick % 10 == 0:
            self._workshop.sessions.mkdir(exist_ok=True)
            return str(self._workshop.sessions / f"new-{pick}.jsonl")
        return str(files[pick % len(files)])

    # The extension in this process.

    async def _load_extension(self) -> None:
        session = self.session
        if self.case["extensions"] in ("function", "both"):
            facts = lambda: session_facts(session)  # noqa: E731
            self._channel = await load_function(session.extensions, self._set_up, "<fuzz>", actions_for(session), facts)

    def _set_up(self, pi: Any) -> None:
        for hook, (seconds, does) in self.case["hooks"].items():
            pi.on(hook, self._handler(pi, hook, seconds, does))
        pi.register_command("go", self._command)

    def _handler(self, pi: Any, hook: str, seconds: float, does: str | None) -> Any:
        async def handle(event: Mapping[str, Any], ctx: Any) -> Any:
            self._happened(f"hook {hook}")
            if seconds:
                await asyncio.sleep(seconds)
            if does in ("fail", "crash"):
                raise ValueError("the handler fails")
            if does == "cancel":
                return {"cancel": True} if self.loop.random.random() < 0.5 else None
            if does == "ask":
                return {"cancel": True} if await ctx.ui.confirm("Is it?") else None
            if does in ("send", "send_turn", "name"):
                text = self._next_text(does, self.session.log.id)
                if text is None:
                    return None
                if does == "name":
                    pi.set_session_name(text)
                else:
                    pi.send_message(_message(text), trigger_turn=does == "send_turn")
            return None

        return handle

    def _next_text(self, does: str, session: str) -> str | None:
        if self._sent >= MAX_SENT:
            return None
        self._sent += 1
        return self._note(f"hook {does}", session, f"hook-{self._sent}.")

    def _note(self, do: str, session: str, text: str) -> str:
        closing = self._closing is not None
        self.record.asked.append(Asked({"do": do, "n": 200}, self.loop.steps, session, text, "hook", closing=closing))
        return text

    async def _command(self, args: str, ctx: Any) -> None:
        pick = int(args.split()[0])
        await asyncio.sleep((0.0, 0.01, 0.5)[pick % 3])
        match pick % 5:
            case 0:
                self._note("hook reload", self.session.log.id, "")
                await ctx.reload()
            case 1:
                await ctx.new_session()
            case 2:
                await ctx.wait_for_idle()
            case 3:
                for _ in range(2):
                    self._note("hook reload", self.session.log.id, "")
                    await ctx.reload()
            case 4:
                ctx.compact()


def _message(text: str) -> Json:
    return {"customType": "fuzz", "content": text, "display": True}


def _is_main(task: asyncio.Task[Any]) -> bool:
    return "Player._main" in str(task.get_coro())

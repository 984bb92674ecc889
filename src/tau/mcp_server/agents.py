"""The tools `tau` and `tau_reply`: agents that work on the prompts of an MCP client, each in a session of its own."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from tau.core.agent.draft import Update
from tau.core.agent.structured_output import BadSchema, OutputSchema, parse_output_schema
from tau.core.checks.schema import check_arguments
from tau.errors import CommandError, TauError
from tau.mcp_server.calls import Call
from tau.mcp_server.questions import Questions
from tau.records.base import UNSET, encode, replace, to_builtins
from tau.records.dialogs import Confirm, Editor, Input, Select, UiRequest
from tau.records.events import Event, ToolStart
from tau.runtime.app.batch import RunSummary
from tau.runtime.app.factory import SessionFactory
from tau.runtime.app.handle import SessionHandle
from tau.runtime.app.options import SessionOptions, SessionTarget
from tau.runtime.services import Client, Mode
from tau.runtime.session.operations import as_path
from tau.store.paths import check_folder
from tau.store.session_folder import Boundary, session_folder

logger = logging.getLogger(__name__)
MAX_OPEN_SESSIONS = 32  # of which the idle ones are closed, the oldest first
CLOSE_TIMEOUT_S = 1.0
MAX_ARGUMENTS_SHOWN = 200  # characters of the arguments of a tool in a progress message

Json = dict[str, Any]
Load = Callable[[SessionOptions, str], SessionFactory]  # blocks

START: Json = {
    "type": "object",
    "properties": {
        "prompt": {"type": "string", "description": "The task, complete: the agent sees nothing else"},
        "cwd": {
            "type": "string",
            "description": "The folder to work in, below a root of the server; default: its folder",
        },
        "model": {"type": "string", "description": "The model: an id, provider/id, or a part of its name"},
        "outputSchema": {"type": "object", "description": "JSON Schema of a result that is wanted instead of text"},
    },
    "required": ["prompt"],
}
REPLY: Json = {
    "type": "object",
    "properties": {
        "sessionId": {"type": "string", "description": "The sessionId of an earlier result"},
        "prompt": {"type": "string", "description": "The next message"},
    },
    "required": ["sessionId", "prompt"],
}
RESULT: Json = {
    "type": "object",
    "properties": {
        "sessionId": {"type": "string"},
        "stopReason": {"type": "string"},
        "usage": {"type": "object"},
        "cost": {"type": "number", "description": "in dollars"},
        "output": {"description": "the value that matches outputSchema"},
    },
    "required": ["sessionId"],
}
DEFINITIONS: dict[str, Json] = {
    "tau": {
        "name": "tau",
        "title": "tau",
        "description": (
            "Let a coding agent work on a task: it reads and changes files and runs commands in a folder, and returns"
            " its answer. Continue the conversation with tau_reply."
        ),
        "inputSchema": START,
        "outputSchema": RESULT,
    },
    "tau_reply": {
        "name": "tau_reply",
        "title": "tau: reply",
        "description": "Send another message to a coding agent that `tau` has started.",
        "inputSchema": REPLY,
        "outputSchema": RESULT,
    },
}


class AgentSession:
    """An open session, and the call that it works for at the moment."""

    def __init__(self, open_session: Callable[[Client], SessionHandle], cwd: str) -> None:
        self.cwd = cwd
        self._lock = asyncio.Lock()  # one prompt at a time
        self._prompts = 0  # that run or wait
        self._call: Call | None = None
        self._summary: RunSummary | None = None
        self._questions = Questions(lambda: self._call)
        self.handle = open_session(self._publish)
        self._questions.connect(self.handle)

    def _publish(self, event: Event | Update | UiRequest) -> Awaitable[None] | None:
        if isinstance(event, Select | Confirm | Input | Editor):
            self._questions.show(event, self.handle.answer_dialog)
        elif isinstance(event, ToolStart) and self._call is not None:
            self._call.progress(_described(event))
        return None if self._summary is None else self._summary.pass_on(event)

    @property
    def busy(self) -> bool:
        return self._prompts > 0

    async def run(self, prompt: str, schema: OutputSchema | None, call: Call) -> Json:
        """Run a prompt and return the result of the call. Cancelling this aborts the run."""
        self._prompts += 1
        try:
            return await self._run_next(prompt, schema, call)
        finally:
            self._prompts -= 1

    async def _run_next(self, prompt: str, schema: OutputSchema | None, call: Call) -> Json:
        async with self._lock:
            summary = self._summary = RunSummary(lambda event: None)
            self._call = call
            try:
                await self.handle.submit(prompt, [], None, output_schema=schema)
                await self.handle.settled()
            except CommandError as error:
                summary.fail(str(error))
            except asyncio.CancelledError:
                await self.handle.abort()
                raise
            finally:
                self._call = self._summary = None
            return self._result(summary)

    def _result(self, summary: RunSummary) -> Json:
        failed = bool(summary.failures)
        text = summary.failures[-1] if failed else "\n".join(summary.texts)
        details: Json = {
            "sessionId": self.handle.log.id,
            "stopReason": summary.answer.stop_reason if summary.answer is not None else "error",
            "usage": to_builtins(summary.usage),
            "cost": summary.usage.cost.total,
        }
        if summary.output is not None and summary.output.value is not UNSET:
            details["output"] = summary.output.value
        result: Json = {"content": [{"type": "text", "text": text}], "structuredContent": details}
        return {**result, "isError": True} if failed else result

    async def close(self) -> None:
        await self.handle.close(CLOSE_TIMEOUT_S)
        await self.handle.release()


class Agents:
    """The sessions that were started here. `load` reads the configuration of a folder.

    They work below the `roots`, of which the first is the default: the model of the client chooses the folder, and
    sandbox and permissions are about that folder.
    """

    def __init__(self, load: Load, options: SessionOptions, roots: Sequence[str]) -> None:
        self._load = load
        self._options = replace(options, roots=roots)
        self._roots = roots
        self._cwd = roots[0]
        self._sessions: dict[str, AgentSession] = {}  # by id, the most recently used last
        self._folders: dict[str, str] = {}  # by id: where a session worked that was closed
        self._closing: dict[str, asyncio.Task[None]] = {}  # by id: sessions that still hold their file
        self._opening = asyncio.Lock()  # two replies to a session open it once

    async def call(self, name: str, arguments: Json, call: Call) -> Json:
        given, problems = check_arguments(DEFINITIONS[name]["inputSchema"], arguments)
        if problems:
            return failure("\n".join(problems))
        try:
            if name == "tau_reply":
                session = await self._existing(given["sessionId"], call)
                return await self._run(session, given["prompt"], None, call)
            schema = parse_output_schema(given["outputSchema"]) if "outputSchema" in given else None
            session = await self._new(given, call)
            return await self._run(session, given["prompt"], schema, call)
        except BadSchema as error:
            return failure(f"outputSchema: {error}")
        except TauError as error:
            return failure(str(error))

    async def close(self) -> None:
        closing = [*(session.close() for session in self._sessions.values()), *self._closing.values()]
        await asyncio.gather(*closing, return_exceptions=True)

    async def _run(self, session: AgentSession, prompt: str, schema: OutputSchema | None, call: Call) -> Json:
        result = await session.run(prompt, schema, call)
        self._keep(session)
        return result

    async def _new(self, given: Mapping[str, Any], call: Call) -> AgentSession:
        cwd = os.path.realpath(os.path.join(self._cwd, as_path("cwd", given.get("cwd", "."))))
        options = self._options
        if "model" in given:
            options = replace(options, model=given["model"], provider=None)
        return await self._open(options, check_folder("cwd", cwd, self._roots), call)

    async def _existing(self, id: str, call: Call) -> AgentSession:
        session = self._sessions.get(id)
        if session is not None:
            return session
        async with self._opening:
            if (closing := self._closing.get(id)) is not None:
                await asyncio.wait({closing})
            return self._sessions.get(id) or await self._stored(id, call)

    async def _stored(self, id: str, call: Call) -> AgentSession:
        if not id or "/" in id or "\\" in id or id.endswith(".jsonl"):
            raise CommandError(f"sessionId: there is no session {id[:80]!r}")
        target = SessionTarget(kept=self._options.session.kept, folder=self._options.session.folder, named=id)
        if not target.kept:
            raise CommandError(f"sessionId: there is no session {id[:80]!r}")
        options = replace(self._options, session=target)
        cwd = self._folders.get(id) or await self._folder_of(id, options)
        return await self._open(options, check_folder("sessionId", cwd, self._roots), call)

    async def _folder_of(self, id: str, options: SessionOptions) -> str:
        """The working folder of a session that an earlier server had. Raises CommandError or UsageError."""
        found = (await asyncio.to_thread(lambda: self._load(options, self._cwd))).resumed
        if found is None or found.header.id != id:
            raise CommandError(f"sessionId: there is no session {id[:80]!r}")
        return session_folder(found.header.cwd, found.path, self._cwd, [Boundary(self._roots, field="sessionId")])

    async def _open(self, options: SessionOptions, cwd: str, call: Call) -> AgentSession:
        factory = await asyncio.to_thread(lambda: self._load(options, cwd))
        mode: Mode = "rpc" if call.can_ask else "print"  # the first has dialogs
        session = AgentSession(lambda client: factory.open(client, mode, saves=False, shared=True), cwd)
        try:
            await session.handle.start()
        except BaseException:
            await session.close()
            raise
        self._keep(session)
        return session

    def _keep(self, session: AgentSession) -> None:
        """Remember a session as the most recently used one, and close the oldest if there are too many."""
        id = session.handle.log.id
        self._sessions.pop(id, None)
        self._sessions[id] = session
        self._folders[id] = session.cwd
        idle = [id for id, other in self._sessions.items() if not other.busy and other is not session]
        for id in idle[: max(0, len(self._sessions) - MAX_OPEN_SESSIONS)]:
            self._close(id)

    def _close(self, id: str) -> None:
        task = self._closing[id] = asyncio.ensure_future(self._sessions.pop(id).close())
        task.add_done_callback(_log_failure)
        task.add_done_callback(lambda _: self._closing.pop(id, None))


def failure(text: str) -> Json:
    return {"content": [{"type": "text", "text": text}], "isError": True}


def _described(event: ToolStart) -> str:
    arguments = ""
    with suppress(TypeError):
        arguments = encode(event.args).decode()
    shown = arguments if len(arguments) <= MAX_ARGUMENTS_SHOWN else arguments[: MAX_ARGUMENTS_SHOWN - 1] + "…"
    return f"{event.tool_name} {shown}".strip()


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.warning("a session could not be closed: %s", error)

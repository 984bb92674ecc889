"""What the server offers: the agent as tools, built-in tools, and the sessions of its folder as resources."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

from tau.core.agent.draft import Update
from tau.errors import CommandError, TauError, UsageError
from tau.mcp_server.agents import DEFINITIONS, Agents, Json, Load, failure
from tau.mcp_server.calls import Call
from tau.mcp_server.conversation_text import conversation_text
from tau.mcp_server.protocol import Refused, RequestFacts
from tau.mcp_server.questions import Questions
from tau.records.base import UNSET, replace
from tau.records.dialogs import Confirm, Editor, Input, Select, UiRequest
from tau.records.events import Event
from tau.records.messages import Text
from tau.records.replies import SessionRow
from tau.runtime.app.handle import SessionHandle
from tau.runtime.app.options import SessionOptions
from tau.tools.registry import TOOLS
from tau.wire.jsonrpc import INVALID_PARAMS

AGENT_TOOLS = tuple(DEFINITIONS)
READ_ONLY = ("read", "grep", "find", "ls")
SCHEME = "tau://session/"
PAGE = 100  # sessions in one page of the list
MAX_TITLE = 80
RESOURCE_NOT_FOUND = -32002  # of the legacy era; in the modern one the parameters are invalid
_call: ContextVar[Call | None] = ContextVar("_call", default=None)


def checked_names(names: Sequence[str]) -> list[str]:
    """The names of tools to offer. Raises UsageError for one that does not exist."""
    known = [*AGENT_TOOLS, *TOOLS]
    for name in names:
        if name not in known:
            raise UsageError(f'--tools: there is no tool "{name}". Available: {", ".join(known)}')
    return list(dict.fromkeys(names))


class ServedFeatures:
    """`names` are the tools to offer, `roots` the folder of the server and others in which the agent may work."""

    def __init__(self, load: Load, options: SessionOptions, roots: Sequence[str], names: Sequence[str]) -> None:
        self._load = load
        self._options = options
        self._cwd = roots[0]
        self._names = names
        self._agents = Agents(load, options, roots)
        self._opening: asyncio.Task[SessionHandle] | None = None  # of the session for built-in tools and lists
        self._questions = Questions(_call.get)

    # Tools.

    def tools(self) -> list[Json]:
        return [DEFINITIONS[name] if name in DEFINITIONS else _builtin(name) for name in self._names]

    async def call_tool(self, name: str, arguments: Json, call: Call) -> Json:
        if name not in self._names:
            raise Refused(INVALID_PARAMS, f"Unknown tool: {name[:80]}")
        if name in DEFINITIONS:
            return await self._agents.call(name, arguments, call)
        _call.set(call)  # the questions of this call are asked in its task
        try:
            handle = await self._handle()
            outcome, is_error = await handle.call_tool(name, arguments)
        except TauError as error:
            return failure(str(error))
        content = [
            {"type": "text", "text": block.text}
            if isinstance(block, Text)
            else {"type": "image", "data": block.data, "mimeType": block.mime_type}
            for block in outcome.content
        ]
        return {"content": content, "isError": True} if is_error else {"content": content}

    # Resources.

    async def resources(self, cursor: Any) -> Json:
        if cursor is not None and not (isinstance(cursor, str) and cursor.isdecimal() and len(cursor) < 10):
            raise Refused(INVALID_PARAMS, "cursor: not one of this server")
        start = int(cursor or 0)
        rows = await self._rows()
        page = {"resources": [_resource(row) for row in rows[start : start + PAGE]]}
        return {**page, "nextCursor": str(start + PAGE)} if len(rows) > start + PAGE else page

    async def read_resource(self, uri: str, facts: RequestFacts) -> Json:
        id = uri.removeprefix(SCHEME)
        found = [row for row in await self._rows() if row.id == id] if uri.startswith(SCHEME) else []
        if not found:
            code = RESOURCE_NOT_FOUND if facts.era == "legacy" else INVALID_PARAMS
            raise Refused(code, "Resource not found", {"uri": uri[:500]})
        try:
            messages = await (await self._handle()).session_files.messages(found[0].path)
        except CommandError as error:
            raise Refused(INVALID_PARAMS, str(error)) from None
        return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": conversation_text(messages)}]}

    async def _rows(self) -> list[SessionRow]:
        try:
            return await (await self._handle()).sessions(everywhere=False)
        except TauError as error:
            raise Refused(INVALID_PARAMS, str(error)) from None

    # The session for built-in tools and lists. It has no conversation, and is not stored.

    async def _handle(self) -> SessionHandle:
        if self._opening is None or (self._opening.done() and self._opening.exception() is not None):
            self._opening = asyncio.ensure_future(self._open())
        return await asyncio.shield(self._opening)

    async def _open(self) -> SessionHandle:
        builtin = [name for name in self._names if name not in DEFINITIONS]
        options = replace(self._options, tools=builtin)
        factory = await asyncio.to_thread(lambda: self._load(options, self._cwd))

        def publish(event: Event | Update | UiRequest) -> None:
            if isinstance(event, Select | Confirm | Input | Editor):
                self._questions.show(event, handle.answer_dialog)

        handle = factory.open(publish, "rpc", saves=False, shared=True)
        self._questions.connect(handle)
        await handle.start()
        return handle

    async def close(self) -> None:
        await self._agents.close()
        if self._opening is not None and self._opening.done() and self._opening.exception() is None:
            handle = self._opening.result()
            await handle.close(1.0)
            await handle.release()


def _builtin(name: str) -> Json:
    tool = TOOLS[name]
    hints = {"readOnlyHint": name in READ_ONLY}
    return {"name": name, "description": tool.description, "inputSchema": tool.parameters, "annotations": hints}


def _resource(row: SessionRow) -> Json:
    title = row.name if row.name is not UNSET and row.name else row.first_message
    name = " ".join(title.split())[:MAX_TITLE] or row.id
    return {"uri": f"{SCHEME}{row.id}", "name": name, "mimeType": "text/plain"}

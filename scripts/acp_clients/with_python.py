"""The task of __main__.py, with the official Python library as the client."""

from __future__ import annotations

import asyncio
import json
import os
import time
from typing import Any

from acp.schema import AllowedOutcome, McpServerStdio, RequestPermissionResponse

from acp import PROTOCOL_VERSION, Client, spawn_agent_process, text_block

COMMAND, *ARGUMENTS = json.loads(os.environ["TASK_AGENT"])
SERVER = json.loads(os.environ["TASK_MCP"])


class Editor(Client):
    """Prints what an editor would show."""

    def __init__(self) -> None:
        self.text = ""
        self.statuses: dict[str, list[str]] = {}
        self.questions: list[str] = []
        self.running = asyncio.Event()

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        match update.session_update:
            case "agent_message_chunk":
                self.text += update.content.text
            case "tool_call" | "tool_call_update":
                if update.status:
                    self.statuses.setdefault(update.tool_call_id, []).append(update.status)
                    print(f"  {update.tool_call_id}: {update.status}")
                if update.tool_call_id == "bash_1" and update.status == "in_progress":
                    self.running.set()

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **kwargs: Any
    ) -> RequestPermissionResponse:
        diff = next((one for one in tool_call.content or [] if one.type == "diff"), None)
        shown = f" {diff.old_text!r} -> {diff.new_text!r}" if diff else ""
        print(f"  permission for {tool_call.tool_call_id} ({tool_call.title}){shown}: {options[0].option_id}")
        self.questions.append(tool_call.tool_call_id)
        return RequestPermissionResponse(outcome=AllowedOutcome(option_id=options[0].option_id, outcome="selected"))


async def main() -> None:
    editor = Editor()
    async with spawn_agent_process(editor, COMMAND, *ARGUMENTS, env=os.environ) as (agent, _):
        started = await agent.initialize(protocol_version=PROTOCOL_VERSION)
        print(f"initialize: {started.agent_info.name}, protocol {started.protocol_version}")
        session = await agent.new_session(cwd=os.getcwd(), mcp_servers=[McpServerStdio(**SERVER)])
        print("session/new:", [option.id for option in session.config_options])
        reply = await agent.prompt(session_id=session.session_id, prompt=[text_block("change the file")])
        print(f"session/prompt: {editor.text!r}, {reply.stop_reason}")
        assert reply.stop_reason == "end_turn"
        assert editor.statuses["edit_1"][-1] == editor.statuses["mcp_1"][-1] == "completed", editor.statuses
        assert "edit_1" in editor.questions
        waiting = asyncio.create_task(agent.prompt(session_id=session.session_id, prompt=[text_block("wait")]))
        await asyncio.wait_for(editor.running.wait(), 60)
        began = time.monotonic()
        await agent.cancel(session_id=session.session_id)
        reply = await asyncio.wait_for(waiting, 10)
        print(f"session/cancel: {reply.stop_reason} after {time.monotonic() - began:.2f} s")
        assert reply.stop_reason == "cancelled" and editor.statuses["bash_1"][-1] == "failed"
        reply = await agent.prompt(session_id=session.session_id, prompt=[text_block("again")])
        assert reply.stop_reason == "end_turn"


asyncio.run(main())

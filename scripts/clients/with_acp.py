"""python with_acp.py PI_ACP: an ACP client, agent-client-protocol, whose agent is pi-acp, which runs pi.

pi-acp does not use pi's command `bash`. The step `bash` checks the tool of that name, which pi-acp shows as a terminal.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from steps import ANSWER, COMMAND, NEVER_END, OUTPUT, READ, WITHIN, expect, step

from acp import PROTOCOL_VERSION, Client, spawn_agent_process, text_block


class Editor(Client):
    """What an editor would show."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.clear()

    def clear(self) -> None:
        self.text = ""
        self.tools: dict[str, Any] = {}
        self.terminal = ""
        self.exit_codes: list[int] = []
        self.begun.clear()

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        match update.session_update:
            case "agent_message_chunk":
                self.text += update.content.text
                self.begun.set()
            case "tool_call" | "tool_call_update":
                self.tools[update.tool_call_id] = update.status
                shown = update.field_meta or {}
                self.terminal += shown.get("terminal_output", {}).get("data", "")
                if "terminal_exit" in shown:
                    self.exit_codes.append(shown["terminal_exit"]["exit_code"])


async def main() -> None:
    editor = Editor()
    async with spawn_agent_process(editor, "node", sys.argv[1], env=os.environ) as (agent, _):

        async def ask(text: str) -> str:
            editor.clear()
            reply = await agent.prompt(session_id=session.session_id, prompt=[text_block(text)])
            return str(reply.stop_reason)

        await agent.initialize(protocol_version=PROTOCOL_VERSION)
        session = await agent.new_session(cwd=os.getcwd(), mcp_servers=[])

        with step("prompt"):
            expect(await asyncio.wait_for(ask(READ), WITHIN), "end_turn")
            # A notice about a newer pi may precede it.
            expect((editor.text.splitlines()[-1], list(editor.tools.values())), (ANSWER, ["completed"]))

        with step("abort"):
            asked = asyncio.create_task(ask(NEVER_END))
            await asyncio.wait_for(editor.begun.wait(), WITHIN)
            await agent.cancel(session_id=session.session_id)
            expect(await asyncio.wait_for(asked, WITHIN), "cancelled")

        with step("bash"):
            expect(await asyncio.wait_for(ask(f"run {COMMAND}"), WITHIN), "end_turn")
            expect((editor.terminal.strip(), editor.exit_codes), (OUTPUT, [0]))


asyncio.run(main())

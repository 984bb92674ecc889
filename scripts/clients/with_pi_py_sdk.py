"""pi-py-sdk: PiAgent, beside the integration tests that come with it."""

from __future__ import annotations

import asyncio

from pi_py_sdk import PiAgent
from steps import ANSWER, COMMAND, NEVER_END, OUTPUT, READ, WITHIN, expect, step


async def main() -> None:
    async with PiAgent() as agent:
        with step("prompt"):
            events = [event async for event in agent.prompt_stream(READ, timeout=WITHIN)]
            done = [event for event in events if event.type == "tool_execution_end"]
            expect([(event.toolName, event.isError) for event in done], [("read", False)])
            expect(await agent.get_last_assistant_text(), ANSWER)

        with step("abort"):
            aborted = False
            async for event in agent.prompt_stream(NEVER_END, timeout=WITHIN):
                if event.type == "message_update" and event.assistantMessageEvent.type == "text_delta" and not aborted:
                    aborted = True
                    await agent.abort()
            expect((await agent.get_messages())[-1].stopReason, "aborted")

        with step("bash"):
            result = await agent.bash(COMMAND)
            expect((result["output"].strip(), result["exitCode"], result["cancelled"]), (OUTPUT, 0, False))


asyncio.run(main())

"""pi-agent-python-sdk, which asks `pi --version` first, and wants runs to settle."""

from __future__ import annotations

import asyncio

from pi_agent import AsyncPiClient, PiRunError
from steps import ANSWER, COMMAND, NEVER_END, OUTPUT, READ, WITHIN, expect, step


async def main() -> None:
    async with AsyncPiClient() as client:
        with step("prompt"):
            async with client.stream(READ, timeout=WITHIN) as run:
                events = [event async for event in run]
                result = await run.result()
            done = [event.raw for event in events if event.type == "tool_execution_end"]
            expect([(event["toolName"], event["isError"]) for event in done], [("read", False)])
            expect("".join(event.text_delta or "" for event in events), ANSWER)
            expect((result.text, result.stop_reason), (ANSWER, "stop"))

        with step("abort"):
            async with client.stream(NEVER_END, timeout=WITHIN) as run:
                aborted = False
                async for event in run:
                    if event.text_delta is not None and not aborted:
                        aborted = True
                        await client.abort()
                try:
                    result = await run.result()
                except PiRunError as error:
                    result = error.result
                expect(result.stop_reason, "aborted")
            # Leaving a run before its end aborts it, by clear_queue and abort.
            async with client.stream(NEVER_END, timeout=WITHIN) as run:
                async for event in run:
                    if event.text_delta is not None:
                        break
            expect((await client.get_state())["isStreaming"], False)

        with step("bash"):
            outcome = await client.bash(COMMAND, timeout=WITHIN)
            expect((outcome["output"].strip(), outcome["exitCode"], outcome["cancelled"]), (OUTPUT, 0, False))


asyncio.run(main())

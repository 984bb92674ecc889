"""picable, which is strict: it gives up at the first record that it does not know."""

from __future__ import annotations

from typing import Any

from picable import PiClient, PiClientOptions
from steps import ANSWER, COMMAND, NEVER_END, OUTPUT, READ, WITHIN, expect, step

with PiClient(PiClientOptions(startup_timeout=WITHIN, command_timeout=WITHIN)) as client:
    heard = client.subscribe_events()

    def until_the_end() -> list[Any]:
        events = [heard.get(timeout=WITHIN)]
        while events[-1].type != "agent_end":
            events.append(heard.get(timeout=WITHIN))
        return events

    with step("prompt"):
        client.prompt(READ)
        done = [event for event in until_the_end() if event.type == "tool_execution_end"]
        expect([(event.tool_name, event.is_error) for event in done], [("read", False)])
        expect(client.get_last_assistant_text(), ANSWER)

    with step("abort"):
        client.prompt(NEVER_END)
        while heard.get(timeout=WITHIN).type != "message_update":
            pass
        client.abort()
        expect(until_the_end()[-1].messages[-1].stop_reason, "aborted")
        expect(client.get_state().is_streaming, False)

    with step("bash"):
        result = client.bash(COMMAND)
        expect((result.output.strip(), result.exit_code, result.cancelled), (OUTPUT, 0, False))
        expect([message.role for message in client.get_messages()][-1], "bashExecution")

"""What a client hears over connections that are cut: for tests/remote and tests/long/reconnects.py."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

from support.socket_host import UNCUT, SocketHost
from tau import RpcClient, events
from tau.events import raw, type_of


@dataclass
class Exchange:
    """One prompt in a session of its own: what was heard, and how many bytes it took."""

    heard: list[str]
    bytes_out: int
    bytes_in: int


async def exchange(served: SocketHost) -> Exchange:
    served.bytes_out = served.bytes_in = 0
    async with RpcClient.connect(served.url, open={"memory": True}) as agent:
        told = await agent.prompt_and_wait("do it", timeout=30)
        await agent.set_session_name("x")
        messages = await agent.get_messages()
    heard = Heard()
    for event in told:
        heard.add(event)
    kinds = [type_of(event) for event in told if not isinstance(event, events.MessageUpdate | events.ToolUpdate)]
    roles = [str(raw(message)["role"]) for message in messages]
    return Exchange([*kinds, *heard.texts, *roles, str(heard.wrong)], served.bytes_out, served.bytes_in)


class Heard:
    """Joins the pieces of answers, and compares them with the whole ones."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.wrong = 0
        self.snapshots = 0
        self._text = ""

    def add(self, event: events.RpcEvent) -> None:
        match event:
            case events.MessageStart(message=events.Assistant()):
                self._text = ""
            case events.MessageUpdate(assistant_message_event=events.TextDelta(delta=text)):
                self._text += text
            case events.MessageEnd(message=events.Assistant() as message):
                self.wrong += message.text != self._text
                self.texts.append(message.text)
            case events.Snapshot():
                self.snapshots += 1
                self._text = _partial_text(event.partial)


def _partial_text(partial: Any) -> str:
    blocks = partial["content"] if partial else []
    return "".join(block["text"] for block in blocks if block["type"] == "text")


@dataclass
class Outcome:
    connections: int = 0
    prompts: int = 0
    snapshots: int = 0
    wrong_texts: int = 0
    unexpected: list[str] = field(default_factory=list)


RUN = "agent_start turn_start message_start message_end message_start message_end turn_end agent_end agent_settled"


async def reconnect_often(served: SocketHost, times: int, rng: random.Random, *, forget: bool = False) -> Outcome:
    """Prompt until the connection was cut this often, at random places. With `forget`, the host cannot resume."""

    def cuts() -> Iterator[int]:
        yield UNCUT  # this one opens the session
        for _ in range(times):
            yield rng.randrange(20_000, 60_000) if forget else rng.randrange(800, 4000)  # a snapshot must fit
        yield from repeat(UNCUT)

    served.cuts_out, served.forget = cuts(), forget
    before, outcome, heard = served.connections, Outcome(), Heard()
    async with RpcClient.connect(served.url, open={"memory": True}) as agent:
        agent.on_event(heard.add)
        while served.connections - before < times:
            told = await agent.prompt_and_wait("go on", timeout=60)
            kinds = " ".join(type_of(event) for event in told if not isinstance(event, events.MessageUpdate))
            if kinds != RUN and not forget:
                outcome.unexpected.append(kinds)
            outcome.prompts += 1
        roles = [raw(message)["role"] for message in await agent.get_messages()]
        if roles != ["user", "assistant"] * outcome.prompts:
            outcome.unexpected.append(" ".join(roles))
    outcome.connections, outcome.snapshots = served.connections - before, heard.snapshots
    outcome.wrong_texts = heard.wrong
    return outcome

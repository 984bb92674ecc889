"""A client that lends tools and does anything at any time: sets, results, progress, aborts, other sessions.

    python tests/long/fuzz_host_tools.py [STEPS] [SEED]        (make fuzz)

Every request ends once: with a result that was accepted, or cancelled. Every call that starts ends, every prompt
settles, and what comes too late is refused. tests/rpc/test_host_tools.py does some steps.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.rpc_conversation import Json
from support.rpc_memory import Agent

NAMES = ("a", "b", "c", "d")
CONTENTS: list[Any] = [
    "text",
    "",
    "x\n" * 3000,
    [{"type": "text", "text": "block"}],
    [],
    5,
    None,
    [{"type": "image", "data": "!", "mimeType": "image/png"}],
    {"type": "text"},
]


class Client:
    def __init__(self, agent: Agent, chance: Random) -> None:
        self._agent = agent
        self._chance = chance
        self._seen = 0
        self.open: list[str] = []
        self.ends: dict[str, list[str]] = {}  # by request: how it ended
        self.running = False

    def step(self) -> None:
        self._read()
        action = self._chance.choices(
            [self._prompt, self._answer, self._progress, self._lend, self._abort, self._leave, self._late],
            [6, 10, 3, 3, 1, 1, 1],
        )[0]
        action()

    def finish(self) -> None:
        """Answer everything until the last prompt has settled."""
        self._agent.get("set_tools", tools=[])
        self._agent.get("abort")
        self._read()

    def _read(self) -> None:
        events = self._agent.events[self._seen :]
        self._seen += len(events)
        for event in events:
            match event:
                case {"type": "tool_request", "id": id}:
                    self.open.append(id)
                    self.ends[id] = []
                case {"type": "tool_request_cancelled", "id": id, "reason": reason}:
                    self.ends[id].append(reason)
                    if id in self.open:
                        self.open.remove(id)
                case {"type": "agent_settled"}:
                    self.running = False

    def _prompt(self) -> None:
        if not self.running:
            self.running = self._agent.ask("prompt", message="go")["success"]

    def _answer(self) -> None:
        if self.open:
            id = self._chance.choice(self.open)
            error = self._chance.random() < 0.3
            content = self._chance.choice(CONTENTS)
            response = self._agent.ask("tool_result", requestId=id, content=content, isError=error, details={"n": 1})
            if response["success"]:
                self.ends[id].append("result")
                self.open.remove(id)

    def _progress(self) -> None:
        if self.open:
            self._agent.ask("tool_progress", requestId=self._chance.choice(self.open), content="half")

    def _lend(self) -> None:
        names = self._chance.sample(NAMES, self._chance.randrange(len(NAMES) + 1))
        tools = [self._tool(name) for name in names]
        self._agent.get("set_tools", tools=tools)

    def _tool(self, name: str) -> Json:
        tool: Json = {"name": name, "description": name, "parameters": {"type": "object"}}
        return {**tool, "timeoutMs": self._chance.choice([1, 5])} if self._chance.random() < 0.2 else tool

    def _abort(self) -> None:
        self._agent.get("abort")

    def _leave(self) -> None:
        self._agent.get("new_session")

    def _late(self) -> None:
        ended = [id for id, how in self.ends.items() if how]
        if ended:
            late = self._agent.ask("tool_result", requestId=self._chance.choice(ended), content="late")
            assert not late["success"], late


def answers(chance: Random, count: int) -> list[Json]:
    """Answers of the model: some calls, of tools that may be there, then a text."""
    made: list[Json] = []
    for number in range(count):
        names = chance.choices([*NAMES, "ls"], k=chance.randrange(1, 5))
        calls = [{"tool": name, "arguments": {}, "id": f"call_{number}_{at}"} for at, name in enumerate(names)]
        made.append({"blocks": calls} if chance.random() < 0.8 else {"text": "ok"})
    return [*made, {"text": "ok"}]


def run(folder: Path, steps: int, seed: int) -> None:
    chance = Random(seed)
    settings = {"toolExecution": chance.choice(["parallel", "sequential"])}
    with Agent(folder, *answers(chance, steps), settings=settings) as agent:
        client = Client(agent, chance)
        agent.get("set_tools", tools=[{"name": "a", "description": "a", "parameters": {"type": "object"}}])
        for _ in range(steps):
            client.step()
        client.finish()
        assert all(len(how) == 1 for how in client.ends.values()), client.ends
        starts = [event["toolCallId"] for event in agent.events if event["type"] == "tool_execution_start"]
        ends = [event["toolCallId"] for event in agent.events if event["type"] == "tool_execution_end"]
        assert sorted(starts) == sorted(ends)
        agent.close()
        assert agent.exit_code() == 0


def main() -> int:
    steps, seed = (*map(int, sys.argv[1:3]), *(20_000, 0)[len(sys.argv) - 1 :])[:2]
    for at in range(0, steps, 200):
        with tempfile.TemporaryDirectory() as folder:
            run(Path(folder), min(200, steps - at), seed + at)
    print(f"{steps} steps")
    return 0


if __name__ == "__main__":
    sys.exit(main())

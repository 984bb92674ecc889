"""Commands that meet, by the thousand: in bursts, in whatever a session is doing, with an end right behind them.

    python tests/long/meetings.py [ROUNDS] [--seed SEED]

Each round is a process with a model that is slow, calls tools, fails and has to be
asked again, and an extension that thinks, asks and takes its time when sessions
come and go. It is told bursts of commands, drawn by the seed, and left by the end
of stdin, a signal or a kill. What has to hold, whatever meets:

- every command is answered once, and soon after an abort nothing runs;
- every agent_start has its agent_end, and no event of a run stands outside of one;
- what was acknowledged is in a session file, once; what is queued is told truly;
- whoever goes on with the last session finds waiting what was waiting.

When it was told which things happened is not decided by the seed, so a seed that
found something finds it often, not always.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import tempfile
import textwrap
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.rpc_process import Agent, Json, calls

ROUNDS = 30
BURSTS = 12  # of a round
SOON = 20.0  # seconds for whatever is not meant to take any
INSIDE = ("message_start", "message_update", "message_end", "turn_start", "turn_end", "tool_execution_start")
MOVES = ("new_session", "fork", "clone")  # and not switch_session, which may go to where it is
SETTINGS: Json = {
    "retry": {"baseDelayMs": 50, "maxRetries": 2},
    "compaction": {"keepRecentTokens": 1, "enabled": False},
}

EXTENSION = """
    import asyncio, random

    dice = random.Random({seed})

    def setup(pi):
        @pi.on("input")
        async def heard(event, ctx):
            if dice.random() < 0.3:
                await asyncio.sleep(0.03 * dice.random())

        @pi.on("tool_call")
        async def gate(event, ctx):
            if dice.random() < 0.3:
                await ctx.ui.confirm("May it?", "Say yes or no.", timeout=300)

        for name in ("session_before_switch", "session_before_fork", "session_shutdown", "session_start", "agent_end"):
            @pi.on(name)
            async def slow(event, ctx, name=name):
                if dice.random() < 0.4:
                    await asyncio.sleep(0.05 * dice.random())
                if name == "session_shutdown" and dice.random() < 0.2:
                    pi.send_message(
                        {{"customType": "note", "content": "last words", "display": True}}, trigger_turn=True
                    )
    """


class Wrong(Exception):
    """What must not happen did."""


class Round:
    """One process from its start to its end, and what it owes."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.dice = random.Random(seed)
        self.folder = folder
        self.did = Counter[str]()
        self._number = 0
        self._sent: dict[str, Json] = {}
        args = ["--session-dir", str(folder / "sessions")]
        if self.dice.random() < 0.7:
            (folder / "slow.py").write_text(textwrap.dedent(EXTENSION.format(seed=seed)))
            args += ["-e", str(folder / "slow.py")]
        self.agent = Agent(folder, *(self._answer() for _ in range(400)), settings=SETTINGS, args=args)

    def _answer(self) -> Json:
        kind = self.dice.random()
        if kind < 0.35:
            return {"text": "word ", "repeat": self.dice.randrange(1, 60), "delayMs": self.dice.choice((0, 1, 5))}
        if kind < 0.7:
            commands = [f"sleep {0.1 * self.dice.random():.3f}; echo x" for _ in range(self.dice.randrange(1, 3))]
            return calls(*commands)
        if kind < 0.85:
            return {"error": {"message": "529 overloaded"}}
        return {"text": "many words " * self.dice.choice((1, 400))}

    # What is said.

    def _command(self) -> Json:
        self._number += 1
        text = f"text {self._number}."
        kinds: list[Json] = [
            *({"type": "prompt", "message": text},) * 4,
            {"type": "prompt", "message": text, "streamingBehavior": "steer"},
            {"type": "prompt", "message": text, "streamingBehavior": "followUp"},
            *({"type": "steer", "message": text}, {"type": "follow_up", "message": text}) * 2,
            *({"type": "abort"},) * 2,
            *({"type": kind} for kind in ("compact", "abort_retry", "clear_queue", "new_session", "clone")),
            *({"type": kind} for kind in ("get_state", "get_messages", "cycle_thinking_level", "abort_bash")),
            {"type": "bash", "command": f"sleep {0.1 * self.dice.random():.3f}; echo {text}"},
            {"type": "set_session_name", "name": text},
            {"type": "fork", "entryId": (entry := self.dice.choice(self._fork_points() or ["none"]))},
            {"type": "navigate", "entryId": entry, "summarize": self.dice.random() < 0.5},
        ]
        if files := sorted((self.folder / "sessions").rglob("*.jsonl")):
            kinds.append({"type": "switch_session", "sessionPath": str(self.dice.choice(files))})
        return self.dice.choice(kinds)

    def _fork_points(self) -> list[str]:
        return [
            entry["id"]
            for response in self.agent.responses[-20:]
            if response["command"] == "get_entries" and response["success"]
            for entry in response["data"]["entries"]
            if entry["type"] == "message" and entry["message"]["role"] == "user"
        ]

    def burst(self) -> None:
        commands = [self._command() for _ in range(self.dice.randrange(1, 6))]
        for command in commands:
            self._sent[f"m{len(self._sent)}"] = command
            command["id"] = f"m{len(self._sent) - 1}"
            self.did[command["type"]] += 1
        self.agent.write(b"".join(json.dumps(command).encode() + b"\n" for command in commands))
        time.sleep(self.dice.choice((0, 0.02, 0.1, 0.3)) * self.dice.random())

    # What has to hold.

    def rest(self) -> Json:
        """Let it come to rest, and look at it; its state."""
        agent = self.agent
        for _ in range(2):  # the first may overtake what waits for an extension, and then begins
            agent.ask("abort", within=SOON)
            agent.ask("abort_bash", within=SOON)
            for id in self._sent:
                agent.response(id, within=SOON)
        until = time.monotonic() + SOON
        while (state := agent.get("get_state"))["isStreaming"] or state["isCompacting"] or not _settled(agent.events):
            if time.monotonic() > until:
                raise Wrong(f"it does not come to rest: {state}")
            time.sleep(0.01)
        self._told()
        queue = [*agent.get("clear_queue").values()] if self.dice.random() < 0.5 else None
        if queue is not None and sum(map(len, queue)) != state["pendingMessageCount"]:
            raise Wrong(f"{state['pendingMessageCount']} were said to wait, and {queue} waited")
        self.agent.get("get_entries")
        return agent.get("get_state")

    def _told(self) -> None:
        inside, opening = False, ""  # the role of the first message of what is run
        for record in self.agent.records:
            kind = record["type"]
            if kind == "agent_start":
                if inside:
                    raise Wrong("a run began in another")
                inside = True
            elif kind == "agent_end":
                if not inside:
                    raise Wrong("a run ended that had not begun")
                inside = False
            elif kind == "agent_settled":
                opening = ""
            elif kind in INSIDE and not inside and record.get("message", {}).get("role") != "custom":
                raise Wrong(f"{kind} outside of a run")
            elif kind == "message_start" and not opening:
                opening = record["message"]["role"]
            elif record.get("command") in MOVES and inside and record.get("data", {}).get("cancelled") is False:
                if opening == "custom":
                    continue  # an extension whose last words were cut short says them where we are by then
                raise Wrong(f"{record['command']} was done, and the run before it goes on")
        if inside:
            raise Wrong("a run without an end")
        again = [id for id, count in Counter(one.get("id") for one in self.agent.responses).items() if count > 1 and id]
        if again:
            raise Wrong(f"answered more than once: {again}")

    def kept(self, *, dead: bool) -> None:
        """Whatever was acknowledged is in a file, and in none twice."""
        files = {path: _lines(path) for path in (self.folder / "sessions").rglob("*.jsonl")}
        said = {path: Counter(_said(lines)) for path, lines in files.items()}
        noted = {text for lines in files.values() for text in _noted(lines)}
        for id, command in self._sent.items():
            response = self.agent._by_id.get(id)
            text = command.get("message")
            if response is None or not response["success"] or text is None:
                continue
            places = [path for path, texts in said.items() if text in texts]
            if any(said[path][text] > 1 for path in places):
                raise Wrong(f"{text} was said twice in a session")
            queued = command["type"] != "prompt" or "streamingBehavior" in command or dead or text in noted
            if not places and (not queued or text not in noted):
                raise Wrong(f"{text} ({command}) was acknowledged, and is nowhere")

    def end(self) -> None:
        ending = self.dice.choice(("eof", "eof", "term", "kill"))
        state = self.rest()
        if self.dice.random() < 0.6:
            self.burst()
            state = {}
        self.did[ending] += 1
        if ending == "eof":
            self.agent.close()
        else:
            self.agent.signal(signal.SIGTERM if ending == "term" else signal.SIGKILL)
        self.agent.exit_code(within=2 * SOON)
        if ending == "eof":
            missing = [id for id in self._sent if id not in self.agent._by_id]
            if missing:
                raise Wrong(f"never answered: {[self._sent[id] for id in missing]}")
            self._told()
        self.kept(dead=True)
        if state and (file := state.get("sessionFile")) and Path(file).exists():
            with Agent(self.folder, args=["--session", file]) as next_one:
                waiting = next_one.get("get_state")["pendingMessageCount"]
            if waiting != state["pendingMessageCount"]:
                raise Wrong(f"{state['pendingMessageCount']} messages waited, and {waiting} are found again")


def _settled(events: list[Json]) -> bool:
    last = next((event["type"] for event in reversed(events) if event["type"] in ("agent_start", "agent_settled")), "")
    return last != "agent_start"


def _lines(path: Path) -> list[Json]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def _said(lines: list[Json]) -> list[str]:
    messages = [line["message"] for line in lines if line["type"] == "message"]
    return [message["content"][0]["text"] for message in messages if message["role"] == "user"]


def _noted(lines: list[Json]) -> list[str]:
    queued = [line["data"]["message"] for line in lines if line.get("customType") == "tau.queued"]
    return [message["content"][0]["text"] for message in queued if message["role"] == "user"]


def play(seed: int) -> Counter[str]:
    """One round. Raises Wrong, or AssertionError with what was said."""
    with tempfile.TemporaryDirectory(prefix="tau-meetings-") as scratch:
        round = Round(Path(scratch), seed)
        with round.agent:
            try:
                for at in range(BURSTS):
                    round.burst()
                    if at % 4 == 3:
                        round.rest()
                        round.kept(dead=False)
                round.end()
            except Wrong as wrong:
                raise AssertionError(f"{wrong}\n{round.agent.transcript()}") from None
    return round.did


def main() -> int:
    parser = argparse.ArgumentParser(description="Let commands meet.")
    parser.add_argument("rounds", nargs="?", type=int, default=ROUNDS)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    given = parser.parse_args()
    did = Counter[str]()
    wrong = 0
    for seed in range(given.seed, given.seed + given.rounds):
        try:
            did += play(seed)
        except AssertionError as error:
            wrong += 1
            print(f"--seed {seed}: {error}", file=sys.stderr)
    print(f"{given.rounds} rounds from --seed {given.seed}, {wrong} wrong: {dict(did.most_common())}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

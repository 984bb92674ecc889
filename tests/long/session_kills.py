"""Kill the agent at random moments of its runs: what it acknowledged or told is in the session, once.

    python tests/long/session_kills.py [KILLS] [--seed SEED]

One session lives through all of it. Each life opens it, is asked for a run with
tools, is told more while that goes on, and is killed (SIGKILL) after some record
or other; some are killed while they open it. The next life must have every message_end that was heard and every
prompt, steer and follow_up that was acknowledged; the last one is let live until
nothing waits any more, and then each acknowledged text was said exactly once.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.rpc_process import Agent, Json, calls, text

KILLS = 200
MOST_EVENTS = 60  # of a run before the kill; a whole one has some more
LONGEST_WAIT = 0.004  # seconds on top, so that a kill is not always just behind a record
STILLBORN = 0.08  # of the lives end before they are asked for anything
LONGEST_BIRTH = 0.4  # seconds


class Figures(NamedTuple):
    kills: int
    prompts: int
    queued: int
    message_ends: int
    entries: int


class Lost(Exception):
    """Something that was acknowledged or told is not there."""


class Promises:
    """What the lives so far acknowledged and told."""

    def __init__(self) -> None:
        self.prompts: list[str] = []
        self.queued: list[str] = []
        self.ended: list[Json] = []

    def hear(self, agent: Agent, asked: dict[str, tuple[str, str]]) -> None:
        for response in agent.responses:
            if response["success"] and (sent := asked.get(response["id"])):
                (self.prompts if sent[0] == "prompt" else self.queued).append(sent[1])
        self.ended += [event["message"] for event in agent.events if event["type"] == "message_end"]

    def check(self, entries: list[Json]) -> None:
        said = {_key(entry["message"]) for entry in entries if entry["type"] == "message"}
        waiting = [entry["data"]["message"] for entry in entries if entry.get("customType") == "tau.queued"]
        known = {text(json.loads(message)) for message in said if '"role": "user"' in message}
        known |= {text(message) for message in waiting}
        lost = [prompt for prompt in (*self.prompts, *self.queued) if prompt not in known]
        lost += [_key(message) for message in self.ended if _key(message) not in said]
        if lost:
            raise Lost(f"{len(lost)} lost: {lost[:3]}")

    def check_said(self, messages: list[Json]) -> None:
        """In the end, everything was said, and once."""
        counted = Counter(text(message) for message in messages if message["role"] == "user")
        wrong = {prompt: counted[prompt] for prompt in (*self.prompts, *self.queued) if counted[prompt] != 1}
        if wrong:
            raise Lost(f"said another number of times than once: {wrong}")


def _key(message: Json) -> str:
    return json.dumps(message, sort_keys=True)


def script() -> list[Json]:
    """Runs with several turns, tools and pieces, and time to be killed in."""
    turn: Json = {"blocks": [{"text": ["some ", "thing ", "to ", "say"]}, *calls("echo one; echo two >&2")["blocks"]]}
    return [{**turn, "delayMs": 1}] * 4 + [{"blocks": [{"text": ["do", "ne"]}], "delayMs": 2}]


def life(folder: Path, session: Path, chance: random.Random, number: int, promises: Promises) -> None:
    agent = Agent(folder, *script(), args=["--session", str(session)])
    try:
        if chance.random() < STILLBORN:
            time.sleep(chance.random() * LONGEST_BIRTH)
            agent.signal(signal.SIGKILL)
            return
        promises.check(agent.get("get_entries")["entries"])
        agent.forget()
        asked = {agent.send("prompt", message=f"prompt {number}"): ("prompt", f"prompt {number}")}
        left = chance.randrange(MOST_EVENTS)
        for more in range(chance.randrange(4)):
            some = chance.randrange(left + 1)
            left -= some
            agent.until(_after(some))
            kind = chance.choice(["steer", "follow_up"])
            message = f"{kind} {number}.{more}"
            asked[agent.send(kind, message=message)] = (kind, message)
        agent.until(_after(left))
        time.sleep(chance.random() * LONGEST_WAIT)
        agent.signal(signal.SIGKILL)
        agent.exit_code()
        promises.hear(agent, asked)
    finally:
        agent.end()


def _after(count: int) -> Callable[[Json], bool]:
    """True at the event of that number, or when there will be no more."""
    heard = 0

    def enough(event: Json) -> bool:
        nonlocal heard
        heard += 1
        return heard > count or event["type"] == "agent_settled"

    return enough


def is_torn(problem: str) -> bool:
    return ": unreadable, skipped" in problem


def last_life(folder: Path, session: Path, promises: Promises) -> int:
    with Agent(folder, args=["--session", str(session)]) as agent:
        promises.check(agent.get("get_entries")["entries"])
        agent.prompt("the end")
        state: Any = agent.get("get_state")
        if state["pendingMessageCount"]:
            raise Lost(f"{state['pendingMessageCount']} messages still wait")
        # A kill in the middle of a write may leave half a line. Nobody was told of that entry, and everything else is
        # there: that was checked. No other damage can come from a kill.
        told = [event for event in agent.events if event["type"].startswith("session_")]
        if damaged := [event for event in told if not all(map(is_torn, event.get("problems", ["?"])))]:
            raise Lost(f"a kill damaged the session: {damaged}")
        entries = agent.get("get_entries")["entries"]
        promises.check(entries)
        promises.check_said(agent.get("get_messages")["messages"])
        return len(entries)


def kills(amount: int, seed: int | str, folder: Path) -> Figures:
    """Raises Lost, or AssertionError when a life does not even begin."""
    promises, chance = Promises(), random.Random(seed)
    session = folder / "session.jsonl"
    for number in range(amount):
        life(folder, session, chance, number, promises)
    entries = last_life(folder, session, promises)
    return Figures(amount, len(promises.prompts), len(promises.queued), len(promises.ended), entries)


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill the agent at random and look for what is lost.")
    parser.add_argument("kills", type=int, nargs="?", default=KILLS)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    given = parser.parse_args()
    print(f"{given.kills} kills, --seed {given.seed}", flush=True)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tau-kills-") as scratch:
        try:
            figures = kills(given.kills, given.seed, Path(scratch).resolve())
        except (Lost, AssertionError) as error:
            print(error, file=sys.stderr)
            return 1
    for name, figure in figures._asdict().items():
        print(f"{name.replace('_', ' '):14}{figure:>12,}")
    print(f"{'seconds':14}{time.monotonic() - started:>12.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

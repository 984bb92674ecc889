"""Random cases for the schedule fuzzer: what is asked of a session, when, and how its surroundings behave.

A case is JSON and depends on its seed alone. An operation has

    do     what is asked: a command of a client, "act NAME" for an action of an extension, or "close"
    n      its number, which is part of its texts, so that each text is unique
    at     the virtual time at which it arrives, in seconds; or
    on     [EVENT, COUNT, PASSES]: it arrives so many passes of the loop after the event has happened so often. Events
           are those of the wire, "hook NAME", "log" (another session is current), and "ask NAME" (another operation)

An operation at an event is what finds races: the client or an extension acts while the session is in the middle of
something. `make_small` removes operations from a case as long as it still breaks the same rule.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

Json = dict[str, Any]

SETTINGS: tuple[Json, ...] = (
    {},
    {"steeringMode": "all", "followUpMode": "all", "toolExecution": "parallel", "steerAfter": "turn"},
    {"streamingUntil": "settled", "keepBashAfter": "run", "retrySuccess": "run", "bashUpdates": True},
)
BASE: Json = {
    "retry": {"maxRetries": 2, "baseDelayMs": 200},
    "compaction": {"keepRecentTokens": 1},
}
EVENTS = (
    *("agent_start", "turn_start", "message_start", "message_update", "message_end", "tool_execution_start"),
    *("tool_execution_end", "turn_end", "agent_end", "agent_end", "agent_settled", "agent_settled", "queue_update"),
    *("auto_retry_start", "auto_retry_start", "auto_retry_end", "compaction_start", "compaction_end"),
    *("hook session_shutdown", "hook session_start", "hook session_before_switch", "hook input", "hook agent_end"),
    *("hook agent_end", "hook turn_end", "log", "log"),
    *("ask switch", "ask switch", "ask switch", "ask compact", "ask reload", "ask reload", "ask abort"),
)
SWITCHES = {"new_session", "switch_session", "fork", "clone", "act new_session", "act switch_session", "act fork"}
OPERATIONS: dict[str, int] = {
    "prompt": 14,
    "steer": 9,
    "follow_up": 6,
    "abort": 5,
    "clear_queue": 3,
    "new_session": 4,
    "switch_session": 3,
    "fork": 2,
    "clone": 2,
    "navigate": 3,
    "compact": 4,
    "set_model": 1,
    "cycle_model": 2,
    "set_thinking_level": 2,
    "set_session_name": 4,
    "bash": 5,
    "abort_bash": 2,
    "abort_retry": 2,
    "get_state": 1,
    "get_messages": 1,
    "command": 3,
    "act send_message": 4,
    "act send_user_message": 3,
    "act append_entry": 1,
    "act set_session_name": 2,
    "act new_session": 1,
    "act switch_session": 1,
    "act fork": 1,
    "act compact": 1,
    "act abort": 1,
    "act reload": 3,
    "act wait_for_idle": 1,
}
HOOKS = (
    *("input", "before_agent_start", "context", "tool_call", "tool_result", "agent_end", "turn_end", "agent_settled"),
    *("session_before_switch", "session_before_fork", "session_before_tree", "session_shutdown", "session_start"),
    *("session_before_compact", "session_compact", "user_bash", "model_select", "message_end", "session_switch"),
    *("agent_end", "turn_end"),
)
LEVELS = ("off", "low", "high")
TIMES = (0.0, 0.0, 0.01, 0.05, 0.2, 0.5, 1.0, 2.0)


def case(seed: int) -> Json:
    random = Random(seed)
    extensions = random.choice(("none", "function", "function", "process", "process", "both"))
    operations, hooks = _operations(random), _hooks(random)
    if random.random() < 0.5:
        _crowd(random, operations, hooks)
    full = [random.choice((0.0, 0.1, 0.5)), random.choice((0.3, 1.0, 3.0))] if random.random() < 0.12 else []
    if full:  # what waits for room when the session closes is lost, and the client knows it
        operations = [one for one in operations if one["do"] != "close"]
    return {
        "seed": seed,
        "full": full,  # from when, and for how long, nothing can be written
        "stall": random.choice((0.0, 0.02, 0.2)),
        "settings": random.randrange(len(SETTINGS)),
        "extensions": extensions,
        "backpressure": random.choice((0.0, 0.0, 0.1, 0.5)),  # how often the client is slow to take an event
        "hooks": hooks if extensions != "none" else {},
        "answers": [_answer(random, at) for at in range(random.randint(1, 8))] + [{"text": "ok"}],
        "operations": operations,
    }


def _operations(random: Random) -> list[Json]:
    kinds, weights = list(OPERATIONS), list(OPERATIONS.values())
    made: list[Json] = [{"do": "prompt", "n": 0, "at": 0.0}]
    moment = 0.0
    for number in range(1, random.randint(4, 13)):
        operation: Json = {"do": random.choices(kinds, weights)[0], "n": number, "pick": random.randrange(100)}
        if random.random() < 0.45:
            operation["on"] = [random.choice(EVENTS), random.choice((1, 1, 1, 2, 2, 3, 5)), random.randrange(6)]
        else:
            moment += random.choice(TIMES)
            operation["at"] = moment
        made.append(operation)
    if random.random() < 0.5:
        close: Json = {"do": "close", "n": 99, "pick": 0}
        if random.random() < 0.5:
            close["on"] = [random.choice(EVENTS), random.choice((1, 2, 3)), random.randrange(6)]
        else:
            close["at"] = random.uniform(0.0, moment + 1.0)
        made.append(close)
    return made


def _crowd(random: Random, operations: list[Json], hooks: Json) -> None:
    """Let some operations arrive while another one, which takes a while, is under way."""
    long = random.choice(
        ("new_session", "new_session", "switch_session", "clone", "fork", "compact", "act reload", "navigate")
    )
    among = operations[1:]
    anchor = random.choice(among)
    anchor["do"], event = long, "ask switch" if long in SWITCHES else f"ask {long.removeprefix('act ')}"
    if "on" not in anchor and random.random() < 0.5:
        anchor["at"] = random.choice((0.02, 0.3, 1.5))
    for operation in random.sample(among, min(len(among), random.randint(1, 4))):
        if operation is not anchor and operation["do"] != "close":
            operation.pop("at", None)
            operation["on"] = [event, 1, random.randrange(12)]
            if random.random() < 0.5:
                operation["do"] = random.choice(
                    ("set_session_name", "set_session_name", "steer", "prompt", "bash", long)
                )
    for hook in random.sample(("session_before_switch", "session_shutdown", "session_start", "session_before_fork"), 2):
        if random.random() < 0.6:
            hooks[hook] = [random.choice((0.01, 0.1)), None]


def _hooks(random: Random) -> Json:
    """By hook: the seconds that its handler takes, and what it does: answer, fail, ask the user, send a message."""
    chosen = random.sample(HOOKS, random.randint(0, 6))
    does = (None, None, None, "fail", "send", "send_turn", "cancel", "name", "crash", "ask", "ask")
    return {hook: [random.choice((0.0, 0.0, 0.01, 0.1, 0.7)), random.choice(does)] for hook in chosen}


def _answer(random: Random, turn: int) -> Json:
    timing: Json = {}
    if random.random() < 0.6:
        timing["startDelayMs"] = random.choice((10, 50, 200, 1000))
    if random.random() < 0.4:
        timing["delayMs"] = random.choice((5, 30, 100))
    if random.random() < 0.12:
        timing["usage"] = {"input": 95_000}  # the window is 100,000: a compaction is due
    kind = random.random()
    if kind < 0.2:
        return {"text": "no", "error": {"message": "529 overloaded", "after": random.choice((0, 0, 1))}, **timing}
    if kind < 0.25:
        return {"text": "never", "hangAfter": random.choice((0, 1)), **timing}
    if kind < 0.30:
        return {"text": "no", "error": {"message": "invalid request", "after": 0}, **timing}
    if kind < 0.35:
        return {"text": "no", "error": {"message": "prompt is too long: 9 tokens > 8 maximum"}, **timing}
    if kind < 0.6:
        calls = [
            {"tool": "bash", "arguments": {"command": f"work {random.choice((0.0, 0.05, 0.4))} t{turn}.{call}"}}
            for call in range(random.choice((1, 1, 2, 3)))
        ]
        return {"blocks": [{"text": "so"}, *calls], **timing}
    return {"blocks": [{"text": ["a", "b", "c"][: random.randint(1, 3)]}], **timing}


def make_small(found: Json, breaks: Callable[[Json], bool]) -> Json:
    """Remove what is not needed for the case to break the same rule, as `breaks` tells."""
    small = found
    for name in ("operations", "answers"):
        at = len(small[name]) - (2 if name == "answers" else 1)  # the last answer is repeated, so it must call no tool
        while at >= 0 and len(small[name]) > 1:
            smaller = {**small, name: small[name][:at] + small[name][at + 1 :]}
            if breaks(smaller):
                small = smaller
            at -= 1
    for hook in list(small["hooks"]):
        smaller = {**small, "hooks": {name: does for name, does in small["hooks"].items() if name != hook}}
        small = smaller if breaks(smaller) else small
    for name, plain in (
        *(("extensions", "none"), ("backpressure", 0.0), ("stall", 0.0), ("settings", 0), ("full", [])),
    ):
        if small[name] != plain and breaks({**small, name: plain}):
            small = {**small, name: plain}
    return small

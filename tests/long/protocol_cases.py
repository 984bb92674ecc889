"""Random cases for the model-based test: settings, what the model says, and what the client does.

A case is plain JSON and depends on its seed alone, so it can be made smaller by leaving out parts of it:

    {"settings": {...}, "scripts": [[ANSWER, ...], ...], "steps": [STEP, ...]}

    {"burst": [COMMAND, ...], "wait": WAIT}     commands in one write, then wait
    {"restart": {"session": 3, "model": "large"}}   end the process and start another

Commands refer to entries and sessions by number, since their ids are not known in advance.
WAIT is the type of an event, or one of
    none        go on at once
    look        look at everything at once
    responses   until all commands are answered
    idle        until nothing runs, then look at everything
Every wait also ends when nothing more can come.
"""

from __future__ import annotations

import random
from typing import Any

from long.protocol_answers import HANG, SLEEP
from long.protocol_rules import Json
from long.protocol_setup import IDS, LEVELS, PROVIDER

Random = random.Random

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
IMAGE = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
WAITS = {
    "none": 12,
    "look": 14,
    "responses": 14,
    "idle": 30,
    "message_start": 4,
    "message_update": 8,
    "tool_execution_start": 8,
    "turn_end": 3,
    "agent_end": 4,
    "agent_settled": 6,
    "auto_retry_start": 5,
    "auto_compaction_start": 3,
}


def case(seed: int | str) -> Json:
    chance = Random(f"protocol {seed}")
    lives = chance.choice([1, 1, 2, 2, 3])
    steps: list[Json] = []
    count = 0
    for life in range(lives):
        if life:
            steps.append({"restart": _restart(chance)})
        for _ in range(chance.randint(3, 9)):
            burst = []
            for _ in range(chance.choice([1, 1, 1, 2, 2, 3, 4, 5])):
                count += 1
                burst.append(command(chance, f"text {count}."))
            steps.append({"burst": burst, "wait": _weighted(chance, WAITS)})
    scripts = [script(chance, life) for life in range(lives)]
    return {"settings": settings(chance), "scripts": scripts, "steps": steps}


def _weighted(chance: Random, weights: dict[Any, int]) -> Any:
    return chance.choices(list(weights), list(weights.values()))[0]


def _restart(chance: Random) -> Json:
    restart: Json = {}
    if chance.random() < 0.8:
        restart["session"] = chance.randrange(8)
    if chance.random() < 0.5:
        restart["model"] = chance.choice(IDS)
    return restart


# Settings.


def settings(chance: Random) -> Json:
    made: Json = {
        "retry": {"maxRetries": chance.choice([0, 1, 2, 3]), "baseDelayMs": chance.choice([1, 1, 3, 5000])},
        "compaction": {"keepRecentTokens": chance.choice([1, 5, 40, 20000]), "betweenTurns": chance.random() < 0.7},
    }
    for name, values in (
        ("steerAfter", ("tool", "turn")),
        ("announceAnswer", ("asked", "begun")),
        ("retrySuccess", ("answer", "run")),
        ("streamingUntil", ("end", "settled")),
        ("keepBashAfter", ("prompt", "run")),
        ("toolExecution", ("sequential", "parallel")),
        ("steeringMode", ("one-at-a-time", "all")),
        ("followUpMode", ("one-at-a-time", "all")),
        ("defaultThinkingLevel", ("off", "low", "high")),
    ):
        if chance.random() < 0.4:
            made[name] = chance.choice(values)
    for name in ("retry", "compaction"):
        if chance.random() < 0.15:
            made[name]["enabled"] = False
    return made


# The model.


def script(chance: Random, life: int) -> list[Json]:
    answers = [answer(chance, f"[a{life}.{at}]") for at in range(30)]
    return [*answers, {"text": f"[a{life}.30] the last answer"}]


def answer(chance: Random, mark: str) -> Json:
    kind = _weighted(
        chance,
        {"text": 30, "thinking": 8, "tools": 26, "error": 12, "overflow": 4, "hang": 6, "length": 4, "empty": 3},
    )
    made: Json = globals()[f"_{kind}"](chance, mark)
    size = chance.choice([10, 30, 200, 2000, 95_000 if chance.random() < 0.5 else 50])
    made["usage"] = {"input": size, "output": chance.randint(1, 40), "cacheRead": chance.choice([0, 7])}
    if chance.random() < 0.3:
        made["delayMs"] = chance.choice([1, 3])
    return made


def _pieces(chance: Random, mark: str) -> list[str]:
    return [mark, *(f" piece {at}" for at in range(chance.randint(0, 4)))]


def _text(chance: Random, mark: str) -> Json:
    return {"blocks": [{"text": _pieces(chance, mark)}]}


def _thinking(chance: Random, mark: str) -> Json:
    return {"blocks": [{"thinking": ["Hm", ", so."], "signature": "s"}, {"text": _pieces(chance, mark)}]}


def _tools(chance: Random, mark: str) -> Json:
    blocks: list[Json] = [{"text": [mark]}] if chance.random() < 0.5 else []
    for at in range(chance.choice([1, 1, 2, 3])):
        blocks.append({**_call(chance), "id": f"call_{mark[1:-1]}_{at}"})
    return {"blocks": blocks}


def _call(chance: Random) -> Json:
    kind = _weighted(chance, {"quick": 6, "ls": 3, "missing": 2, "unknown": 1, "raw": 1, "wrong": 1, "sleep": 1})
    match kind:
        case "quick":
            command = chance.choice(["echo tool", "echo a; sleep 0.01; echo b", "sleep 0.02", "exit 4"])
            return {"tool": "bash", "arguments": {"command": command}}
        case "ls":
            return {"tool": "read", "arguments": {"path": "notes.txt"}}
        case "missing":
            return {"tool": "read", "arguments": {"path": "nowhere.txt"}}
        case "unknown":
            return {"tool": "rocket", "arguments": {"speed": 1}}
        case "raw":
            return {"tool": "bash", "arguments": ['{"comm', 'and": "ec']}
        case "wrong":
            return {"tool": "write", "arguments": {"path": 7}}
    return {"tool": "bash", "arguments": {"command": SLEEP}}


def _error(chance: Random, mark: str) -> Json:
    transient = chance.random() < 0.75
    error: Json = {"message": f"{'529 overloaded' if transient else '401 no such key'} {mark}"}
    if chance.random() < 0.4:
        error["after"] = 1
    if transient and chance.random() < 0.15:
        error["retryAfterMs"] = chance.choice([2, 90_000])
    return {"blocks": [{"text": _pieces(chance, mark)}], "error": error}


def _overflow(chance: Random, mark: str) -> Json:
    return {"error": {"message": f"400 prompt is too long {mark}"}}


def _hang(chance: Random, mark: str) -> Json:
    if chance.random() < 0.3:
        raw = ['{"command": "echo ', HANG]
        return {"blocks": [{"text": [mark]}, {"tool": "bash", "arguments": raw}], "hangAfter": 3}
    return {"blocks": [{"text": [mark, HANG]}], "hangAfter": 2}


def _length(chance: Random, mark: str) -> Json:
    blocks: list[Json] = [{"text": [mark]}]
    if chance.random() < 0.5:
        blocks.append({"tool": "bash", "arguments": {"command": "echo cut"}, "id": f"call_{mark[1:-1]}"})
    return {"blocks": blocks, "stop": "length"}


def _empty(chance: Random, mark: str) -> Json:
    return {"blocks": []}


# The client.

SIMPLE = (
    *("abort", "clear_queue", "new_session", "clone", "cycle_model", "cycle_thinking_level", "abort_retry"),
    *("abort_bash", "get_state", "get_messages", "get_session_stats", "get_fork_messages", "get_entries", "get_tree"),
    *("get_last_assistant_text", "get_available_models", "get_available_thinking_levels", "get_commands"),
    *("get_protocol", "list_sessions", "get_mcp_servers"),
)
WEIGHTS = {
    "prompt": 30,
    "steer": 9,
    "follow_up": 9,
    "abort": 6,
    "clear_queue": 3,
    "new_session": 4,
    "switch_session": 5,
    "fork": 4,
    "clone": 3,
    "navigate": 6,
    "compact": 8,
    "set_model": 2,
    "cycle_model": 2,
    "set_thinking_level": 3,
    "cycle_thinking_level": 2,
    "set_steering_mode": 2,
    "set_follow_up_mode": 2,
    "set_auto_compaction": 1,
    "set_auto_retry": 1,
    "abort_retry": 2,
    "set_budget": 1,
    "bash": 9,
    "abort_bash": 2,
    "set_session_name": 3,
    "get_state": 3,
    "get_messages": 2,
    "get_session_stats": 1,
    "get_entries": 1,
    "get_fork_messages": 1,
    "get_tree": 1,
    "get_last_assistant_text": 1,
    "get_available_models": 1,
    "get_available_thinking_levels": 1,
    "get_commands": 1,
    "get_mcp_servers": 1,
    "get_protocol": 1,
    "list_sessions": 1,
    "export_html": 1,
    "invalid": 4,
}


def command(chance: Random, text: str) -> Json:
    """`text` is unique, so that a message can be followed."""
    kind = _weighted(chance, WEIGHTS)
    if kind == "invalid":
        return _invalid(chance, text)
    made: Json = {"type": kind}
    match kind:
        case "prompt" | "steer" | "follow_up":
            made["message"] = text
            if chance.random() < 0.08:
                made["images"] = [IMAGE]
            if kind == "prompt" and chance.random() < 0.4:
                made["streamingBehavior"] = chance.choice(["steer", "followUp"])
        case "switch_session":
            made["sessionPath"] = {"session": chance.randrange(8)}
            if chance.random() < 0.1:
                made["sessionPath"] = {"free": text.strip(".").replace(" ", "-")}
        case "fork":
            made["entryId"] = {"user": chance.randrange(8)}
        case "navigate":
            made["entryId"] = {"entry": chance.randrange(30)}
            if chance.random() < 0.35:
                made["summarize"] = True
            if chance.random() < 0.25:
                made["label"] = f"label of {text}"
        case "compact":
            if chance.random() < 0.3:
                made["customInstructions"] = "keep the names"
        case "set_model":
            made |= {"provider": PROVIDER, "modelId": chance.choice(IDS)}
        case "set_thinking_level":
            made["level"] = chance.choice(LEVELS)
        case "set_steering_mode" | "set_follow_up_mode":
            made["mode"] = chance.choice(["all", "one-at-a-time"])
        case "set_auto_compaction" | "set_auto_retry":
            made["enabled"] = chance.random() < 0.5
        case "set_budget":
            if chance.random() < 0.6:
                made["maxTurns"] = chance.randint(1, 3)
        case "bash":
            choices = [f"echo {text}", f"echo {text}", "exit 3", "sleep 0.02", SLEEP]
            made["command"] = chance.choice(choices)
            if chance.random() < 0.2:
                made["excludeFromContext"] = True
        case "set_session_name":
            made["name"] = f"name of {text}"
        case "export_html":
            made["outputPath"] = f"{text.strip('.').replace(' ', '-')}.html"
    return made


def _invalid(chance: Random, text: str) -> Json:
    return chance.choice(
        [
            {"type": "prompt"},
            {"type": "prompt", "message": text, "streamingBehavior": "later"},
            {"type": "steer", "message": text, "images": [{**IMAGE, "mimeType": "image/tiff"}]},
            {"type": "follow_up", "message": 7},
            {"type": "set_model", "provider": PROVIDER, "modelId": "rocket"},
            {"type": "set_thinking_level", "level": "most"},
            {"type": "set_steering_mode", "mode": "some"},
            {"type": "set_session_name", "name": "  "},
            {"type": "set_budget", "maxTurns": -1},
            {"type": "fork", "entryId": "nowhere"},
            {"type": "navigate", "entryId": "nowhere"},
            {"type": "switch_session", "sessionPath": "missing/folder/file.jsonl"},
            {"type": "launch_rocket"},
        ]
    )

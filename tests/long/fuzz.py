"""Lines that nobody would write, by the thousand: each gets one response, none ends the program.

    python tests/long/fuzz.py [LINES] [--seed SEED]        (make fuzz)

Lines that are right and lines that are nasty are mutated and told to a real
process in bursts. What each has coming is judged by a reader of our own, which
knows nothing of the program's. The lines depend on the seed alone, so a seed that
found something finds it again; the lines of a burst that went wrong are then tried
one by one, each in a process of its own, to name the guilty.

A mutated line must do no harm to the machine it runs on. The program gets folders
of its own, no tools, and a model that never asks for any; a line that would run a
shell command other than the HARMLESS, or names a file elsewhere, is thrown away.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from faults import mutations
from faults.mutations import CRUMBS, Mutation, Random, places
from support.rpc_process import WITHIN, Agent, Json, as_record
from tau.records.nesting import MAX_RECEIVED_NESTING, too_deep

LINES = 20_000
LIFE = 2_500  # lines for one process; then its stdin ends
AT_ONCE = 2  # so many processes; they wait for disks and children much of the time
BURST = 120  # at most so many at once
LONGEST = 100_000  # bytes of a line; the limit of the program is tested elsewhere
DEEP = 3_000  # deeper than any reader goes
SHALLOW = 200  # so deep every reader goes
MOST_DIGITS = 4_000  # Python reads no longer integers, neither here nor there


# What is mutated.

HARMLESS = ("true", ":", "exit 3", "echo hello")
ENTRY = "<entry>"  # stands for one that can be forked from
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
IMAGE = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
OLD_IMAGE = {"type": "image", "source": {"type": "base64", "data": PIXEL, "mediaType": "image/png"}}

HOST_TOOL = {"name": "lent", "description": "d", "parameters": {"type": "object", "properties": {"x": {"enum": [1]}}}}

PLAIN = (
    *("abort", "abort_bash", "abort_retry", "clear_queue", "clone", "compact", "cycle_model", "cycle_thinking_level"),
    *("export_html", "get_available_models", "get_available_thinking_levels", "get_commands", "get_entries"),
    *("get_fork_messages", "get_last_assistant_text", "get_messages", "get_protocol", "get_session_stats"),
    *("get_state", "get_tools", "get_tree", "get_mcp_servers"),
    "new_session",
)
COMMANDS: list[Json] = [
    *({"type": name} for name in PLAIN),
    {"type": "prompt", "message": "hello"},
    {"type": "prompt", "message": "look", "images": [IMAGE, OLD_IMAGE]},
    {"type": "prompt", "message": "h\u00e9 \U0001f600 \u2028\u2029\u0085\r\n\t\0", "streamingBehavior": "steer"},
    {"type": "prompt", "message": "", "images": [], "streamingBehavior": "followUp"},
    {"type": "prompt", "message": "half \ud800 a pair", "images": None, "streamingBehavior": None},
    {"type": "steer", "message": "left"},
    {"type": "steer", "message": "left", "images": [IMAGE]},
    {"type": "follow_up", "message": "then"},
    {"type": "follow_up", "message": "then", "images": [OLD_IMAGE]},
    {"type": "new_session", "parentSession": "sessions/parent.jsonl"},
    {"type": "set_model", "provider": "scripted", "modelId": "scripted"},
    {"type": "set_model", "provider": "anthropic", "modelId": "claude-opus-4-5"},
    {"type": "set_thinking_level", "level": "high"},
    {"type": "set_thinking_level", "level": "off"},
    {"type": "set_steering_mode", "mode": "all"},
    {"type": "set_steering_mode", "mode": "one-at-a-time"},
    {"type": "set_follow_up_mode", "mode": "all"},
    {"type": "set_follow_up_mode", "mode": "one-at-a-time"},
    {"type": "compact", "customInstructions": "keep the names"},
    {"type": "set_auto_compaction", "enabled": False},
    {"type": "set_auto_retry", "enabled": True},
    {"type": "set_auto_retry", "enabled": False},
    {"type": "set_budget", "maxTurns": 1000, "timeLimit": 3600},
    {"type": "set_budget"},
    *({"type": "bash", "command": command} for command in HARMLESS),
    {"type": "bash", "command": "true", "excludeFromContext": True},
    {"type": "export_html", "outputPath": "out/page.html"},
    {"type": "switch_session", "sessionPath": "sessions/other.jsonl"},
    {"type": "fork", "entryId": ENTRY},
    {"type": "fork", "entryId": "nowhere"},
    {"type": "list_sessions"},
    {"type": "list_sessions", "all": True},
    {"type": "navigate", "entryId": ENTRY, "label": "here"},
    {"type": "navigate", "entryId": "nowhere", "summarize": True, "customInstructions": "short"},
    {"type": "get_entries", "since": ENTRY},
    {"type": "set_session_name", "name": "a name"},
    {"type": "set_tools", "tools": [HOST_TOOL, {**HOST_TOOL, "name": "other", "replaces": True, "timeoutMs": 5}]},
    {"type": "set_tools", "tools": []},
    {"type": "restart_mcp_server", "server": "none"},
    {"type": "tool_progress", "requestId": "r", "content": [{"type": "text", "text": "so far"}, IMAGE]},
    {"type": "tool_result", "requestId": "r", "content": "done", "isError": True, "details": {"n": 1}},
    {"type": "set_active_tools", "names": ["bash", "other"]},
    {"type": "extension_ui_response", "id": "q", "value": "yes"},
    {"type": "extension_ui_response", "id": "q", "confirmed": True},
    {"type": "extension_ui_response", "id": "q", "cancelled": True},
]

NASTY: list[bytes] = [
    *(b"", b" ", b"\t \r", b"\r", b"\x0b\x0c", b"\0", b"\xef\xbb\xbf", b"\xff\xfe\x80", b"\xc2\xa0", b"\x1f"),
    *(b"null", b"true", b"5", b'"get_state"', b"[]", b"{}", b"[null]", b"[{}]", b"NaN", b"-Infinity", b"-", b"\\"),
    *(b'[{"type":"get_state"}]', b'{"type":null}', b'{"type":5}', b'{"id":7,"type":[]}', b'{"type":{"type":"abort"}}'),
    *(b'{"type":"nope"}', b'{"id":1,"type":""}', b'{"type":"__proto__"}', b'{"type":"response","success":true}'),
    *(b'{"":""}', b'{"type":"get_state",}', b'{"type":"get_state"}{"type":"get_state"}', b"{'type':'get_state'}"),
    b'\xef\xbb\xbf{"type":"get_state"}',
    b'\0{"type":"get_state"}\0',
    b'{"type":"get\0state"}',
    b'{"type":"get_state","x":"\x01"}',
    b'{"type":"get_state","x":01}',
    b'{"type":"prompt","message":"\xc3\x28"}',
    b'{"type":"prompt","message":"\xed\xa0\x80"}',
    b'{"type":"prompt","message":"\\ud800\\udc00\\udc00\\ud800"}',
    b'{"id":"\\ud800","type":"get_state"}',
    b'{"id":"\\u0000","type":"\\u0067et_state"}',
    b'{"id":"\xe2\x80\xa8","\\u0074ype":"get_state"}',
    b'{"type":"set_session_name","name":"\\udfff"}',
    b'{"id":1e999,"type":"get_state"}',
    b'{"id":-1.50E+2,"type":"get_state"}',
    b'{"id":12345678901234567890123456789,"type":"get_state","x":"\\udead"}',
    b'{"id":%b,"type":"get_state","x":-%b}' % (b"9" * 400, b"8" * 400),
    b'{"type":"set_auto_retry","enabled":1e999}',
    b'{"type":"get_state","x":[NaN,Infinity,1E400,-0,0.1e-999]}',
    b'{"type":"get_state","type":"get_messages"}',
    b'{"type":"get_state","type":5}',
    b'{"type":5,"type":"get_state"}',
    b'{"id":1,"id":[2],"id":"three","type":"get_state","id":{"four":4}}',
    b'{"type":"prompt","message":5,"message":"twice"}',
    b'{"type":"extension_ui_response","type":"get_state"}',
    b'{"type":"get_state","type":"extension_ui_response"}',
    b'{"type":"extension_ui_response","value":"\\ud800"}',
    b'{"type":"extension_ui_response","value":\xff}',
    b"[" * DEEP,
    b"[" * DEEP + b"]" * DEEP,
    b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    b'{"id":%b%b,"type":"get_state"}' % (b"[" * DEEP, b"]" * DEEP),
    b'{"type":"get_state","x":%b%b}' % (b"[" * DEEP, b"]" * DEEP),
    b'{"type":"prompt","message":%b%b}' % (b"[" * 150, b"]" * 150),
    b'{"type":"prompt","message":"%b"}' % (b"long " * 4_000),
]

IDS: list[Any] = [1, -1.5, 10**25, None, True, "", "x", "\ud800", "\u2028", [], [1, None], {}, {"a": {"b": [1]}}]


def corpus() -> list[bytes]:
    """Every command without an id and with some, and what is nasty."""
    with_ids = [{"id": IDS[(at + more) % len(IDS)], **one} for more in (0, 5) for at, one in enumerate(COMMANDS)]
    return [*(json.dumps(command).encode() for command in [*COMMANDS, *with_ids]), *NASTY]


# How it is mutated.

VALUES: list[Any] = [
    *(None, True, False, 0, -1, 1.5, 1e308, 2**53, 2**63, 2**64, 10**30),
    *("", "x", "\0", "\ud800", "\u2028", "all", "steer", "a" * 3_000),
    *([], {}, [1, [2, [None]]], ["a"] * 300, {"type": "prompt"}, [IMAGE], {"type": "image"}),
]
NAMES: list[str] = sorted({command["type"] for command in COMMANDS} | {name for one in COMMANDS for name in one})


def spliced(line: bytes, chance: Random) -> bytes:
    other = chance.choice(CORPUS)
    return line[: chance.randrange(len(line) + 1)] + other[chance.randrange(len(other) + 1) :]


def retyped(line: bytes, chance: Random) -> bytes:
    """Some value in it replaced by one of another kind."""
    value = as_record(line)
    if value is None:
        return line
    # Mostly not the type: without one a line is soon refused.
    found = [(place, key) for place, key in places(value) if key != "type" or chance.random() < 0.2]
    if not found:
        return line
    place, key = chance.choice(found)
    place[key] = chance.choice(VALUES)
    return _json(value, chance)


def renamed(line: bytes, chance: Random) -> bytes:
    """Another command with these fields, or this command with other fields."""
    value = as_record(line)
    if value is None:
        return line
    match chance.randrange(4):
        case 0:
            value["type"] = chance.choice(NAMES)
        case 1:
            value[chance.choice(NAMES)] = value.pop(chance.choice(list(value)))
        case 2:
            del value[chance.choice(list(value))]
        case 3:
            value.update(chance.choice(COMMANDS))
    return _json(value, chance)


def twice_said(line: bytes, chance: Random) -> bytes:
    """One of its keys a second time, with another value."""
    value = as_record(line)
    if value is None:
        return line
    more = _json({chance.choice(list(value)): chance.choice([*VALUES, *NAMES])}, chance)
    return b"%b,%b" % (more[:-1], line[1:]) if chance.random() < 0.5 else b"%b,%b" % (line[:-1], more[1:])


IN_BYTES: list[Mutation] = [*mutations.IN_BYTES, spliced]
IN_SHAPE: list[Mutation] = [retyped, renamed, twice_said]
# Bytes break JSON nearly always, so most lines are left whole: what can be read gets further into the program.
STYLES = [IN_SHAPE, IN_SHAPE, IN_BYTES, [*IN_BYTES, *IN_SHAPE]]


def _json(value: Any, chance: Random) -> bytes:
    # Half of a pair that is not escaped is no UTF-8: nasty too, and welcome.
    return json.dumps(value, ensure_ascii=chance.random() < 0.5).encode(errors="surrogatepass")


CORPUS = corpus()


def mutated(chance: Random) -> bytes:
    line, style = chance.choice(CORPUS), chance.choice(STYLES)
    for _ in range(chance.choice([0, 0, 1, 1, 1, 2, 3, 6])):
        line = chance.choice(style)(line, chance) if line else chance.choice(CRUMBS)
    return line.replace(b"\n", b"\\n")


# What is thrown away.

FILES = ("sessionPath", "outputPath", "parentSession")
FAR_REACHING = ('"bash"', '"demo"', *(f'"{name}"' for name in FILES))


class Pairs(list[tuple[str, Any]]):
    """An object with every one of its keys, also those that are there twice."""

    def all(self, key: str) -> list[Any]:
        return [value for name, value in self if name == key]


def does_no_harm(line: bytes, folder: Path) -> bool:
    """Whether it can be told to a program that works in `folder` / "work".

    What we cannot read the program should not read either; if it names something
    that could reach far, we do not rely on that.
    """
    try:
        value = json.loads(line.decode(), object_pairs_hook=Pairs)
    except (ValueError, RecursionError):
        return not any(word in unescaped(line) for word in FAR_REACHING)
    if not isinstance(value, Pairs):
        return True
    kinds = value.all("type")
    if "bash" in kinds and not all(command in HARMLESS for command in value.all("command") or [None]):
        return False
    if "demo" in value.all("modelId"):  # the one model that calls tools by itself
        return False
    named = [path for name in FILES for path in value.all(name)]
    return all(is_inside(path, folder) for path in named if isinstance(path, str))


def unescaped(line: bytes) -> str:
    return re.sub(r"\\u([0-9a-fA-F]{4})", lambda found: chr(int(found[1], 16)), line.decode("latin-1"))


def is_inside(path: str, folder: Path) -> bool:
    found = os.path.normpath(os.path.join(folder / "work", path))
    return not path.startswith("~") and Path(found).is_relative_to(folder)


# What a line has coming.


class Answered(NamedTuple):
    """A response, as far as a line decides it: the id is JSON text, None where there is none."""

    command: str
    id: str | None


class Due(NamedTuple):
    """How many responses, and which if that is certain."""

    responses: int
    answered: Answered | None = None


NOTHING = Due(0)
REFUSED = Due(1, Answered("parse", None))
SOMETHING = Due(1)


def due(line: bytes) -> Due | None:
    """None if nobody can say: it would have no response if it can be read, and a good reader may refuse it."""
    if not line.strip(b" \t\r\v\f"):
        return NOTHING
    if too_deep(line, MAX_RECEIVED_NESTING):
        return REFUSED
    try:
        # All that stands there, also what a second key of the same name takes back.
        value = json.loads(line.decode(), parse_constant=_refuse, object_pairs_hook=Written)
    except ValueError:
        return REFUSED
    if not isinstance(value, dict):
        return SOMETHING if _is_extreme(value) else REFUSED
    kind = value.get("type")
    if _is_extreme(value):
        return None if kind == "extension_ui_response" else SOMETHING
    if kind == "extension_ui_response":
        return NOTHING
    return Due(1, Answered(kind if isinstance(kind, str) else "parse", _id(value)))


class Written(dict[str, Any]):
    """An object that knows also the values that others have taken the place of."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.written = [value for _, value in pairs]


def _is_extreme(value: Any) -> bool:
    """JSON, but of the kind that a reader may refuse: numbers beyond a double, much nesting."""
    level = [value]
    for _ in range(SHALLOW):
        if not level:
            return False
        if any(isinstance(one, float) and one - one != 0 for one in level):
            return True
        level = [
            item
            for one in level
            if isinstance(one, Written | list)
            for item in (one.written if isinstance(one, Written) else one)
        ]
    return bool(level)


def _id(value: Json) -> str | None:
    return json.dumps(value["id"], sort_keys=True) if "id" in value else None


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


# Telling.


class Figures(NamedTuple):
    lines: int
    thrown_away: int
    responses: int
    successes: int
    parse_errors: int
    memory: int  # of the process that had most


class Surprise(AssertionError):
    """Not what was due. `lines` are those among which it happened."""

    def __init__(self, what: str, lines: list[bytes]) -> None:
        super().__init__(what)
        self.lines = lines


def scratch_agent(folder: Path, chance: Random) -> Agent:
    """It can do no harm; its model answers in every way there is, but for tools."""
    ways: list[Json] = [
        {"text": "ok"},
        {"blocks": [{"thinking": ["h", "m"]}, {"text": ["a ", "\u2028", "\ud83d", "\ude00"]}]},
        {"blocks": [{"text": ["slow", "ly"]}], "delayMs": 2},
        {"text": "cut", "stop": "length"},
        {"error": {"message": "529 overloaded"}},
        {"blocks": [{"text": ["some", "thing"]}], "error": {"message": "no", "after": 1}},
    ]
    answers = chance.choices(ways, [6, 2, 4, 1, 1, 1], k=LIFE)
    return Agent(folder, *answers, settings={"retry": {"baseDelayMs": 1}}, args=["--no-tools"])


def tell(agent: Agent, lines: list[bytes], *, within: float = WITHIN) -> None:
    """Some lines at once; what is due, no less and no more, has come when this returns."""
    before = len(agent.responses)
    expected = [coming for line in lines if (coming := due(line)) is not None]
    count = sum(one.responses for one in expected)
    certain = Counter(one.answered for one in expected if one.answered)
    try:
        agent.write(b"".join(line + b"\n" for line in lines))
        if count:
            agent.next_response(after=before + count - 1, within=within)
        probe = agent.ask("get_state", within=within)
    except AssertionError as error:
        raise Surprise(f"{count} responses were due: {error}", lines) from None
    responses = agent.responses[before:]
    if len(responses) != count + 1 or responses[-1] is not probe:
        raise Surprise(f"{count} responses were due, and {len(responses) - 1} came", lines)
    came = Counter(Answered(response["command"], _id(response)) for response in responses[:-1])
    if certain - came:
        raise Surprise(f"due and not there: {certain - came}; there instead: {came - certain}", lines)
    if broken := [response for response in responses if "Internal error" in response.get("error", "")]:
        raise Surprise(f"{broken}\n{agent.stderr}", lines)
    if agent.broken:
        raise Surprise(f"it broke\n{agent.transcript()}", lines)


def entry_of(agent: Agent) -> bytes:
    """One that can be forked from, if there is any."""
    points = agent.get("get_fork_messages")["messages"]
    return points[-1]["entryId"].encode() if points else b"00000000"


def life(amount: int, chance: Random, folder: Path) -> Figures:
    """One process, from its start to the end of its stdin."""
    left, thrown_away, probes = amount, 0, 0
    burst: list[bytes] = []
    with scratch_agent(folder, chance) as agent:
        while left:
            entry, burst = entry_of(agent), []
            while len(burst) < min(left, BURST) and (not burst or chance.random() > 1 / BURST):
                line = mutated(chance).replace(ENTRY.encode(), entry)
                if is_fit(line, folder):
                    burst.append(line)
                else:
                    thrown_away += 1
            tell(agent, burst)
            left, probes = left - len(burst), probes + 2
        memory, before = agent.memory, len(agent.responses)
        agent.close()
        code = agent.exit_code()
        if code != 0 or len(agent.responses) != before:
            raise Surprise(f"ended with {code}, after {len(agent.responses) - before} responses too many", burst)
        parse_errors = sum(response["command"] == "parse" for response in agent.responses)
        successes = sum(response["success"] for response in agent.responses) - probes
        return Figures(amount, thrown_away, before - probes, successes, parse_errors, memory)


def is_fit(line: bytes, folder: Path) -> bool:
    return (
        len(line) <= LONGEST
        and not re.search(rb"\d{%d}" % MOST_DIGITS, line)
        and due(line) is not None
        and does_no_harm(line, folder)
    )


def fuzz(amount: int, seed: int, folder: Path) -> Figures:
    """So many lines, in lives of some thousand. The first surprise is raised, when the lives beside it have ended."""

    def one(number: int) -> Figures:
        chance = Random(f"{seed}/{number}")
        try:
            return life(min(LIFE, amount - number * LIFE), chance, folder / str(number))
        except Surprise as surprise:
            guilty = alone(surprise.lines, folder / f"{number} alone")
            named = "\n".join(repr(line) for line in guilty) or "none: it takes several, or luck"
            raise Surprise(
                f"seed {seed}, life {number}: {surprise}\n--- of {len(surprise.lines)} lines, guilty alone:\n{named}",
                guilty or surprise.lines,
            ) from None

    with ThreadPoolExecutor(AT_ONCE) as pool:
        lives = list(pool.map(one, range(-(-amount // LIFE))))
    totals = Figures(*(sum(column) for column in zip(*lives, strict=True)))
    return totals._replace(memory=max(one.memory for one in lives))


def alone(lines: list[bytes], folder: Path) -> list[bytes]:
    """Those that go wrong even as the first line of a fresh process."""
    guilty = []
    for number, line in enumerate(lines):
        try:
            with scratch_agent(folder / str(number), Random(number)) as agent:
                tell(agent, [line], within=5)
        except AssertionError:
            guilty.append(line)
    return guilty


def complaints(folder: Path) -> Counter[str]:
    """What the processes of a fuzzing said on stderr, where nothing is to be said: no line is anybody's fault."""
    told = (file.read_text(errors="replace") for file in folder.glob("*/stderr"))
    return Counter(line for text in told for line in text.splitlines())


def main() -> int:
    parser = argparse.ArgumentParser(description="Tell the program mutated lines and count its responses.")
    parser.add_argument("lines", type=int, nargs="?", default=LINES)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    given = parser.parse_args()
    print(f"{given.lines} mutated lines, --seed {given.seed}", flush=True)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tau-fuzz-") as scratch:
        folder = Path(scratch).resolve()
        try:
            figures = fuzz(given.lines, given.seed, folder)
        except Surprise as surprise:
            print(surprise, file=sys.stderr)
            return 1
        heard = complaints(folder)
    for name, figure in figures._asdict().items():
        print(f"{name.replace('_', ' '):14}{figure:>12,}")
    print(f"{'seconds':14}{time.monotonic() - started:>12.1f}")
    for line, count in heard.most_common(20):
        print(f"{count} times on stderr: {line}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

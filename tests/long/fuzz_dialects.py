"""Random lines in every dialect: each has its response, and every line that comes back is one of the dialect.

    python tests/long/fuzz_dialects.py [LINES] [--seed SEED]

As fuzz.py, which judges the responses of the default dialect more closely.
"""

from __future__ import annotations

import argparse
import functools
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import fastjsonschema

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from long.fuzz import due, is_fit, mutated
from support.rpc_memory import Agent
from support.rpc_process import Json
from tau.wire.dialects import NAMES

SCHEMAS = Path(__file__).resolve().parents[2] / "docs" / "schema"
LIFE = 200  # lines for one agent


@functools.cache
def schema_of(name: str) -> Callable[[Any], Any]:
    """Checks one line against the schema of a dialect; raises for a line that is none of its lines."""
    schema = json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))
    check: Callable[[Any], Any] = fastjsonschema.compile({"$ref": "#/$defs/AgentLine", "$defs": schema["$defs"]})
    return check


def answers(chance: Random) -> list[Json]:
    """The model answers in every way there is."""
    ways: list[Json] = [
        {"text": "ok"},
        {"blocks": [{"thinking": ["h", "m"]}, {"text": ["a ", "\u2028", "\ud83d", "\ude00"]}]},
        {"blocks": [{"text": "I look."}, {"tool": "ls", "arguments": {"path": "."}, "id": "call_1"}]},
        {"blocks": [{"tool": "read", "arguments": {"path": "nowhere"}}, {"tool": "zork", "arguments": {}}]},
        {"text": "cut", "stop": "length"},
        {"error": {"message": "529 overloaded"}},
        {"blocks": [{"text": ["some", "thing"]}], "error": {"message": "no", "after": 1}},
    ]
    return chance.choices(ways, [4, 2, 3, 2, 1, 1, 1], k=1000)


def fuzz_dialect(folder: Path, name: str, seed: str, count: int) -> list[str]:
    """Send so many lines to one agent; return what is wrong with what came back."""
    chance = Random(f"{seed} {name}")
    lines: list[bytes] = []
    while len(lines) < count:
        line = mutated(chance)
        if is_fit(line, folder):
            lines.append(line)
    settings = {"retry": {"baseDelayMs": 1}}
    args = ["--dialect", name, "--tools", "read,ls"]
    with Agent(folder, *answers(chance), settings=settings, args=args) as agent:
        agent.write(b"".join(line + b"\n" for line in lines))
        wrong: list[str] = []
        if name == "2025-12":  # it has no responses
            agent.send("get_protocol")
            agent.until("protocol")
        else:
            expected = sum(coming.responses for line in lines if (coming := due(line)) is not None)
            agent.next_response(after=expected - 1)
            agent.ask("get_protocol")
            if len(agent.responses) != expected + 1:
                wrong.append(f"{len(agent.responses) - 1} responses, and {expected} were due")
        records = list(agent.records)
    wrong += [json.dumps(record)[:500] for record in records if "Internal error" in str(record.get("error", ""))]
    check = schema_of(name)
    return wrong + [problem for record in records if (problem := _objection(check, record))]


def _objection(check: Callable[[Any], Any], record: Json) -> str:
    try:
        check(record)
    except fastjsonschema.JsonSchemaException as error:
        return f"{error}: {json.dumps(record)[:500]}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description="Send mutated lines in every dialect.")
    parser.add_argument("lines", type=int, nargs="?", default=2_000, help="for each dialect")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    given = parser.parse_args()
    print(f"{given.lines} lines in each of {len(NAMES)} dialects, --seed {given.seed}", flush=True)
    problems = 0
    for name in NAMES:
        began, wrong = time.monotonic(), list[str]()
        with tempfile.TemporaryDirectory(prefix="tau-dialects-") as scratch:
            for life in range(-(-given.lines // LIFE)):
                folder = Path(scratch).resolve() / str(life)
                folder.mkdir()
                wrong += fuzz_dialect(folder, name, f"{given.seed}/{life}", min(LIFE, given.lines - life * LIFE))
        problems += len(wrong)
        print(
            f"{name:10}{len(wrong):>6} problems{time.monotonic() - began:>8.1f} s", *wrong[:5], sep="\n  ", flush=True
        )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

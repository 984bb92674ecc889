"""Mutated ACP exchanges, by the thousand: one valid response each, none ends the program, memory does not grow.

    python tests/long/fuzz_acp.py [LINES] [--seed SEED]

Requests that are right are mutated as bytes and as values. Every message that comes back is validated by the official
schema. A request that is well-formed JSON-RPC with an id of its own must be answered exactly once.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from faults.mutations import IN_BYTES, VALUES, Random, places
from support.acp_peer import RESULTS, check_message, process_peer
from support.rpc_process import Json

LINES = 20_000
BURST = 50
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SESSION, CWD = "<session>", "<cwd>"


def requests() -> list[Json]:
    """Everything that a client may say, with valid parameters."""
    text = {"type": "text", "text": "hello"}
    image = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
    link = {"type": "resource_link", "uri": "file:///tmp/a", "name": "a"}
    resource = {"type": "resource", "resource": {"uri": "file:///b", "text": "x"}}
    calls: list[tuple[str, Json]] = [
        ("initialize", {"protocolVersion": 1, "clientCapabilities": {"session": {"notices": {}}}}),
        ("authenticate", {"methodId": "key"}),
        ("session/list", {}),
        ("session/list", {"cwd": CWD, "cursor": None}),
        ("session/prompt", {"sessionId": SESSION, "prompt": [text]}),
        ("session/prompt", {"sessionId": SESSION, "prompt": [text, image, link, resource]}),
        ("session/prompt", {"sessionId": SESSION, "prompt": [{"type": "text", "text": "/session"}]}),
        ("session/set_mode", {"sessionId": SESSION, "modeId": "ask"}),
        ("session/set_config_option", {"sessionId": SESSION, "configId": "mode", "value": "auto"}),
        ("session/load", {"sessionId": SESSION, "cwd": CWD, "mcpServers": []}),
        ("session/resume", {"sessionId": SESSION, "cwd": CWD}),
        ("session/close", {"sessionId": "other"}),
        ("session/delete", {"sessionId": "other"}),
        ("session/cancel", {"sessionId": SESSION}),
        ("$/cancel_request", {"requestId": 1}),
    ]
    return [{"jsonrpc": "2.0", "id": 0, "method": method, "params": params} for method, params in calls]


class Figures(NamedTuple):
    lines: int
    answered: int
    messages: int
    early_memory: int  # KiB, after a tenth
    late_memory: int


def mutated(chance: Random, id: int, session: str, cwd: str) -> bytes:
    """One line; half of them are well-formed requests with something wrong inside."""
    request = deepcopy(chance.choice(requests()))
    request["id"] = id
    if request["method"] in ("session/cancel", "$/cancel_request"):
        del request["id"]
    text = json.dumps(request).replace(SESSION, session).replace(CWD, cwd)
    kind = chance.randrange(10)
    if kind < 3:
        return text.encode()
    if kind < 7:
        value = json.loads(text)
        found = [one for one in places(value["params"])]
        if found:
            place, key = chance.choice(found)
            if chance.random() < 0.3 and isinstance(place, dict):
                del place[key]
            else:
                place[key] = chance.choice(VALUES)
        return json.dumps(value).encode()
    data = text.encode()
    for _ in range(chance.choice([1, 1, 2, 5])):
        data = chance.choice(IN_BYTES)(data, chance) or b" "
    return data.replace(b"\n", b" ")


def expected_id(line: bytes) -> Any:
    """The id that a response must have; None if the line need not get one with an id."""
    try:
        value = json.loads(line.decode(), parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or value.get("jsonrpc") != "2.0" or not isinstance(value.get("method"), str):
        return None
    id = value.get("id")
    fits = isinstance(id, str) or (isinstance(id, int) and not isinstance(id, bool) and -(2**63) <= id < 2**63)
    return id if fits else None


def any_id(line: bytes) -> Any:
    """The id of a line, whatever else is wrong with it."""
    try:
        value = json.loads(line.decode(errors="replace"))
    except (ValueError, RecursionError):
        return None
    return value.get("id") if isinstance(value, dict) else None


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


async def fuzz(lines: int, seed: int, folder: Path) -> Figures:
    chance = random.Random(seed)
    answered, counted, early = 0, 0, 0
    async with process_peer(folder, {"text": "ok"}, args=["--no-tools"]) as (peer, process):
        await peer.initialize()
        session = await peer.new(folder / "work")
        received: list[Json] = []
        peer._take = received.append  # type: ignore[method-assign]
        for first in range(0, lines, BURST):
            burst = [mutated(chance, 1000 + first + at, session, str(folder / "work")) for at in range(BURST)]
            await peer.write(b"".join(line + b"\n" for line in burst))
            check = {"jsonrpc": "2.0", "id": f"check-{first}", "method": "session/list", "params": {"cwd": "/nowhere"}}
            await peer.send(check)
            wanted = [id for id in map(expected_id, burst) if id is not None]
            # An id may occur twice in a burst, by mutation: then one of the requests may be refused.
            await _until(received, {*wanted, check["id"]}, peer, burst)
            methods = _methods(burst) | {check["id"]: "session/list"}
            for message in received:
                if "method" in message:
                    check_message(message, {})
                elif message["id"] is not None and wanted.count(message["id"]) <= 1:
                    assert "error" in message or message["id"] in methods, message
                    check_message(message, methods)
            ids = [json.dumps(one["id"]) for one in received if "method" not in one and one["id"] is not None]
            named = list(map(any_id, burst))  # a line that is no request may have the id of another, and gets an error
            once = [id for id in wanted if named.count(id) == 1]
            twice = [id for id in once if ids.count(json.dumps(id)) != 1]
            if twice:
                asked = [line for line in burst if str(twice[0]).encode() in line]
                answers = [one for one in received if one.get("id") == twice[0]]
                raise AssertionError(f"answered twice, or not at all: {twice[:5]}; asked {asked}, answered {answers}")
            answered += len(ids)
            counted += len(received)
            received.clear()
            if not early and first >= lines // 10:
                early = _memory(process.pid)
        late = _memory(process.pid)
    return Figures(lines, answered, counted, early, late)


def _methods(burst: list[bytes]) -> dict[Any, str]:
    found: dict[Any, str] = {}
    for line in burst:
        if (id := expected_id(line)) is not None:
            method = json.loads(line.decode())["method"]
            if method in RESULTS:
                found[id] = method
    return found


async def _until(received: list[Json], wanted: set[Any], peer: Any, burst: list[bytes]) -> None:
    async with asyncio.timeout(60):
        while True:
            missing = wanted - {one["id"] for one in received if "method" not in one}
            if not missing:
                return
            if peer.ended:
                raise AssertionError(f"the program ended; one of {burst}")
            if peer.error is not None:
                raise peer.error
            peer._news.clear()
            try:
                async with asyncio.timeout(30):
                    await peer._news.wait()
            except TimeoutError:
                lines = [line for line in burst if expected_id(line) in missing]
                raise AssertionError(f"not answered: {lines[:3]}") from None


def _memory(pid: int) -> int:
    return int(Path(f"/proc/{pid}/status").read_text().partition("VmRSS:")[2].split()[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("lines", nargs="?", type=int, default=LINES)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = asyncio.run(fuzz(given.lines, given.seed, Path(folder)))
    growth = figures.late_memory / max(1, figures.early_memory)
    print(f"seed {given.seed}: {figures}, memory x {growth:.2f}")
    sys.exit(0 if growth <= 1.3 else 1)


if __name__ == "__main__":
    main()

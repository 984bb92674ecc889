"""Results that say why a call failed keep to the limits of a result, whatever they repeat."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.rpc_agent import Agent
from support.rpc_process import Json, said, text

LIMIT = 50 * 1024
LINES = 2000
LONG = "x" * 300_000
MANY = "line\n" * 100_000
EXTENSION = f"""
def setup(pi):
    @pi.on("tool_call")
    def gate(event, ctx):
        if event.tool_name == "ls":
            return {{"block": True, "reason": {LONG!r}}}

    @pi.tool
    def fails() -> str:
        "Fails."
        raise ValueError({MANY!r})
"""


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


CALLS: dict[str, Json] = {
    "arguments that do not fit": {"tool": "write", "arguments": {"content": LONG}},
    "arguments of many lines": {"tool": "write", "arguments": {"content": MANY, "path": nested(20)}},
    "nested arguments": {"tool": "write", "arguments": {"content": nested(200)}},
    "arguments that are no JSON": {"tool": "write", "arguments": '{"content": "' + LONG},
    "a tool that does not exist": {"tool": "t" + LONG, "arguments": {}},
    "a path that is too long": {"tool": "read", "arguments": {"path": LONG}},
    "a text to replace that is not there": {
        "tool": "edit",
        "arguments": {"path": LONG, "oldText": "a", "newText": "b"},
    },
    "a call that an extension blocks": {"tool": "ls", "arguments": {}},
    "a tool of an extension that fails": {"tool": "fails", "arguments": {}},
    "a denied path": {"tool": "grep", "arguments": {"pattern": "x", "path": "denied/" + LONG}},
}


@pytest.mark.parametrize("parallel", [False, True], ids=["one by one", "side by side"])
def test_an_error_of_a_call_keeps_to_the_limits_of_a_result(parallel: bool, tmp_path: Path) -> None:
    (tmp_path / "long.py").write_text(EXTENSION)
    (tmp_path / "rules.json").write_text(json.dumps({"deny": [{"path": "denied/**"}], "otherwise": "allow"}))
    args = ["-e", str(tmp_path / "long.py"), "--tools", "*", "--permissions", "rules", str(tmp_path / "rules.json")]
    blocks = [{**call, "id": f"c{at}"} for at, call in enumerate(CALLS.values())]
    settings = {"toolExecution": "parallel" if parallel else "sequential"}
    with Agent(tmp_path, {"blocks": blocks}, {"text": "ok"}, args=args, settings=settings) as agent:
        results = said(agent.prompt("go"), "toolResult")
    told = dict(zip(CALLS, results, strict=True))
    assert {name: result["isError"] for name, result in told.items()} == dict.fromkeys(CALLS, True)
    sizes = {name: (len(text(one).encode()), text(one).count("\n")) for name, one in told.items()}
    assert {name: size for name, size in sizes.items() if size[0] > LIMIT or size[1] >= LINES} == {}

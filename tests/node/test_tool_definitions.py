"""Definitions of built-in tools that extensions register again: schemas and prepareArguments are those of pi 1.5.2."""

# ruff: noqa: E501  # lines of extensions

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.node_program import agent
from support.rpc_process import of

WRAPS = """
    import * as tools from "@earendil-works/pi-coding-agent";

    export default function (pi: any) {
        const edit = tools.createEditToolDefinition(process.cwd());
        pi.registerTool({ ...edit, execute: (id: string, params: any, ...rest: any[]) => {
            pi.appendEntry("asked", params);
            return edit.execute(id, params, ...rest);
        } });
        const names = ["Bash", "Read", "Write", "Edit", "Grep", "Find", "Ls"];
        pi.registerCommand("shapes", { handler: async (args: string, ctx: any) => {
            const made = names.flatMap((name) => [tools[`create${name}ToolDefinition`](ctx.cwd), tools[`create${name}Tool`](ctx.cwd)]);
            ctx.ui.notify(JSON.stringify(made.map((tool: any) => [tool.name, tool.parameters.required ?? [], Object.entries(tool.parameters.properties).map(([name, { type }]: any) => `${name}: ${type}`)])));
        } });
        pi.registerCommand("prepare", { handler: async (args: string, ctx: any) => ctx.ui.notify(JSON.stringify(edit.prepareArguments(JSON.parse(args)) ?? null)) });
    }
    """
PAIR, OTHER = {"oldText": "x", "newText": "y"}, {"oldText": "p", "newText": "q"}

# What createXToolDefinition(cwd).parameters of pi 1.5.2 was measured to be.
SHAPES = [
    ["bash", ["command"], ["command: string", "timeout: number"]],
    ["read", ["path"], ["path: string", "offset: number", "limit: number"]],
    ["write", ["path", "content"], ["path: string", "content: string"]],
    ["edit", ["path", "edits"], ["path: string", "edits: array"]],
    [
        "grep",
        ["pattern"],
        [
            *("pattern: string", "path: string", "glob: string", "ignoreCase: boolean", "literal: boolean"),
            *("context: number", "limit: number"),
        ],
    ],
    ["find", ["pattern"], ["pattern: string", "path: string", "limit: number"]],
    ["ls", [], ["path: string", "limit: number"]],
]

# Arguments, and what prepareArguments of pi 1.5.2 was measured to make of them; None: the same.
PREPARED: list[tuple[Any, Any]] = [
    ({"path": "a", **PAIR}, {"path": "a", "edits": [PAIR]}),
    ({"path": "a", "edits": [PAIR]}, None),
    ({"path": "a", "edits": PAIR}, {"path": "a", "edits": [PAIR]}),
    ({"path": "a", "edits": {**PAIR, "z": 1}}, {"path": "a", "edits": [{**PAIR, "z": 1}]}),
    ({"path": "a", "edits": json.dumps([PAIR])}, {"path": "a", "edits": [PAIR]}),
    ({"path": "a", "edits": json.dumps(PAIR)}, {"path": "a", "edits": [PAIR]}),
    ({"path": "a", "edits": json.dumps(PAIR), **OTHER}, {"path": "a", "edits": [PAIR, OTHER]}),
    ({"path": "a", "edits": [PAIR], **OTHER}, {"path": "a", "edits": [PAIR, OTHER]}),
    ({"path": "a", "edits": None, **PAIR, "more": 1}, {"path": "a", "more": 1, "edits": [PAIR]}),
    ({"path": "a", "edits": "nonsense", **PAIR}, {"path": "a", "edits": [PAIR]}),
    ({"path": "a", "edits": "[]"}, {"path": "a", "edits": []}),
    ({"path": "a", "edits": "nonsense"}, None),
    ({"path": "a", "edits": "{}"}, None),
    ({"path": "a", "edits": [PAIR], "oldText": "x"}, None),
    ({"path": "a", "oldText": 1, "newText": "y"}, None),
    (None, None),
    ("x", None),
    ([PAIR], None),
]


def test_the_definitions_are_those_of_pi(tmp_path: Path) -> None:
    with agent(tmp_path, WRAPS) as program:

        def shown(command: str) -> Any:
            assert program.ask("prompt", message=command)["success"]
            return json.loads(program.until(lambda one: one.get("method") == "notify")[-1]["message"])

        assert sorted(shown("/shapes")) == sorted([*SHAPES, *SHAPES])
        for given, expected in PREPARED:
            assert shown(f"/prepare {json.dumps(given)}") == (given if expected is None else expected)


def test_edit_that_an_extension_registers_again_takes_every_form(tmp_path: Path) -> None:
    forms = [
        {"path": "f.txt", "oldText": "one", "newText": "1"},
        {"path": "f.txt", "edits": [{"oldText": "two", "newText": "2"}, {"oldText": "three", "newText": "3"}]},
        {"path": "f.txt", "edits": json.dumps({"oldText": "four", "newText": "4"})},
    ]
    answers = [{"blocks": [{"tool": "edit", "arguments": form}]} for form in forms]
    with agent(tmp_path, WRAPS, *answers, {"text": "done"}) as program:
        (tmp_path / "work" / "f.txt").write_text("one two three four\n")
        ended = of("tool_execution_end", program.prompt("edit it"))
        assert [one["isError"] for one in ended] == [False] * 3, ended
        assert (tmp_path / "work" / "f.txt").read_text() == "1 2 3 4\n"
        entries = program.ask("get_entries")["data"]["entries"]
    asked = [entry["data"] for entry in entries if entry.get("customType") == "asked"]
    assert [[set(one), len(one["edits"])] for one in asked] == [[{"path", "edits"}, count] for count in (1, 2, 1)]

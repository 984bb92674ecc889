"""How TypeScript extensions are loaded: modules, types, syntax, and what their loader in pi forgives."""

# ruff: noqa: E501  # lines of extensions

from __future__ import annotations

import asyncio
import hashlib
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from support.extension_processes import Found, Lab
from support.extension_processes import running as started
from support.node_program import node, node_limits, script
from tau.errors import ToolError
from tau.extension_api import launch_node

HOST = Path(launch_node.__file__).parent / "node"


def tool(body: str, head: str = "") -> str:
    """An extension whose tool returns the value of an expression."""
    return f"""{head}
    export default function (pi: any) {{
        const value = (): unknown => ({body});
        pi.registerTool({{ name: "value", description: "d", parameters: {{ type: "object", properties: {{}} }},
            execute: async (): Promise<any> => ({{ content: [], details: {{ value: value() }} }}) }});
    }}
    """


def value_of(path: Path, package: Path | None = None) -> Any:
    """Load an extension and return what its tool returns."""

    async def story() -> Any:
        async with started(Found(path, package=package), settings=node_limits()) as lab:
            assert lab.told == []
            return (await lab.tool("value")).details["value"]

    return asyncio.run(story())


def test_the_files_of_the_host_are_valid_and_short() -> None:
    program = node()
    files = sorted(HOST.rglob("*.mjs"))
    assert len(files) > 20
    for file in files:
        assert len(file.read_text().splitlines()) <= 500, file
    checks = "const {execFileSync} = require('child_process'); for (const f of process.argv.slice(1)) "
    checks += "execFileSync(process.execPath, ['--check', f]);"
    subprocess.run([program, "-e", checks, *map(str, files)], check=True, timeout=60)


def test_enums_parameter_properties_and_line_numbers(tmp_path: Path) -> None:
    source = """
    enum Colour { Red, Green = 5, Blue, Text = "t", Both = Red | Green }
    const enum Hidden { One = 1 << 3 }
    class Point {
        constructor(private readonly x: number, public y: number = 2, z?: string) { this.sum = x + y; }
        sum: number;
        get both(): number[] { return [this.x, this.y, this.sum]; }
    }
    class Far extends Point { constructor(protected name: string) { super(7, 8); } get told() { return this.name; } }
    const found = [Colour.Red, Colour.Blue, Colour[5], Colour.Text, Colour.Both, Hidden.One, new Point(1).both, new Far("n").told];
    const line = Number(new Error().stack!.match(/one\\.ts:(\\d+)/)![1]);
    """
    file = script(tmp_path, source + tool("[...found, line]"))
    wanted = next(at for at, text in enumerate(file.read_text().split("\n"), 1) if "const line" in text)
    assert value_of(file) == [0, 6, "Both", "t", 5, 8, [1, 2, 3], "n", wanted]


def test_pi_modules_of_both_scopes_are_those_of_tau_wherever_they_are_imported(tmp_path: Path) -> None:
    head = """
    import { Type, type Static } from "@sinclair/typebox";
    import { Type as Other } from "typebox";
    import { Type as Third } from "@earendil-works/pi-ai";
    import { Value } from "typebox/value";
    import { truncateToWidth } from "@mariozechner/pi-tui";
    import { getAgentDir, NotThereAtAll } from "@mariozechner/pi-coding-agent";
    import own from "own";
    """
    script(tmp_path, '{"name": "own", "main": "index.ts"}', "node_modules/own/package.json")
    script(
        tmp_path, 'import { Type } from "typebox"; const t: any = Type; export default t;', "node_modules/own/index.ts"
    )
    script(tmp_path, "export const Type = 'a copy of its own';", "node_modules/typebox/index.js")
    body = """[Type === Other, Other === Third, own === Type, Value.Check(Type.String(), "x"), typeof getAgentDir,
        NotThereAtAll === undefined, truncateToWidth("hello world", 8)]"""
    file = script(tmp_path, tool(body, head))
    assert value_of(file) == [True, True, True, True, "function", True, "hello\x1b[0m..."]


def test_files_are_found_without_and_with_other_endings(tmp_path: Path) -> None:
    for name in ("a.ts", "b.mts", "c/index.ts"):
        script(tmp_path, f"export const name: string = '{name}';", name)
    script(tmp_path, '{"key": 3}', "data.json")
    script(tmp_path, "module.exports = { old: 4 };", "old.cjs")
    head = """
    import { name as a } from "./a";
    import { name as again } from "./a.js";
    import { name as b } from "./b.mjs";
    import { name as c } from "./c";
    import data from "./data.json";
    import old from "./old.cjs";
    """
    assert value_of(script(tmp_path, tool("[a, again, b, c, data.key, old.old]", head))) == [
        *("a.ts", "a.ts", "b.mts", "c/index.ts"),
        *(3, 4),
    ]


def test_types_imported_as_values_and_names_of_commonjs_do_no_harm(tmp_path: Path) -> None:
    script(
        tmp_path,
        "export interface Shape { a: number }\nexport type Name = string;\nexport const real = 1;",
        "shapes.ts",
    )
    head = """
    import { Shape, Name, real } from "./shapes";
    import { ExtensionAPI } from "@mariozechner/pi-coding-agent";
    import Missing from "a-package-that-is-not-there";
    const shape: Shape & { b?: Missing } = { a: real };
    function named(pi: ExtensionAPI, name: Name) {}
    """
    body = '[shape.a, require("node:path").basename(__filename), __dirname.length > 0]'
    assert value_of(script(tmp_path, tool(body, head))) == [1, "one.ts", True]


@pytest.mark.promise("J10")
def test_a_file_that_was_changed_after_the_first_load_is_not_loaded(tmp_path: Path) -> None:
    package = tmp_path / "pack"
    script(package, "export const part = 1;", "part.ts")
    source = 'export const load = () => import("./part.ts");' + tool("(load(), 1)")
    file = script(package, source + "\nglobalThis.load = load;", "index.ts")

    async def story() -> Lab:
        async with started(Found(file, package=package), settings=node_limits()) as lab:
            (package / "part.ts").write_text("export const part = 2;")
            await lab.tool("value")
            await lab.until(lambda: lab.errors)
            return lab

    assert "part.ts changed since the extension was loaded" in asyncio.run(story()).errors[0].error


@pytest.mark.promise("J10")
@pytest.mark.parametrize("named", ["../tools/helper.ts", "node_modules/dep/helper.ts"])
def test_an_entry_that_the_folder_of_the_extension_does_not_contain_is_compared_too(tmp_path: Path, named: str) -> None:
    package = tmp_path / "pack"
    script(package, "{}", "package.json")
    file = script(tmp_path, tool("process.exit(9)"), os.path.normpath(f"pack/{named}"))
    trusted = {
        os.path.realpath(each): hashlib.sha256(each.read_bytes()).hexdigest()
        for each in (package / "package.json", file)
    }

    async def story() -> None:
        async with started(Found(file, content=trusted, package=package), settings=node_limits()) as lab:
            assert "value" in lab.extensions.tools
            script(tmp_path, "throw new Error('it was executed')", os.path.normpath(f"pack/{named}"))
            with pytest.raises(ToolError):
                await lab.tool("value")
            await lab.until(lambda: "load" in dict(lab.told))
            assert f"{file} changed since the extension was loaded" in dict(lab.told)["load"]
        async with started(Found(file, content=trusted, package=package), settings=node_limits()) as lab:
            assert f"{file} changed since the project was trusted" in dict(lab.told)["load"]

    asyncio.run(story())


ADDED = {
    "late.ts": "./late.ts",
    "late.js": "./late.js",
    "late.json": "./late.json",
    "late.txt": "./late.txt",
    "lib/late.ts": "./lib/late.ts",
    "linked/late.ts": "./linked/late.ts",
    "late.node": "./late.node",
}


@pytest.mark.promise("J10")
@pytest.mark.parametrize(("added", "named"), ADDED.items())
@pytest.mark.parametrize("how", ["a file", "a link"])
def test_a_module_that_was_added_after_the_first_load_is_not_loaded(
    tmp_path: Path, added: str, named: str, how: str
) -> None:
    package = tmp_path / "pack"
    script(tmp_path / "elsewhere", "", "known.ts")
    file = script(package, tool(f'require("{named}") && 1'), "index.ts")
    (package / "linked").symlink_to(tmp_path / "elsewhere")

    async def story() -> None:
        async with started(Found(file, package=package), settings=node_limits()) as lab:
            new = script(tmp_path / "late" if how == "a link" else package, "1", added)
            if how == "a link":
                (package / added).parent.mkdir(exist_ok=True)
                (package / added).symlink_to(new)
            with pytest.raises(ToolError, match="is not one of the modules that the extension had when it was loaded"):
                await lab.tool("value")

    asyncio.run(story())


@pytest.mark.parametrize("name", ["node_modules/dep/index.js", ".cache/x.js", "../beside/x.js"])
def test_other_modules_may_be_added_later(tmp_path: Path, name: str) -> None:
    package = tmp_path / "pack"
    file = script(package, tool(f'require("./{name}")'), "index.ts")

    async def story() -> Any:
        async with started(Found(file, package=package), settings=node_limits()) as lab:
            script(tmp_path, "module.exports = 'later';", os.path.normpath(f"pack/{name}"))
            return (await lab.tool("value")).details["value"]

    assert asyncio.run(story()) == "later"


def test_extensions_load_in_order_and_share_objects(tmp_path: Path) -> None:
    first = script(tmp_path, tool("1", "globalThis.order = ['first'];").replace('"value"', '"other"'), "z.ts")
    slow = script(
        tmp_path,
        """
        export default async function (pi: any) {
            await new Promise((resolve) => setTimeout(resolve, 100));
            globalThis.order.push("slow");
            pi.events.on("ask", (reply: (text: string) => void) => reply("a function"));
        }
        """,
        "m.ts",
    )
    head = "const answers: string[] = []; globalThis.order.push('last');"
    body = "(pi.events.emit('ask', (text: string) => answers.push(text)), [...globalThis.order, ...answers])"
    last = script(tmp_path, tool(body, head), "a.ts")

    async def story() -> Any:
        async with started(first, slow, last, settings=node_limits()) as lab:
            assert lab.told == []
            return (await lab.tool("value")).details["value"]

    assert asyncio.run(story()) == ["first", "slow", "last", "a function"]


def test_the_bus_reaches_python_extensions_once(tmp_path: Path) -> None:
    node_file = script(
        tmp_path,
        """
        export default function (pi: any) {
            pi.events.on("news", (data: any) => { if (data.from === "python") pi.events.emit("heard", { by: "node" }); });
            pi.on("agent_start", () => pi.events.emit("news", { from: "node" }));
        }
        """,
    )
    python = tmp_path / "two.py"
    python.write_text(
        "def setup(pi):\n"
        "    pi.events.on('news', lambda data: pi.append_entry(data['from']))\n"
        "    pi.events.on('heard', lambda data: pi.append_entry(data['by'] + ' heard'))\n"
        "    pi.on('agent_end', lambda event, ctx: pi.events.emit('news', {'from': 'python'}))\n"
    )

    async def story() -> list[Any]:
        async with started(node_file, python, settings=node_limits()) as lab:
            await lab.shown("agent_start")
            await lab.until(lambda: lab.acts)
            await lab.shown("agent_end")
            await lab.until(lambda: len(lab.acts) == 3)
            return sorted(params["customType"] for _, params in lab.acts)

    assert asyncio.run(story()) == ["node", "node heard", "python"]


@pytest.mark.parametrize("name", ["mjs", "js"])
def test_javascript_is_loaded_too(tmp_path: Path, name: str) -> None:
    source = (
        tool("[1, import.meta.url.length > 0]")
        .replace(": unknown", "")
        .replace(": any", "")
        .replace(": Promise<any>", "")
    )
    assert value_of(script(tmp_path, source, f"one.{name}")) == [1, True]


def test_renderers_and_components_are_lines_in_the_terminal_interface(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("COLORTERM", "NO_COLOR", "WT_SESSION"):
        monkeypatch.delenv(name, raising=False)
    source = """
    import { Text, Container, Spacer } from "@earendil-works/pi-tui";
    export default function (pi: any) {
        pi.registerMessageRenderer("note", (message: any, options: any, theme: any) => {
            const box = new Container();
            box.addChild(new Text(theme.fg("accent", theme.bold(message.content)), 0, 0));
            box.addChild(new Text(options.expanded ? "more [accent] text" : "", 0, 0));
            return box;
        });
        pi.on("session_start", (event: any, ctx: any) => {
            ctx.ui.setWidget("w", (tui: any, theme: any) => new Text("a widget", 0, 0));
            ctx.ui.setFooter((tui: any, theme: any, data: any) => ({ render: (width: number) => ["x".repeat(3)], invalidate() {} }));
            void ctx.ui.custom(() => { throw new Error("not called"); });
            void ctx.ui.custom(() => { throw new Error("not called"); });
        });
    }
    """

    async def story() -> None:
        async with started(script(tmp_path, source), settings=node_limits(), mode="tui") as lab:
            lab.facts["mode"] = "tui"
            await lab.shown("session_start", reason="startup")
            await lab.until(lambda: len(lab.acts) >= 3)
            acts = dict(lab.acts)
            assert acts["set_widget"]["widgetLines"] == ["a widget"]
            assert acts["set_footer"] == {"lines": ["xxx"]}
            assert "draws its own screen" in acts["notify"]["message"]
            assert [name for name, _ in lab.acts].count("notify") == 1
            draw = lab.extensions.terminal.message_renderers["note"].call
            data = {"content": "hello", "customType": "note"}
            drawn = await draw({"part": "message", "data": data, "width": 40, "options": {"expanded": True}})
            assert [line.strip() for line in drawn] == [
                "\x1b[38;5;109m\x1b[1mhello\x1b[22m\x1b[39m",
                "more [[accent] text",
            ]

    asyncio.run(story())

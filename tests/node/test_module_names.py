"""Names and files that TypeScript extensions import in the ways that pi's own loader allows."""

# ruff: noqa: E501  # lines of extensions

from __future__ import annotations

import asyncio
import stat
import subprocess
from hashlib import sha256
from pathlib import Path

import pytest

from node.test_loading import HOST, tool, value_of
from support.extension_processes import Found
from support.extension_processes import running as started
from support.node_program import node, node_limits, script
from tau.store.typescript_cache import FORMAT


def test_types_that_are_exported_again_or_have_the_name_of_a_property_are_no_link_errors(tmp_path: Path) -> None:
    types = """
    export interface Shape { a: number }
    export type Name = string;
    export const real = 1, other = 2;
    export enum Level { Low, High }
    """
    script(tmp_path, types, "types.ts")
    script(tmp_path, "export type Only = string; export interface Shape { b: number }", "only.ts")
    script(tmp_path, 'export { Shape, Name, real, Level } from "./types"; export * from "./only.js";', "index.ts")
    head = """
    import { Shape, Only, real, Level } from "./index";
    import { Only as Again } from "./only";
    export { Again, Only };
    const shape: Shape = { a: real };
    const object: any = { Only: 3, Shape: 4 };
    """
    body = "[shape.a, Level.High, object.Only, object.Shape]"
    assert value_of(script(tmp_path, tool(body, head))) == [1, 1, 3, 4]


def test_modules_of_pi_are_imported_and_required_anywhere(tmp_path: Path) -> None:
    script(tmp_path, '{"name": "old", "main": "index.cjs"}', "node_modules/old/package.json")
    script(tmp_path, 'exports.Type = require("@sinclair/typebox").Type;', "node_modules/old/index.cjs")
    script(tmp_path, 'export const required: any = require("./old.cts").value;', "uses.ts")
    script(tmp_path, "const value: number = 7; module.exports = { value };", "old.cts")
    head = """
    import { Type } from "typebox";
    import { required } from "./uses";
    import old from "old";
    import { Value } from "typebox/value";
    const late = await import("@mariozechner/pi-ai/compat");
    const dates = ["2024-02-29", "2023-02-29"].map((text) => Value.Check(Type.String({ format: "date" }), text));
    """
    body = "[old.Type === Type, late.Type === Type, require('typebox').Type === Type, required, dates]"
    assert value_of(script(tmp_path, tool(body, head))) == [True, True, True, 7, [True, False]]


def test_imports_of_a_package_need_no_ending(tmp_path: Path) -> None:
    manifest = (
        '{"name": "pack", "type": "module", "imports": {"#src/*": "./src/*"}, "pi": {"extensions": ["./main.ts"]}}'
    )
    script(tmp_path, manifest, "package.json")
    script(tmp_path, "export const part: string = 'found';", "src/part.ts")
    script(tmp_path, "export const inner: string = 'index';", "src/deep/index.ts")
    head = 'import { part } from "#src/part"; import { inner } from "#src/deep"; import { part as again } from "#src/part.js";'
    file = script(tmp_path, tool("[part, inner, again]", head), "main.ts")
    assert value_of(file, tmp_path) == ["found", "index", "found"]


def test_a_default_export_inside_a_default_export_is_the_factory(tmp_path: Path) -> None:
    source = tool("1").replace("export default function", "function factory") + "\nexport default { default: factory };"
    assert value_of(script(tmp_path, source)) == 1


def test_jsx_is_refused_and_generics_are_not(tmp_path: Path) -> None:
    script(tmp_path, "export const view = () => <div>text</div>;", "view.tsx")
    script(tmp_path, "export const same = <T,>(x: T): T => x;", "same.tsx")
    with_jsx = script(tmp_path, tool("view()", 'import { view } from "./view";'), "one.ts")
    fine = script(tmp_path, tool("same(3)", 'import { same } from "./same.js";'), "two.ts")

    async def story() -> None:
        async with started(with_jsx, fine, settings=node_limits()) as lab:
            assert [error.extension_path for error in lab.errors] == [str(with_jsx)]
            assert "JSX is not supported" in lab.errors[0].error
            assert (await lab.tool("value")).details == {"value": 3}

    asyncio.run(story())


def test_while_it_loads_an_extension_can_register_and_emit_but_not_act(tmp_path: Path) -> None:
    source = """
    export default async function (pi: any) {
        const seen: unknown[] = [];
        pi.events.on("news", (data: any) => seen.push(data));
        pi.events.emit("news", 1);
        seen.push((await pi.exec("echo", ["run"])).stdout, pi.getFlag("none") === undefined);
        pi.unregisterProvider("none");
        for (const name of ["sendMessage", "appendEntry", "getActiveTools", "setModel", "getCommands", "setLabel"]) {
            try { pi[name]("x", "y"); } catch (error: any) { seen.push(error.message.split(".")[0]); }
        }
        pi.registerTool({ name: "seen", description: "d", parameters: { type: "object", properties: {} },
            execute: async () => ({ content: [], details: { seen } }) });
    }
    """

    async def story() -> None:
        async with started(Found(script(tmp_path, source)), settings=node_limits()) as lab:
            assert lab.told == []
            assert (await lab.tool("seen")).details["seen"] == [
                *(1, "run\n", True),
                *["Extension runtime not initialized"] * 6,
            ]

    asyncio.run(story())


def test_a_second_agent_is_refused_in_the_same_words_however_it_is_asked_for(tmp_path: Path) -> None:
    head = """
    import { createAgentSession, createExtensionRuntime, DefaultResourceLoader } from "@earendil-works/pi-coding-agent";
    import { Agent } from "@mariozechner/pi-agent-core";
    const attempts = [createAgentSession, createExtensionRuntime, () => new DefaultResourceLoader({}), () => new Agent({})];
    const words = await Promise.all(attempts.map(async (attempt: any) => attempt({})).map((one) => one.catch((error) => error.message)));
    """
    refusal = 'tau does not run agents inside extensions; start "pi --mode rpc" instead'
    assert value_of(script(tmp_path, tool("words", head))) == [refusal] * 4


@pytest.mark.promise("J12")
def test_code_without_types_is_kept_in_the_cache_of_the_agent_and_a_damaged_file_is_not_used(tmp_path: Path) -> None:
    agent = tmp_path / "agent"
    agent.mkdir()
    file = script(tmp_path, tool("'first'"))

    def value() -> str:
        async def story() -> str:
            async with started(Found(file), settings=node_limits(), agent_dir=str(agent)) as lab:
                assert lab.told == []
                return str((await lab.tool("value")).details["value"])

        return asyncio.run(story())

    assert value() == "first"
    (kept,) = (agent / "cache" / "typescript").iterdir()
    assert (stat.S_IMODE(kept.stat().st_mode), stat.S_IMODE(kept.parent.stat().st_mode)) == (0o600, 0o700)
    code = kept.read_text().partition("\n")[2].replace("first", "second")
    kept.write_text(f"{sha256(code.encode()).hexdigest()}\n{code}")
    assert value() == "second"
    kept.write_text(kept.read_text().replace("second", "third"))
    assert value() == "first"
    file.write_text(file.read_text().replace("first", "changed"))
    assert value() == "changed"


def test_an_extension_in_the_cache_is_loaded_without_openssl_and_what_changed_is_not_taken_from_there(
    tmp_path: Path,
) -> None:
    agent = tmp_path / "agent"
    agent.mkdir()
    part = script(tmp_path, "export const part: number = 1;", "pack/lib/part.ts")
    loaded = "process.moduleLoadList.includes('NativeModule internal/crypto/hash')"
    head = 'import { part } from "./lib/part";'
    main = script(tmp_path, tool(f"[part, {loaded}]", head), "pack/index.ts")

    def value() -> object:
        async def story() -> object:
            found = Found(main, package=main.parent)
            async with started(found, settings=node_limits(), agent_dir=str(agent)) as lab:
                assert lab.told == []
                return (await lab.tool("value")).details["value"]

        return asyncio.run(story())

    assert value() == [1, True]
    assert value() == [1, False]
    part.write_text("export const part: number = 2;")
    assert value() == [2, True]


def test_tau_and_the_host_agree_about_the_format_of_the_cache() -> None:
    assert f"const FORMAT = {FORMAT};" in (HOST / "stripping.mjs").read_text()


def test_the_names_of_the_own_modules_are_known_without_loading_them() -> None:
    program = """
    import { readdirSync } from "node:fs";
    import { definitionsOf } from "HOST/own_modules.mjs";
    for (const name of readdirSync("HOST/modules")) {
        const file = `HOST/modules/${name}`;
        const known = definitionsOf(file);
        const real = Object.keys(await import(file)).sort();
        if (JSON.stringify([...known.keys()].sort()) !== JSON.stringify(real)) throw new Error(name);
        for (const [one, origin] of known) if (!(one in (await import(origin)))) throw new Error(`${name}: ${one}`);
    }
    """
    source = program.replace("HOST", str(HOST))
    subprocess.run([node(), "--input-type=module", "-e", source], check=True, timeout=60)

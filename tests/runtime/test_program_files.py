"""What a program of an extension consists of: trust, the tools that write, sandbox and loader go by one list.

A TypeScript extension that the project's settings or `-e` name imports a file beside it, one in a folder below, one
that only its own helper imports, and an installed package.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from sandbox.launching import sandbox
from support.extension_processes import Found, running
from support.node_program import node, node_limits
from support.sandbox_escapes import LEVELS, missing
from tau.errors import ToolError
from tau.runtime.app.config import ProjectConfig
from tau.runtime.machine.files import LocalFiles
from tau.runtime.machine.jobs import ProcessLauncher
from tau.runtime.machine.local import LocalMachine
from tau.runtime.machine.protected_files import ProtectedFiles
from tau.store import extension_modules
from tau.store.extension_modules import module_digests, program_of
from tau.store.trust import decide, fingerprint, save_decision

GATE = """
import "./helper.js";
import { other } from "./lib/helper";
import dep from "dep";
const late = () => import(new URL("./late.ts", import.meta.url).href);
export default function (pi: any) {
    pi.on("tool_call", async (event: any) => {
        if (event.input.command === "late") await late();
        if (event.input.command === "computed") await import("./un" + "seen.ts");
        if (event.input.command === "crash") process.exit(9);
        return { block: true, reason: `${other} ${dep}` };
    });
}
"""
LOCK = json.dumps({"packages": {f"node_modules/{name}": {"integrity": "sha512-x"} for name in ("dep", "inner")}})
FILES = {
    "tools/gate.ts": GATE,
    "tools/helper.ts": 'import "../common/deep.ts";',
    "tools/lib/helper.ts": 'export const other = "first";',
    "tools/late.ts": "export {};",
    "tools/unseen.ts": "export {};",
    "tools/build.ts": "export {};",
    "common/deep.ts": "export {};",
    "node_modules/dep/package.json": '{"type": "module", "main": "i.js", "dependencies": {"inner": "*"}}',
    "node_modules/dep/i.js": 'import "inner"; export default "dep";',
    "node_modules/inner/package.json": '{"main": "i.js"}',
    "node_modules/inner/i.js": "",
    "node_modules/unused/i.js": "",
}
MEMBERS = [name for name in FILES if not name.endswith(("unseen.ts", "build.ts", "unused/i.js"))]
OTHERS = [name for name in FILES if name not in MEMBERS]
# What Node would load instead of a file that is there.
SHADOWS = [
    "tools/helper.js",
    "tools/lib/helper",
    "tools/node_modules/dep/i.js",
    "node_modules/dep/node_modules/inner/i.js",
]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    for name in ("home", "agent"):
        (tmp_path / name).mkdir()
    for name, text in FILES.items():
        put(folder, name, text)
    put(folder, ".pi/settings.json", json.dumps({"extensions": ["../tools/gate.ts"]}))
    return folder


def put(folder: Path, name: str, text: str) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def is_trusted(work: Path) -> bool:
    return decide(work, work.parent / "agent", approve=None).trusted


def trust(work: Path) -> None:
    save_decision(work, work.parent / "agent", trusted=True)


def config(work: Path, *given: str) -> ProjectConfig:
    node = {"extensionHost": {"node": os.path.realpath("/bin/sh")}}  # it is only looked for
    return ProjectConfig(work.parent / "agent", work, None, given, overruled=node)


@pytest.mark.promise("S06")
@pytest.mark.parametrize("name", [*MEMBERS, *SHADOWS])
def test_a_commit_that_changes_any_of_it_needs_a_new_decision(work: Path, name: str) -> None:
    trust(work)
    assert is_trusted(work)
    put(work, name, "changed")
    assert not is_trusted(work)


@pytest.mark.parametrize("name", OTHERS)
def test_a_commit_that_changes_other_files_needs_none(work: Path, name: str) -> None:
    trust(work)
    put(work, name, "changed")
    assert is_trusted(work)


@pytest.mark.promise("H03")
@pytest.mark.parametrize("given", [(), ("tools/gate.ts",), ("./gate.ts",)], ids=["project", "flag", "working folder"])
@pytest.mark.parametrize("trusted", [True, False])
def test_tools_write_none_of_it(work: Path, given: tuple[str, ...], trusted: bool) -> None:
    put(work, "gate.ts", 'import "./tools/gate.ts";')
    if given:
        (work / ".pi" / "settings.json").unlink()
    elif trusted:
        trust(work)
    guarded = ProtectedFiles(work.parent / "agent", work, None, config(work, *given).executables)
    files = LocalFiles(guarded=guarded)
    for name in [*MEMBERS, *SHADOWS]:
        with pytest.raises(ToolError, match="belongs to the agent's own"):
            files.replace(str(work / name), b"evil")
    for name in OTHERS:
        files.replace(str(work / name), b"fine")


def contents(folder: Path) -> Mapping[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.promise("X10")
@pytest.mark.parametrize("given", [(), ("./gate.ts",)], ids=["project", "working folder"])
@pytest.mark.parametrize("level", LEVELS)
def test_a_command_in_the_sandbox_changes_none_of_it(work: Path, level: str, given: tuple[str, ...]) -> None:
    if why := missing(level):
        pytest.skip(why)
    put(work, "gate.ts", 'import "./tools/gate.ts";')
    if given:
        (work / ".pi" / "settings.json").unlink()
    before = contents(work)
    made = sandbox(work.parent, level, protected=config(work, *given).executables())
    lines = [f"mkdir -p {os.path.dirname(name)}; echo evil > {name}" for name in (*MEMBERS, *SHADOWS)]
    lines += ["mv tools x", "mv node_modules y", *(f"echo fine > {name}" for name in OTHERS)]

    async def run() -> None:
        machine = LocalMachine(processes=ProcessLauncher(sandbox=made))
        for line in lines:
            await machine.run(line, cwd=made.tree, on_output=lambda stream, data: None)
        await machine.release()

    asyncio.run(run())
    assert contents(work) == {**before, **dict.fromkeys(OTHERS, "fine\n")}


@pytest.mark.parametrize("name", [".pi/extensions/node_modules/dep/i.js", ".pi/extensions/kit/node_modules/dep/i.js"])
def test_installed_packages_count_without_a_lock_file_and_with_one_that_does_not_list_them(
    work: Path, name: str
) -> None:
    put(work, name, "first")
    for lock in (None, "{}", '{"packages": {"node_modules/other": {"integrity": "sha512-x"}}}'):
        if lock is not None:
            put(work, f"{name.partition('/node_modules')[0]}/package-lock.json", lock)
        trust(work)
        assert is_trusted(work)
        put(work, name, f"changed beside {lock}")
        assert not is_trusted(work)


@pytest.mark.parametrize(
    ("lock", "text"), [("package-lock.json", LOCK), ("pnpm-lock.yaml", "  dep@1.0.0:\n  inner@2.0.0:\n")]
)
def test_a_lock_file_that_lists_installed_packages_stands_for_them(work: Path, lock: str, text: str) -> None:
    put(work, lock, text)
    trust(work)
    assert lock in fingerprint(work).files
    put(work, "node_modules/dep/i.js", "another version")
    assert is_trusted(work)
    put(work, lock, f"{text} ")
    assert not is_trusted(work)


def test_a_large_folder_around_an_extension_is_not_read(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extension_modules, "MAX_FILES", 20)
    for at in range(100):
        put(work, f"tools/{at}.ts", "export {};")
    assert len(module_digests(program_of(work / "tools" / "gate.ts"), installed=False)) == 5


@pytest.mark.parametrize("name", ["tools/helper.ts", "tools/lib/helper.ts", "common/deep.ts", "node_modules/dep/i.js"])
def test_an_extension_is_not_started_again_with_another_file(work: Path, name: str) -> None:
    async def story() -> None:
        found = Found(work / "tools" / "gate.ts", content=fingerprint(work).content)
        async with running(found, settings=node_limits(), folder=lambda: str(work)) as lab:
            assert (await lab.bash("ls"))["reason"] == "first dep"
            put(work, name, FILES[name] + "\n")
            await lab.bash("crash")
            await lab.until(lambda: [error for event, error in lab.told if event == "load"])
            assert f"{work / name} changed since the extension was loaded" in lab.told[-1][1]

    asyncio.run(story())


ROUNDABOUT = """
import { createRequire } from "node:module";
const folder = new URL(".", import.meta.url).pathname;
const hidden = folder + ["un", "seen"].join("");
const ways: any = {
    function: () => new Function("name", "return import(name)")(`${hidden}.mjs`),
    timer: () => new Promise((done, failed) => setTimeout(() => import(`${hidden}.mjs`).then(done, failed), 1)),
    data: () => import(`data:text/javascript,export { word } from "file://${hidden}.mjs"`),
    require: () => createRequire(`${folder}nothing.js`)(`${hidden}.cjs`),
    _load: () => (process as any).getBuiltinModule("module")._load(`${hidden}.cjs`, null, false),
};
export default (pi: any) => {
    pi.on("tool_call", async ({ input }: any) => ({ block: true, reason: (await ways[input.command]()).word }));
};
"""


@pytest.mark.parametrize("way", ["function", "timer", "data", "require", "_load"])
def test_a_file_is_not_imported_by_a_roundabout_way(work: Path, way: str) -> None:
    put(work, "tools/gate.ts", ROUNDABOUT)
    put(work, "tools/unseen.mjs", "export const word = 'run';")
    put(work, "tools/unseen.cjs", "exports.word = 'run';")

    own = Found(work.parent / "home" / "own.ts")
    put(work.parent, "home/own.ts", ROUNDABOUT.replace('"."', f'"../{work.name}/tools/"'))
    bound = Found(work / "tools" / "gate.ts", content=fingerprint(work).content)
    cwd = str(work.parent / "agent")

    async def story() -> None:
        async with running(own, settings=node_limits(), folder=lambda: cwd) as lab:
            assert (await lab.bash(way))["reason"] == "run"
        async with running(bound, settings=node_limits(), folder=lambda: cwd) as lab:
            assert "was not seen when tau looked" in (await lab.bash(way))["reason"]
        put(work.parent, "home/own.ts", own.path.read_text().replace("block: true", "block: false"))
        async with running(own, bound, settings=node_limits(), folder=lambda: cwd) as lab:
            assert "was not seen when tau looked" in (await lab.bash(way))["reason"]
            unclear = way in ("data", "require", "_load")  # whose import it is cannot be told
            assert [error.extension_path for error in lab.errors] == [str(own.path if unclear else bound.path)]

    asyncio.run(story())


@pytest.mark.parametrize("bound", [True, False], ids=["in a trusted project", "in the working folder"])
def test_a_file_whose_path_is_computed_is_not_imported(work: Path, bound: bool) -> None:
    async def story() -> None:
        content = fingerprint(work).content if bound else None
        cwd = str(work.parent / "home" if bound else work)
        found = Found(work / "tools" / "gate.ts", content=content)
        async with running(found, settings=node_limits(), folder=lambda: cwd) as lab:
            assert (await lab.bash("late"))["reason"] == "first dep"
            answer = await lab.bash("computed")
            assert answer["block"] and f"{work / 'tools' / 'unseen.ts'} was not seen" in answer["reason"]
            put(work, "tools/late.ts", "changed")  # imported already, so this does not matter
            assert (await lab.bash("late"))["reason"] == "first dep"

    asyncio.run(story())


def test_an_extension_of_the_user_may_compute_paths(work: Path) -> None:
    async def story() -> None:
        cwd = str(work.parent / "home")
        async with running(Found(work / "tools" / "gate.ts"), settings=node_limits(), folder=lambda: cwd) as lab:
            assert (await lab.bash("computed"))["reason"] == "first dep"

    asyncio.run(story())


def test_a_package_that_a_lock_file_lists_is_imported_with_what_it_depends_on(work: Path) -> None:
    async def story() -> None:
        put(work, "package-lock.json", LOCK)
        found = Found(work / "tools" / "gate.ts", content=fingerprint(work).content)
        async with running(found, settings=node_limits(), folder=lambda: str(work)) as lab:
            assert (await lab.bash("ls"))["reason"] == "first dep"

    assert node()
    asyncio.run(story())

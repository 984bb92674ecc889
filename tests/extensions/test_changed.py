"""An extension is started again only from the files that it was loaded from, or that were trusted."""

from __future__ import annotations

import asyncio
import hashlib
import os
from pathlib import Path

import pytest

from support.extension_processes import Found, Lab, running, written
from tau.errors import ExtensionFailure
from tau.store import extension_modules
from tau.store.extension_modules import Program, module_digests, module_files

GATE = """
    import os

    def setup(pi):
        @pi.on("tool_call")
        def gate(event, ctx):
            if event.input["command"] == "crash":
                os._exit(9)
            return {{"block": True, "reason": "{version}"}}
"""
RELOAD = "Reload the extensions, or start tau again, to use the new version."


def gate(folder: Path, version: str, mark: Path | None = None) -> Path:
    """`mark` is made when the file is executed."""
    file = written(folder, GATE.format(version=version))
    if mark is not None:
        file.write_text(f"open({str(mark)!r}, 'w').close()\n{file.read_text()}")
    return file


def package(folder: Path) -> Path:
    place = folder / "pack"
    (place / "inner").mkdir(parents=True)
    (place / "inner" / "__init__.py").write_text("TEXT = 'inner'\n")
    (place / "rules.py").write_text("TEXT = 'old'\n")
    (place / "late.py").write_text("TEXT = 'late'\n")
    (place / "data.json").write_text("{}")
    (place / "__init__.py").write_text(
        "import os\n"
        "from .rules import TEXT\n"
        "def setup(pi):\n"
        "    @pi.on('tool_call')\n"
        "    def gate(event, ctx):\n"
        "        if event.input['command'] == 'crash':\n"
        "            os._exit(9)\n"
        "        if event.input['command'] == 'late':\n"
        "            from .late import TEXT as late\n"
        "            return {'block': True, 'reason': late}\n"
        "        return {'block': True, 'reason': TEXT}\n"
    )
    return place


async def crash(lab: Lab) -> None:
    assert (await lab.bash("crash"))["block"] is True


def load_errors(lab: Lab) -> str:
    return " | ".join(error for event, error in lab.told if event == "load")


def test_a_file_that_changed_is_not_executed_after_a_crash_and_its_gate_stays_shut(tmp_path: Path) -> None:
    async def story() -> None:
        file, mark = gate(tmp_path, "first"), tmp_path / "mark"
        async with running(file) as lab:
            gate(tmp_path, "changed", mark)
            await crash(lab)
            await lab.until(lambda: load_errors(lab))
            why = f"{file} changed since the extension was loaded. {RELOAD}"
            assert load_errors(lab) == f"It ended and is not restarted: {why}"
            assert "is not restarted" in (await lab.bash("ls"))["reason"]
            gate(tmp_path, "first")  # too late: only a reload looks again
            assert "is not restarted" in (await lab.bash("ls"))["reason"]
            assert not mark.exists()

    asyncio.run(story())


def test_a_reload_uses_the_new_version(tmp_path: Path) -> None:
    async def story() -> None:
        file = gate(tmp_path, "first")
        async with running(file) as lab:
            gate(tmp_path, "second")
            await crash(lab)
            await lab.until(lambda: load_errors(lab))
            await lab.reload(file)
            assert await lab.bash("ls") == {"block": True, "reason": "second"}

    asyncio.run(story())


def test_a_file_that_did_not_change_is_started_again(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(gate(tmp_path, "first"), package(tmp_path)) as lab:
            await crash(lab)
            assert (await lab.bash("ls"))["block"] is True
            assert load_errors(lab) == ""

    asyncio.run(story())


@pytest.mark.parametrize("name", ["rules.py", "late.py", "inner/__init__.py", "new.py", "native.so", "lib/new.py"])
def test_any_module_of_a_package_counts(name: str, tmp_path: Path) -> None:
    async def story() -> None:
        place = package(tmp_path)
        async with running(place) as lab:
            (place / "lib").mkdir()
            (place / name).write_text("TEXT = 'changed'\n")
            await crash(lab)
            await lab.until(lambda: load_errors(lab))
            assert f"{place / name} changed since the extension was loaded" in load_errors(lab)

    asyncio.run(story())


def test_a_module_that_is_removed_counts(tmp_path: Path) -> None:
    async def story() -> None:
        place = package(tmp_path)
        async with running(place) as lab:
            (place / "late.py").unlink()
            await crash(lab)
            await lab.until(lambda: load_errors(lab))
            assert f"{place / 'late.py'} changed since" in load_errors(lab)

    asyncio.run(story())


@pytest.mark.parametrize("name", ["data.json", "__pycache__/rules.cpython-311.pyc", ".git/x.py", "notes.txt"])
def test_files_that_are_no_modules_may_change(name: str, tmp_path: Path) -> None:
    async def story() -> None:
        place = package(tmp_path)
        async with running(place) as lab:
            (place / name).parent.mkdir(exist_ok=True)
            (place / name).write_text("changed")
            await crash(lab)
            assert await lab.bash("ls") == {"block": True, "reason": "old"}

    asyncio.run(story())


def test_a_module_that_is_imported_late_is_the_one_of_the_first_load_or_none(tmp_path: Path) -> None:
    async def story() -> None:
        place = package(tmp_path)
        async with running(place) as lab:
            (place / "late.py").write_text("TEXT = 'changed'\n")
            assert f"{place / 'late.py'} changed since the extension was loaded" in (await lab.bash("late"))["reason"]

    asyncio.run(story())


@pytest.mark.parametrize("change", ["changed", "added"])
def test_a_file_that_is_not_as_it_was_trusted_is_not_loaded(change: str, tmp_path: Path) -> None:
    async def story() -> None:
        place, mark = package(tmp_path), tmp_path / "mark"
        content = {
            os.path.realpath(file): hashlib.sha256(file.read_bytes()).hexdigest()
            for file in module_files(Program([place]))
        }
        async with running(Found(place, content=content)) as lab:
            assert await lab.bash("ls") == {"block": True, "reason": "old"}
        (place / ("rules.py" if change == "changed" else "more.py")).write_text(f"open({str(mark)!r}, 'w').close()\n")
        async with running(Found(place, content=content)) as lab:
            assert "changed since the project was trusted" in load_errors(lab)
            assert not mark.exists()

    asyncio.run(story())


def test_a_package_with_too_much_in_it_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = package(tmp_path)
    assert len(module_digests(Program([place]))) == 4
    monkeypatch.setattr(extension_modules, "MAX_FILES", 3)
    with pytest.raises(ExtensionFailure, match="more than 3 modules"):
        module_digests(Program([place]))


def test_a_virtual_environment_in_a_package_is_no_part_of_it(tmp_path: Path) -> None:
    place = package(tmp_path)
    (place / "venv").mkdir()
    (place / "venv" / "pyvenv.cfg").touch()
    (place / "venv" / "x.py").touch()
    assert len(module_files(Program([place]))) == 4


def test_a_package_that_contains_itself_is_refused(tmp_path: Path) -> None:
    place = package(tmp_path)
    (place / "again").symlink_to(place)
    with pytest.raises(ExtensionFailure, match="contains itself through a link"):
        module_files(Program([place]))

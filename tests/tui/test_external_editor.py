"""The external editor: which one, the hand-over, the private file, and failures."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tau.tui.external_editor import EditedText, edit_externally, editor_command


def script(folder: Path, name: str, content: str) -> str:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{content}\n")
    file.chmod(0o755)
    return str(file)


class Handover:
    def __init__(self) -> None:
        self.steps: list[str] = []

    @contextmanager
    def __call__(self) -> Iterator[None]:
        self.steps.append("given")
        try:
            yield
        finally:
            self.steps.append("taken")


def edit(text: str, command: list[str] | None) -> tuple[EditedText, list[str]]:
    handover = Handover()
    return asyncio.run(edit_externally(text, command, handover())), handover.steps


def test_the_order_of_editors(tmp_path: Path) -> None:
    script(tmp_path, "vi", "")
    environment = {"PATH": str(tmp_path), "VISUAL": "code --wait", "EDITOR": "ed"}
    assert editor_command("my 'odd editor' -x", environment, "/nowhere") == ["my", "odd editor", "-x"]
    assert editor_command(None, environment, "/nowhere") == ["code", "--wait"]
    assert editor_command("", {**environment, "VISUAL": " "}, "/nowhere") == ["ed"]
    assert editor_command(None, {"PATH": str(tmp_path)}, "/nowhere") == [str(tmp_path / "vi")]
    script(tmp_path, "nano", "")
    assert editor_command(None, {"PATH": str(tmp_path)}, "/nowhere") == [str(tmp_path / "nano")]
    assert editor_command(None, {"PATH": "/does/not/exist"}, "/nowhere") is None


def test_the_text_is_edited_in_a_private_file_that_is_removed(tmp_path: Path) -> None:
    look = script(
        tmp_path,
        "look",
        f'stat -c "%a" "$1" "${{1%/*}}" > {tmp_path}/modes; echo "$1" > {tmp_path}/name; echo more >> "$1"',
    )
    edited, steps = edit("first\nsecond ü\n", [look])
    assert edited == EditedText("first\nsecond ü\nmore\n")
    assert steps == ["given", "taken"]
    assert (tmp_path / "modes").read_text().split() == ["600", "700"]
    file = Path((tmp_path / "name").read_text().strip())
    assert file.name == "prompt.md"
    assert not file.parent.exists()


def test_the_line_feed_that_editors_add_is_removed(tmp_path: Path) -> None:
    assert edit("one", [script(tmp_path, "add", 'echo >> "$1"')])[0] == EditedText("one")


@pytest.mark.promise("T10")
def test_a_failing_editor_leaves_the_text_and_the_terminal_is_taken_back(tmp_path: Path) -> None:
    edited, steps = edit("one", [script(tmp_path, "fail", 'echo x > "$1"; exit 3')])
    assert edited.text is None
    assert "exit code 3" in edited.error
    assert steps == ["given", "taken"]
    edited, steps = edit("one", ["/does/not/exist"])
    assert edited.text is None
    assert "No such file" in edited.error
    assert steps == ["given", "taken"]
    edited, steps = edit("one", None)
    assert "$EDITOR" in edited.error
    assert steps == []


def test_the_event_loop_goes_on_meanwhile(tmp_path: Path) -> None:
    """The editor ends only when the loop has written a file."""
    waits = script(tmp_path, "waits", f"while [ ! -e {tmp_path}/go ]; do sleep 0.01; done")

    async def scene() -> EditedText:
        editing = asyncio.ensure_future(edit_externally("one", [waits], Handover()()))
        await asyncio.sleep(0)
        (tmp_path / "go").touch()
        return await asyncio.wait_for(editing, 30)

    assert asyncio.run(scene()) == EditedText("one")


def test_cancelling_ends_the_editor_and_removes_the_file(tmp_path: Path) -> None:
    hangs = script(tmp_path, "hangs", f'echo "$1" > {tmp_path}/name; exec sleep 1000')
    handover = Handover()

    async def scene() -> None:
        editing = asyncio.ensure_future(edit_externally("one", [hangs], handover()))
        while not (tmp_path / "name").exists() or not (tmp_path / "name").read_text().endswith("\n"):
            await asyncio.sleep(0.01)
        editing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await editing

    asyncio.run(asyncio.wait_for(scene(), 30))
    assert handover.steps == ["given", "taken"]
    assert not Path((tmp_path / "name").read_text().strip()).exists()

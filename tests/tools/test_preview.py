"""What an edit or a write would change, before it is made."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tau.runtime.machine.files import LocalFiles
from tau.tools.preview import MAX_PREVIEW_BYTES, preview_change


def preview(folder: Path, tool: str, **arguments: Any) -> str:
    return preview_change(tool, arguments, str(folder), LocalFiles())


def test_an_edit(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one\ntwo\nthree\n")
    assert preview(tmp_path, "edit", path="a.txt", oldText="two", newText="zwei") == " 1 one\n-2 two\n+2 zwei\n 3 three"
    edits = [{"oldText": "one", "newText": "1"}, {"oldText": "three", "newText": "3"}]
    assert preview(tmp_path, "edit", path="a.txt", edits=edits) == "-1 one\n+1 1\n 2 two\n-3 three\n+3 3"
    assert file.read_text() == "one\ntwo\nthree\n"


def test_a_write(tmp_path: Path) -> None:
    assert preview(tmp_path, "write", path="new/a.txt", content="one\n") == "+1 one"
    assert not (tmp_path / "new").exists()
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    assert preview(tmp_path, "write", path="a.txt", content="one\nzwei\n") == " 1 one\n-2 two\n+2 zwei"
    assert preview(tmp_path, "write", path="a.txt", content="one\ntwo\n") == "! The file does not change."


def test_a_call_that_would_fail_says_why(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    assert preview(tmp_path, "edit", path="none.txt", oldText="a", newText="b") == "! File not found: none.txt"
    assert preview(tmp_path, "edit", path="a.txt", oldText="two", newText="b").startswith("! ")
    assert preview(tmp_path, "write", path=".", content="x").startswith("! ")


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert preview(tmp_path, "edit", path="pipe", oldText="a", newText="b").startswith("! ")
    assert preview(tmp_path, "write", path="pipe", content="b").startswith("! ")


def test_what_is_too_large_is_not_compared(tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"x" * (MAX_PREVIEW_BYTES + 1))
    assert "the change is not shown" in preview(tmp_path, "edit", path="big", oldText="x", newText="y")
    assert "the change is not shown" in preview(tmp_path, "write", path="big", content="y")
    assert "too much to show" in preview(tmp_path, "write", path="new", content="y" * (MAX_PREVIEW_BYTES + 1))


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [("bash", {"command": "true"}), ("edit", {"file": "a"}), ("write", {"path": 5, "content": 5}), ("edit", {})],
)
def test_other_tools_and_other_arguments_have_no_preview(tmp_path: Path, tool: str, arguments: Any) -> None:
    assert preview_change(tool, arguments, str(tmp_path), LocalFiles()) == ""

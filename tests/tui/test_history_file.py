"""The history file: per project, private, merged between processes, bounded."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tau.screen.editor import Editor
from tau.screen.history import MAX_ENTRIES, History, HistoryEntry
from tau.tui import history_file
from tau.tui.history_file import HistoryFile


def texts(file: HistoryFile) -> list[str]:
    return [entry.text for entry in file.load()]


def test_prompts_of_one_project_come_back_in_order(tmp_path: Path) -> None:
    here, there = HistoryFile(tmp_path, "/here"), HistoryFile(tmp_path, "/there")
    assert here.load() == []
    here.append(HistoryEntry("first"))
    there.append(HistoryEntry("other"))
    here.append(HistoryEntry("zweite\nZeile 漢字"))
    assert texts(here) == ["first", "zweite\nZeile 漢字"]
    assert texts(there) == ["other"]


def test_prompts_of_another_process_are_noticed(tmp_path: Path) -> None:
    mine, theirs = HistoryFile(tmp_path, "/here"), HistoryFile(tmp_path, "/here")
    mine.load()
    assert not mine.changed()
    theirs.append(HistoryEntry("theirs"))
    assert mine.changed()
    assert texts(mine) == ["theirs"]
    assert not mine.changed()


def test_the_file_and_its_folder_are_private(tmp_path: Path) -> None:
    file = HistoryFile(tmp_path / "agent", "/here")
    file.append(HistoryEntry("secret"))
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.path.parent.stat().st_mode) == 0o700


def test_pastes_come_back_as_markers(tmp_path: Path) -> None:
    file = HistoryFile(tmp_path, "/here")
    editor = Editor()
    editor.insert("see ")
    editor.paste("x\n" * 20)
    editor.take()
    file.append(editor.history.entries[-1])
    later = Editor(History(file.load()))
    later.perform("tui.editor.historyPrevious")
    assert later.text == "see [paste #1 +21 lines]"
    assert later.expanded() == "see " + "x\n" * 20


def test_lines_that_cannot_be_read_are_skipped(tmp_path: Path) -> None:
    file = HistoryFile(tmp_path, "/here")
    file.append(HistoryEntry("one"))
    with open(file.path, "ab") as raw:
        raw.write(b'\xff\xfe\n[1]\n{"project": "/here", "text": 7}\n{"project": "/here"}\n')
        raw.write(b'{"project": "/here", "text": "\\ud800"}\n{"project": "/here", "text": "\\u001b"}\n')
        raw.write(b'{"project": "/here", "text": "abc", "pastes": [[2, 1], [0, 99]]}\n{"project": "/here", "te')
    file.append(HistoryEntry("two"))  # after a line that was torn
    assert texts(file) == ["one", "abc", "two"]


def test_only_the_newest_entries_are_loaded(tmp_path: Path) -> None:
    file = HistoryFile(tmp_path, "/here")
    lines = (f'{{"project": "/here", "text": "{number}"}}\n' for number in range(MAX_ENTRIES + 10))
    file.path.write_text("".join(lines))
    assert (len(file.load()), file.load()[0].text) == (MAX_ENTRIES, "10")


def test_a_large_file_is_written_again_with_the_newest_of_each_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_file, "MAX_FILE_BYTES", 20_000)
    monkeypatch.setattr(history_file, "KEPT_BYTES", 10_000)
    file, other = HistoryFile(tmp_path, "/here"), HistoryFile(tmp_path, "/other")
    for number in range(1000):
        file.append(HistoryEntry(f"prompt {number}"))
        if number == 990:
            other.append(HistoryEntry("other"))
    assert file.path.stat().st_size <= 20_100
    assert texts(file)[-1] == "prompt 999"
    assert texts(other) == ["other"]
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600


def test_a_very_long_prompt_is_not_written(tmp_path: Path) -> None:
    file = HistoryFile(tmp_path, "/here")
    file.append(HistoryEntry("x" * 1_000_000))
    assert file.load() == []


def test_a_pipe_in_its_place_does_not_block(tmp_path: Path) -> None:
    file = HistoryFile(tmp_path, "/here")
    os.mkfifo(file.path)
    with pytest.raises(OSError, match="regular"):
        file.load()
    with pytest.raises(OSError, match="regular"):
        file.append(HistoryEntry("x"))


WRITER = """
import sys
from pathlib import Path
from tau.screen.history import HistoryEntry
from tau.tui.history_file import HistoryFile
file = HistoryFile(Path(sys.argv[1]), "/here")
for number in range(30):
    file.append(HistoryEntry(f"{sys.argv[2]} {number}"))
"""


def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), name]) for name in "abc"]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    found = texts(HistoryFile(tmp_path, "/here"))
    for name in "abc":
        assert [text for text in found if text.startswith(name)] == [f"{name} {number}" for number in range(30)]
    assert not (tmp_path / "tau_history.jsonl.lock").exists()


def test_a_line_that_is_nested_too_deeply_is_skipped(tmp_path: Path) -> None:
    file = HistoryFile(tmp_path, "/here")
    file.append(HistoryEntry("before"))
    with file.path.open("ab") as raw:
        raw.write(b'{"project":"/here","text":' + b"[" * 100_000 + b"\n")
    file.append(HistoryEntry("after"))
    assert texts(file) == ["before", "after"]
    assert history_file._newest(file._lines()) != []

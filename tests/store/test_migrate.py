from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.loop_kit import user
from tau.records.base import encode
from tau.runtime.history.session_log import SessionLog
from tau.store.journal import Disk, Journal
from tau.store.migrate import migrate_lines
from tau.store.sessions import OpenedSession, open_session

Json = dict[str, Any]
TIME = "2025-12-01T10:00:00.000Z"


def message(role: str, text: str, **more: Any) -> Json:
    return {"type": "message", "timestamp": TIME, "message": {"role": role, "content": text, "timestamp": 1, **more}}


V1: list[Json] = [
    {"type": "session", "id": "old-1", "timestamp": TIME, "cwd": "/w", "provider": "p", "modelId": "m"},
    message("user", "one"),
    message("user", "two", mood="odd"),
    {"type": "thinking_level_change", "timestamp": TIME, "thinkingLevel": "high"},
    {"type": "compaction", "timestamp": TIME, "summary": "S", "firstKeptEntryIndex": 2, "tokensBefore": 7},
    {"type": "novelty", "timestamp": TIME, "data": [1.5, None]},
    message("user", "three"),
]
V2: list[Json] = [
    {"type": "session", "version": 2, "id": "old-2", "timestamp": TIME, "cwd": "/w"},
    {**message("user", "one"), "id": "a", "parentId": None},
    {**message("hookMessage", "hey", customType="x", display=True), "id": "b", "parentId": "a"},
    {**message("user", "other"), "id": "c", "parentId": "a"},
]


def write(path: Path, lines: list[Json], end: bytes = b"\n") -> bytes:
    data = b"\n".join(encode(line) for line in lines) + end
    path.write_bytes(data)
    return data


def lift(lines: list[Json]) -> list[Json]:
    problems: list[str] = []
    made = migrate_lines([encode(line) for line in lines], lambda line, what: problems.append(what))
    assert problems == []
    return [json.loads(line) for line in made]


def resumed(path: Path) -> SessionLog:
    return SessionLog.resumed(open_session(path), _unexpected)


def _unexpected(error: OSError) -> None:
    raise AssertionError(error)


def texts(found: OpenedSession) -> list[str]:
    log = SessionLog(found.header, None, _unexpected, found.tree)
    return [said.get("content", said.get("summary")) for said in json.loads(b"".join(log.messages_json()))]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.jsonl"


def test_entries_of_version_1_follow_each_other() -> None:
    header, *entries = lift(V1)
    assert header == {**V1[0], "version": 3}
    ids = [entry["id"] for entry in entries]
    assert (len(set(ids)), {len(id) for id in ids}) == (6, {8})
    assert [entry["parentId"] for entry in entries] == [None, *ids[:-1]]
    kept = {**V1[4], "firstKeptEntryId": ids[1]}
    del kept["firstKeptEntryIndex"]
    without = [{key: value for key, value in entry.items() if key not in ("id", "parentId")} for entry in entries]
    assert without == [*V1[1:4], kept, *V1[5:]]


@pytest.mark.parametrize("index", [0, -1, 99, 4])
def test_a_compaction_of_version_1_that_points_nowhere_keeps_nothing(index: int, path: Path) -> None:
    write(path, [*V1[:4], {**V1[4], "firstKeptEntryIndex": index}, *V1[5:]])
    assert texts(open_session(path)) == ["S", "three"]


def test_a_hook_message_of_version_2_is_called_custom() -> None:
    said = {**V2[2]["message"], "role": "custom"}
    assert lift(V2) == [{**V2[0], "version": 3}, V2[1], {**V2[2], "message": said}, V2[3]]


def test_ids_are_given_once() -> None:
    entries = lift([V1[0], *[message("user", "x")] * 20_000])[1:]
    assert len({entry["id"] for entry in entries}) == 20_000


def test_an_old_session_is_read_without_a_change_to_its_file(path: Path) -> None:
    for lines, expected in ((V1, ["S", "two", "three"]), (V2, ["one", "other"])):
        data = write(path, lines)
        found = open_session(path)
        assert (texts(found), found.problems, found.size) == (expected, [], len(data))
        assert found.header.version == 3
        resumed(path).close()
        assert (path.read_bytes(), [*path.parent.iterdir()]) == (data, [path])


@pytest.mark.parametrize("end", [b"\n", b"", b"\r\n", b'\n{"torn', b"\n\0\0\0"])
@pytest.mark.parametrize("lines", [V1, V2], ids=["v1", "v2"])
def test_with_the_first_addition_the_file_is_lifted_and_the_old_one_kept(
    path: Path, lines: list[Json], end: bytes
) -> None:
    old = write(path, lines, end)
    path.chmod(0o644)
    log = resumed(path)
    before = list(log.tree.after(None))
    log.append_message(user("new"))
    log.append_message(user("newer"))
    log.close()
    backup = path.with_name("s.jsonl.bak")
    assert sorted(path.parent.iterdir()) == [path, backup]
    assert (backup.read_bytes(), backup.stat().st_mode & 0o777, path.stat().st_mode & 0o777) == (old, 0o600, 0o600)
    again = open_session(path)
    assert (again.migrated_lines, again.problems, again.header.version) == (None, [], 3)
    assert list(again.tree.after(None)) == [*before, *list(log.tree.after(None))[-2:]]
    assert [*again.tree.branch[-2:]] == [len(again.tree) - 2, len(again.tree) - 1]


def test_a_line_that_cannot_be_read_is_left_out_of_the_lifted_file_and_told(path: Path) -> None:
    write(path, V1[:2])
    with path.open("ab") as file:
        file.write(b"garbage\nnull\n" + encode(V1[2]) + b"\n")
    found = open_session(path)
    assert texts(found) == ["one", "two"]
    assert [problem.split(" (")[0] for problem in found.problems] == [
        "line 3: unreadable, skipped",
        "line 4: unreadable, skipped",
    ]


def test_many_problems_of_an_old_file_are_counted(path: Path) -> None:
    write(path, V1)
    with path.open("ab") as file:
        file.write(b"garbage\n" * 1000)
    assert open_session(path).problems[-1] == "and 995 more like these"


def test_a_lifted_file_is_still_locked(path: Path) -> None:
    write(path, V1)
    log = resumed(path)
    log.append_message(user("new"))
    found = open_session(path)
    with pytest.raises(Exception, match=f"in use by process {os.getpid()}"):
        SessionLog.resumed(found, _unexpected)
    log.close()


def test_an_earlier_backup_is_not_written_over(path: Path) -> None:
    old = write(path, V1)
    for name in ("s.jsonl.bak", "s.jsonl.bak2"):
        path.with_name(name).write_text("precious")
    resumed(path).append_message(user("new"))
    assert path.with_name("s.jsonl.bak").read_text() == path.with_name("s.jsonl.bak2").read_text() == "precious"
    assert path.with_name("s.jsonl.bak3").read_bytes() == old


def test_a_link_to_an_old_session_stays_a_link(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    old = write(there / "s.jsonl", V1)
    link = tmp_path / "link.jsonl"
    link.symlink_to(there / "s.jsonl")
    log = resumed(link)
    log.append_message(user("new"))
    assert link.is_symlink() and len(open_session(there / "s.jsonl").tree) == len(V1)
    assert (there / "s.jsonl.bak").read_bytes() == old


# When it goes wrong.


class Failing(Disk):
    """The n-th call fails."""

    def __init__(self, at: int) -> None:
        self.left = at

    def open(self, path: Path, flags: int) -> int:
        self._count()
        return super().open(path, flags)

    def write(self, handle: int, data: bytes | memoryview) -> int:
        self._count()
        return super().write(handle, data)

    def sync(self, handle: int) -> None:
        self._count()
        super().sync(handle)

    def _count(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise OSError(errno.ENOSPC, "No space left on device")


def test_a_lift_that_fails_at_any_call_leaves_the_old_file_and_can_be_tried_again(path: Path) -> None:
    old = write(path, V1)
    failed = 0
    for at in range(2, 6):  # the first is to open it at all
        found = open_session(path)
        journal = Journal(path, Failing(at))
        assert found.migrated_lines is not None
        journal.resume_migrated(found.migrated_lines, found.size)
        try:
            journal.append(b"{}")
        except OSError:
            failed += 1
            lifted_already = path.read_bytes() != old
            assert sorted(item.name for item in path.parent.iterdir()) in (
                ["s.jsonl"],
                *([["s.jsonl", "s.jsonl.bak"]] if lifted_already else []),
            )
            journal.flush()
        assert path.read_bytes() == b"".join(line + b"\n" for line in (*found.migrated_lines, b"{}"))
        journal.close()
        assert path.with_name("s.jsonl.bak").read_bytes() == old
        path.with_name("s.jsonl.bak").replace(path)
    assert failed == 4


KILLED = """
import os, signal, sys
from pathlib import Path
from tau.store.journal import Journal
from tau.store.sessions import open_session
left = int(sys.argv[2])
def count(event, args):
    global left
    if event.startswith("os.") or event == "open":
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
path = Path(sys.argv[1])
found = open_session(path)
journal = Journal(path)
journal.resume_migrated(found.migrated_lines, found.size)
sys.addaudithook(count)
journal.append(b'{"type":"custom","id":"new","parentId":null}')
"""


@pytest.mark.promise("D24")
def test_kill_during_a_lift_leaves_the_old_file_or_the_new_one(path: Path) -> None:
    old = write(path, V1)
    for at in range(1, 12):
        done = subprocess.run([sys.executable, "-c", KILLED, str(path), str(at)], check=False, capture_output=True)
        found = open_session(path)
        assert (len([*found.tree.after(None)][:6]), found.problems) == (6, [])
        assert path.read_bytes() == old or path.with_name("s.jsonl.bak").read_bytes() == old
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
        for leftover in path.parent.iterdir():
            leftover.unlink()
        write(path, V1)
    assert (done.returncode, at > 3) == (0, True)


@pytest.mark.parametrize("version", [1, 3])
def test_the_parent_of_a_session_has_another_name_in_old_files(tmp_path: Path, version: int) -> None:
    header = {**V1[0], "version": version, "branchedFrom": "/origin.jsonl"}
    migrated = json.loads(migrate_lines([encode(header)], lambda number, problem: None)[0])
    assert (migrated["parentSession"], "branchedFrom" in migrated) == ("/origin.jsonl", False)
    path = tmp_path / "old.jsonl"
    path.write_bytes(encode(header) + b"\n")
    found = open_session(path)
    assert found.header.parent_session == "/origin.jsonl"

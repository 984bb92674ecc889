from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from faults.disk import Faults
from tau.errors import CommandError
from tau.records.base import encode
from tau.store.journal import Disk, Journal
from tau.store.sessions import open_session

HEADER = encode({"type": "session", "version": 3, "id": "s", "timestamp": "t", "cwd": "/w"})


def entry(id: str, parent: str | None, text: str = "") -> bytes:
    said = {"role": "user", "content": text, "timestamp": 1}
    return encode({"type": "message", "id": id, "parentId": parent, "timestamp": "t", "message": said})


def ids(path: Path) -> list[str]:
    found = open_session(path)
    return [found.tree.id(at) for at in found.tree.branch]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.jsonl"


@pytest.fixture
def journal(path: Path) -> Iterator[Journal]:
    made = Journal(path)
    made.create([HEADER])
    yield made
    made.close()


# Writing.


def test_what_was_appended_is_in_the_file_at_once(path: Path, journal: Journal) -> None:
    assert path.read_bytes() == HEADER + b"\n"
    journal.append(b"one")
    assert path.read_bytes() == HEADER + b"\none\n"
    journal.append_or_fail(b"two")
    assert (path.read_bytes(), journal.unwritten) == (HEADER + b"\none\ntwo\n", 0)


def test_a_file_that_exists_is_never_written_over(path: Path) -> None:
    path.write_text("precious")
    with pytest.raises(FileExistsError):
        Journal(path).create([HEADER])
    assert path.read_text() == "precious"


@pytest.mark.parametrize("tail", [b"", b"torn", b"\0" * 4096, b'{"type":"message","id":"x"'])
def test_a_resumed_file_goes_on_on_a_line_of_its_own(path: Path, tail: bytes) -> None:
    before = HEADER + b"\n" + entry("a", None) + b"\n" + tail
    path.write_bytes(before)
    journal = Journal(path)
    journal.resume(len(before))
    assert path.read_bytes() == before
    journal.append(entry("b", "a"))
    journal.append(entry("c", "b"))
    journal.close()
    newline = b"\n" if tail else b""
    assert path.read_bytes() == before + newline + entry("b", "a") + b"\n" + entry("c", "b") + b"\n"
    assert ids(path) == ["a", "b", "c"]


def test_a_file_is_private_whatever_the_umask(path: Path) -> None:
    before = os.umask(0)
    try:
        Journal(path).create([HEADER])
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_file_that_was_deleted_is_reported_and_what_was_to_be_written_waits(path: Path, journal: Journal) -> None:
    journal.append(b"one")
    path.unlink()
    with pytest.raises(FileNotFoundError):
        journal.append(b"two")
    with pytest.raises(FileNotFoundError):
        journal.append_or_fail(b"three")
    assert (journal.unwritten, path.exists()) == (1, False)


def test_a_file_that_was_moved_is_written_where_it_is_now(path: Path, journal: Journal) -> None:
    path.rename(path.with_suffix(".moved"))
    journal.append(b"one")
    assert path.with_suffix(".moved").read_bytes() == HEADER + b"\none\n"


# Syncing.


class Slow(Disk):
    """Counts what was synced, and fails to when told so."""

    def __init__(self) -> None:
        self.synced: list[int] = []
        self.folders: list[Path] = []
        self.fails = False

    def sync_folder(self, path: Path) -> None:
        super().sync_folder(path)
        self.folders.append(path)

    def sync(self, handle: int) -> None:
        super().sync(handle)
        if self.fails:
            raise OSError(errno.EIO, "Input/output error")
        self.synced.append(os.fstat(handle).st_size)


def test_syncing_is_only_needed_after_writing(path: Path) -> None:
    disk = Slow()
    journal = Journal(path, disk)
    journal.create([HEADER])
    assert journal.unsynced
    journal.sync()
    assert (journal.unsynced, journal.prepare_sync(), disk.synced) == (False, None, [path.stat().st_size])


def test_the_folder_of_a_new_file_is_synced_once(path: Path) -> None:
    disk = Slow()
    journal = Journal(path, disk)
    journal.create([HEADER])
    for line in (b"one", b"two"):
        journal.append(line)
        journal.sync()
    assert (len(disk.synced), disk.folders) == (2, [path.parent.resolve()])
    journal.close()
    journal = Journal(path, disk)
    journal.resume(path.stat().st_size)
    journal.append(b"three")
    journal.sync()
    assert (len(disk.synced), disk.folders) == (3, [path.parent.resolve()])


def test_a_journal_may_be_closed_while_it_is_synced(path: Path) -> None:
    disk = Slow()
    journal = Journal(path, disk)
    journal.create([HEADER])
    work = journal.prepare_sync()
    assert work is not None
    journal.append(b"meanwhile")
    journal.close()
    work()
    assert disk.synced == [path.stat().st_size]


def test_a_journal_that_was_closed_while_it_is_synced_can_be_opened_again_at_once(path: Path) -> None:
    journal = Journal(path)
    journal.create([HEADER])
    work = journal.prepare_sync()  # the thread that runs it may be slow
    assert work is not None
    journal.close()
    again = Journal(path)
    again.resume(path.stat().st_size)
    work()
    again.append(b"one")
    again.close()
    assert path.read_bytes() == HEADER + b"\none\n"


def test_a_sync_that_fails_is_to_be_done_again(path: Path) -> None:
    disk = Slow()
    journal = Journal(path, disk)
    journal.create([HEADER])
    disk.fails = True
    with pytest.raises(OSError):
        journal.sync()
    disk.fails = False
    assert (journal.unsynced, disk.synced) == (True, [])
    journal.sync()
    assert (journal.unsynced, len(disk.synced)) == (False, 1)


class Forgetful(Disk):
    """A system for which a sync that failed is the end of it: what was not synced is lost, and is not tried again."""

    safe = 0
    fails = False

    def sync(self, handle: int) -> None:
        size = os.fstat(handle).st_size
        if self.fails:
            with open(f"/proc/self/fd/{handle}", "r+b") as file:
                file.seek(self.safe)
                file.write(b"\0" * (size - self.safe))
            raise OSError(errno.EIO, "Input/output error")
        self.safe = size


@pytest.mark.promise("D21")
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="opens a file by its descriptor")
@pytest.mark.parametrize("fails", [1, 3])
@pytest.mark.parametrize("safe", ["nothing", "some"])
def test_a_sync_that_fails_loses_nothing_even_if_the_system_forgets(path: Path, fails: int, safe: str) -> None:
    disk = Forgetful()
    journal = Journal(path, disk)
    journal.create([HEADER])
    journal.append(entry("0", None))
    if safe == "some":
        journal.sync()
    disk.fails = True
    for at in range(1, fails + 1):
        journal.append(entry(f"{at}", f"{at - 1}", "x" * 100_000))
        with pytest.raises(OSError):
            journal.sync()
    disk.fails = False
    journal.append(entry("last", f"{fails}"))
    journal.sync()
    assert (ids(path), journal.unsynced) == ([*(f"{at}" for at in range(fails + 1)), "last"], False)


# Faults, at every call.


class Story:
    """Somebody writes a session, whatever happens, and knows what was accepted."""

    def __init__(self, path: Path, disk: Faults) -> None:
        self.path = path
        self.journal = Journal(path, disk)
        self.accepted: list[str] = []
        self.told = 0

    def begin(self) -> None:
        while True:
            try:
                self.journal.create([HEADER])
                return
            except OSError:
                self.told += 1
                assert not self.path.exists()

    def write(self, id: str, *, or_fail: bool) -> None:
        line = entry(id, self.accepted[-1] if self.accepted else None, "é" * 20)
        try:
            (self.journal.append_or_fail if or_fail else self.journal.append)(line)
        except OSError:
            self.told += 1
            if or_fail:
                return
            assert self.journal.unwritten > 0
        self.accepted.append(id)

    def sync(self) -> None:
        try:
            self.journal.sync()
        except OSError:
            self.told += 1

    def check(self) -> None:
        """What is in the file is the beginning of what was accepted, at least up to what waits, in this order.

        Half a line that could not be taken back may be there too, if somebody was told. If it lacks
        nothing but its newline, it is the entry; it is then written again all the same, or was refused.
        """
        there: dict[str, None] = {}
        for line in self.path.read_bytes().splitlines()[1:]:
            try:
                there[json.loads(line)["id"]] = None
            except ValueError:
                assert self.told
        kept = [id for id in there if id in self.accepted]
        assert kept == self.accepted[: len(kept)]
        assert len(kept) >= len(self.accepted) - self.journal.unwritten

    def end(self) -> None:
        while self.journal.unwritten:
            try:
                self.journal.flush()
            except OSError:
                self.told += 1
        self.check()
        self.journal.close()


NAMES = ["ENOSPC", "EIO", "EDQUOT", "EROFS", "EINTR"]


@pytest.mark.promise("D22", "H07", "H08")
@pytest.mark.parametrize("count", [1, 2, 10])
@pytest.mark.parametrize("short", [None, 0, -1])
def test_no_fault_at_any_call_loses_anything(path: Path, count: int, short: int | None) -> None:
    for first in range(1, 51):
        disk = Faults(first, count, getattr(errno, NAMES[first % len(NAMES)]), short)
        story = Story(path, disk)
        story.begin()
        for at in range(44):
            story.write(f"{at}", or_fail=at % 5 == 4)
            if at % 3 == 2:
                story.sync()
            if at % 8 == 7:
                story.check()
        story.end()
        assert disk.calls > 50
        assert story.told > 0 or short is not None  # a write that goes on where it stopped is no fault
        assert ids(path) == story.accepted
        assert len(story.accepted) >= 44 - 8
        path.unlink()


@pytest.mark.promise("D22", "H07", "H08")
@pytest.mark.parametrize("name", NAMES)
def test_no_kind_of_fault_leaves_half_a_line(path: Path, name: str) -> None:
    for first in range(1, 51):
        story = Story(path, Faults(first, 1, getattr(errno, name), short=None))
        story.begin()
        for at in range(50):
            story.write(f"{at}", or_fail=False)
        story.end()
        assert story.told == 1
        assert path.read_bytes().endswith(b"\n")
        assert [json.loads(line)["id"] for line in path.read_bytes().splitlines()[1:]] == [str(at) for at in range(50)]
        path.unlink()


def test_a_refused_entry_is_nowhere(path: Path) -> None:
    disk = Faults(2, 1, errno.ENOSPC)
    journal = Journal(path, disk)
    journal.create([HEADER])
    with pytest.raises(OSError):
        journal.append_or_fail(b"refused")
    journal.append_or_fail(b"accepted")
    assert path.read_bytes() == HEADER + b"\naccepted\n"


def test_nothing_is_accepted_before_what_waits(path: Path) -> None:
    disk = Faults(2, 10**9, errno.ENOSPC)
    journal = Journal(path, disk)
    journal.create([HEADER])
    for line in (b"one", b"two"):
        with pytest.raises(OSError):
            journal.append(line)
    with pytest.raises(OSError):
        journal.append_or_fail(b"refused")
    assert (journal.unwritten, path.read_bytes()) == (2, HEADER + b"\n")
    disk.faulty = range(0)
    journal.append_or_fail(b"three")
    assert path.read_bytes() == HEADER + b"\none\ntwo\nthree\n"


def test_a_file_that_could_not_be_begun_leaves_nothing(path: Path) -> None:
    with pytest.raises(OSError):
        Journal(path, Faults(1, 1, errno.ENOSPC)).create([HEADER])
    assert list(path.parent.iterdir()) == []


# One writer.


HOLD = """
import sys
from pathlib import Path
from tau.store.journal import Journal
journal = Journal(Path(sys.argv[1]))
journal.resume(Path(sys.argv[1]).stat().st_size)
print("mine", flush=True)
sys.stdin.read()
"""


def test_another_process_is_refused_with_the_name_of_the_first_and_a_way_out(path: Path, journal: Journal) -> None:
    journal.close()
    size = path.stat().st_size
    first = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with first:
        assert first.stdout is not None and first.stdout.readline() == "mine\n"
        with pytest.raises(CommandError) as refused:
            Journal(path).resume(size)
        assert str(refused.value) == (
            f"Session {path} is in use by process {first.pid}."
            " Close it there, or start with --fork to continue in a copy."
        )
        first.kill()
    # However a process ends, its lock ends with it.
    again = Journal(path)
    again.resume(size)
    again.close()


def test_a_second_writer_in_the_same_process_is_refused_too(path: Path, journal: Journal) -> None:
    size = path.stat().st_size
    with pytest.raises(CommandError, match=f"in use by process {os.getpid()}"):
        Journal(path).resume(size)
    journal.append(b"still mine")
    journal.close()
    Journal(path).resume(path.stat().st_size)


def test_a_file_that_changed_since_it_was_read_is_not_gone_on_with(path: Path, journal: Journal) -> None:
    journal.close()
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(b"more\n")
    with pytest.raises(CommandError, match="was changed by another program"):
        Journal(path).resume(size)


def test_a_file_that_was_replaced_while_we_waited_for_the_lock_is_not_gone_on_with(path: Path) -> None:
    class Race(Disk):
        def open(self, path: Path, flags: int) -> int:
            handle = super().open(path, flags)
            other = path.with_suffix(".new")
            other.write_bytes(path.read_bytes())
            os.replace(other, path)
            return handle

    path.write_bytes(HEADER + b"\n")
    with pytest.raises(CommandError, match="was changed by another program"):
        Journal(path, Race()).resume(len(HEADER) + 1)


def test_what_was_refused_leaves_nothing_open(path: Path, journal: Journal) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pytest.raises(CommandError):
            Journal(path).resume(path.stat().st_size)
        with pytest.raises(OSError):
            Journal(path.with_name("new"), Faults(1, 1, errno.EIO)).create([HEADER])
    assert len(os.listdir("/proc/self/fd")) <= before  # what other tests have left may be closed meanwhile

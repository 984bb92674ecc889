from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from typing import Literal

import pytest

from tau.core.checks.schema import check_arguments
from tau.errors import ToolError
from tau.records.base import UNSET
from tau.records.events import Outcome
from tau.records.messages import Text
from tau.records.settings import FileTexts
from tau.runtime.machine.files import LocalFiles
from tau.runtime.machine.local import LocalMachine
from tau.tools import ToolContext
from tau.tools.partial_result import CancelledWithResult
from tau.tools.read import TOOL as READ
from tau.tools.read_tracking import ReadTracker
from tau.tools.write import TOOL as WRITE

WITHIN = 30.0  # seconds; only a failure takes them all


def context(
    cwd: Path, *, fresh: bool = False, machine: LocalMachine | None = None, texts: FileTexts = "0.87"
) -> ToolContext:
    seen = ReadTracker(required=fresh)
    return ToolContext(machine or LocalMachine(), str(cwd), lambda outcome: None, seen, file_texts=texts)


def write(where: ToolContext, path: str, content: str) -> str:
    async def main() -> Outcome:
        return await WRITE.run({"path": path, "content": content}, where)

    outcome = asyncio.run(main())
    [block] = outcome.content
    assert isinstance(block, Text) and outcome.details is UNSET
    return block.text


def failure(where: ToolContext, path: str, content: str) -> str:
    with pytest.raises(ToolError) as failed:
        write(where, path, content)
    return str(failed.value)


def read(where: ToolContext, path: str) -> None:
    async def main() -> None:
        await READ.run({"path": path, "limit": 1}, where)

    asyncio.run(main())


def test_a_file_is_written_as_it_is_given(tmp_path: Path) -> None:
    content = "a\r\nb\n\ufeff\0 no newline"
    assert write(context(tmp_path), "new/dir/c.txt", content) == "Successfully wrote to new/dir/c.txt"
    assert (tmp_path / "new/dir/c.txt").read_bytes() == content.encode()


@pytest.mark.parametrize(("content", "length"), [("", 0), ("hello\n", 6), ("new é", 5), ("\U0001f600", 2)])
def test_what_are_called_bytes_are_the_units_of_javascript(content: str, length: int, tmp_path: Path) -> None:
    assert write(context(tmp_path, texts="0.84"), "a", content) == f"Successfully wrote {length} bytes to a"


def test_half_of_a_surrogate_pair_is_written_as_in_javascript(tmp_path: Path) -> None:
    assert write(context(tmp_path), "a", "x\ud800y") == "Successfully wrote to a"
    assert (tmp_path / "a").read_text() == "x\ufffdy"


def test_a_path_is_what_the_model_means(tmp_path: Path) -> None:
    assert write(context(tmp_path), "@a\u00a0b.txt", "x") == "Successfully wrote to @a\u00a0b.txt"
    assert os.listdir(tmp_path) == ["a b.txt"]


def test_what_cannot_be_written_is_said_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    assert failure(context(tmp_path), "folder", "x") == (
        f"EISDIR: illegal operation on a directory, open '{tmp_path}/folder'"
    )
    assert failure(context(tmp_path), "/dev/full", "x") == (
        "/dev/full is a character device; only regular files can be written"
    )
    assert os.listdir(tmp_path) == ["folder"]


def test_its_arguments_are_checked() -> None:
    assert check_arguments(WRITE.parameters, {"path": "a"})[1] == ["content: must have required property 'content'"]


# Only what the model knows


def test_a_file_that_was_not_read_is_not_overwritten_if_the_setting_says_so(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    said = "a has not been read in this session, or is too large to check. Read it first."
    assert failure(context(tmp_path, fresh=True), "a", "new") == said
    assert (tmp_path / "a").read_text() == "old"
    assert write(context(tmp_path), "a", "new") == "Successfully wrote to a"


def test_a_new_file_may_be_written_and_written_again(tmp_path: Path) -> None:
    where = context(tmp_path, fresh=True)
    assert [write(where, "a", content) for content in ("1", "12")] == [
        "Successfully wrote to a",
        "Successfully wrote to a",
    ]


@pytest.mark.promise("F26")
def test_a_file_that_changed_since_it_was_read_is_not_overwritten(tmp_path: Path) -> None:
    where = context(tmp_path, fresh=True)
    (tmp_path / "a").write_text("1\n2\n")
    (tmp_path / "link").symlink_to("a")
    read(where, "link")
    (tmp_path / "a").write_text("1\n3\n")
    assert failure(where, "a", "x") == "a has changed since it was last read. Read it again before you change it."
    read(where, "a")
    assert write(where, "link", "x") == "Successfully wrote to link"


# One after another


class Slow(LocalFiles):
    """Files that are written, or looked at, only when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = threading.Semaphore(0)
        self.go = threading.Semaphore(0)
        self.order: list[bytes] = []
        self.slow_to_look = False

    def kind(self, path: str) -> Literal["file", "folder", "other"] | None:
        if self.slow_to_look:
            self.wait()
        return super().kind(path)

    def replace(self, path: str, data: bytes) -> None:
        self.wait()
        self.order.append(data)
        super().replace(path, data)

    def wait(self) -> None:
        self.begun.release()
        assert self.go.acquire(timeout=WITHIN)


def slow_machine() -> tuple[LocalMachine, Slow]:
    machine, files = LocalMachine(), Slow()
    machine.files = files
    return machine, files


def test_writes_of_one_file_happen_in_the_order_of_the_calls(tmp_path: Path) -> None:
    machine, files = slow_machine()
    (tmp_path / "link").symlink_to("a")

    async def main() -> None:
        where = context(tmp_path, machine=machine)
        names = ["a", "link", "./a", "x/../a"] * 5
        calls = [
            asyncio.create_task(WRITE.run({"path": name, "content": str(n)}, where)) for n, name in enumerate(names)
        ]
        for _ in calls:
            assert await asyncio.to_thread(files.begun.acquire, timeout=WITHIN)
            assert not files.begun.acquire(blocking=False)  # one at a time
            files.go.release()
        await asyncio.gather(*calls)

    asyncio.run(main())
    assert files.order == [b"%d" % n for n in range(20)]
    assert (tmp_path / "a").read_text() == "19"


def test_writes_of_two_files_do_not_wait_for_each_other(tmp_path: Path) -> None:
    machine, files = slow_machine()

    async def main() -> None:
        where = context(tmp_path, machine=machine)
        calls = [asyncio.create_task(WRITE.run({"path": name, "content": name}, where)) for name in "ab"]
        for _ in calls:
            assert await asyncio.to_thread(files.begun.acquire, timeout=WITHIN)
        files.go.release(2)
        await asyncio.gather(*calls)

    asyncio.run(main())
    assert sorted(files.order) == [b"a", b"b"]


# Stopping


def test_a_write_that_could_not_be_stopped_any_more_says_so(tmp_path: Path) -> None:
    machine, files = slow_machine()

    async def main() -> str:
        call = asyncio.create_task(WRITE.run({"path": "a", "content": "new"}, context(tmp_path, machine=machine)))
        assert await asyncio.to_thread(files.begun.acquire, timeout=WITHIN)
        call.cancel()
        await asyncio.sleep(0)
        files.go.release()
        try:
            await call
        except CancelledWithResult as stop:
            return stop.text
        raise AssertionError("not cancelled")

    assert asyncio.run(main()) == "Successfully wrote to a\n\nOperation aborted"
    assert (tmp_path / "a").read_text() == "new"


def test_a_cancelled_write_that_waits_for_its_lock_keeps_the_order(tmp_path: Path) -> None:
    machine, files = slow_machine()

    async def main() -> None:
        where = context(tmp_path, machine=machine)
        first, second, third = (asyncio.create_task(WRITE.run({"path": "a", "content": n}, where)) for n in "123")
        assert await asyncio.to_thread(files.begun.acquire, timeout=WITHIN)
        second.cancel()
        with pytest.raises(asyncio.CancelledError) as stopped:
            await second
        assert not isinstance(stopped.value, CancelledWithResult)
        assert not files.begun.acquire(blocking=False)
        files.go.release(2)
        await asyncio.gather(first, third)

    asyncio.run(main())
    assert files.order == [b"1", b"3"]


def test_a_write_that_is_stopped_in_time_changes_nothing(tmp_path: Path) -> None:
    machine, files = slow_machine()
    where = context(tmp_path, fresh=True, machine=machine)
    (tmp_path / "a").write_text("old")
    read(where, "a")
    files.slow_to_look = True

    async def main() -> None:
        call = asyncio.create_task(WRITE.run({"path": "a", "content": "new"}, where))
        assert await asyncio.to_thread(files.begun.acquire, timeout=WITHIN)
        call.cancel()
        await asyncio.sleep(0)
        files.go.release()
        with pytest.raises(asyncio.CancelledError) as stopped:
            await call
        assert not isinstance(stopped.value, CancelledWithResult)

    asyncio.run(main())
    assert (tmp_path / "a").read_text() == "old"

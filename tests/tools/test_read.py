from __future__ import annotations

import asyncio
import base64
import os
import resource
import socket
import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tau.errors import ToolError
from tau.records.base import UNSET, to_builtins
from tau.records.events import Outcome
from tau.records.messages import Image, Text
from tau.runtime.machine.local import LocalMachine
from tau.tools import ToolContext
from tau.tools.paths import resolve, resolve_existing
from tau.tools.read import TOOL as READ
from tau.tools.read import image_type, scan

T = TypeVar("T")
MIB = 1024 * 1024


def read(cwd: Path, path: str | Path, **args: Any) -> Outcome:
    context = ToolContext(LocalMachine(), str(cwd), lambda outcome: None)

    async def main() -> Outcome:
        return await READ.run({"path": str(path), **args}, context)

    return asyncio.run(main())


def failure(cwd: Path, path: str | Path, **args: Any) -> str:
    with pytest.raises(ToolError) as failed:
        read(cwd, path, **args)
    return str(failed.value)


def text(outcome: Outcome) -> str:
    [block] = outcome.content
    assert isinstance(block, Text)
    return block.text


def lines(first: int, last: int) -> str:
    return "\n".join(f"line {n}" for n in range(first, last + 1))


@pytest.fixture
def four(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_text("alpha\nbeta\ngamma\n")
    return tmp_path


# Text


def test_a_text_comes_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbfa\r\nb\xff\x00\n")
    assert read(tmp_path, "a") == Outcome([Text("\ufeffa\r\nb\ufffd\0\n")], UNSET)


def test_an_empty_file_is_an_empty_text(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    assert read(tmp_path, "a") == Outcome([Text("")], UNSET)


def test_a_part_says_how_to_go_on(four: Path) -> None:
    said = "beta\n\n[2 more lines in file. Use offset=3 to continue.]"
    assert read(four, "a.txt", offset=2, limit=1) == Outcome([Text(said)], UNSET)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({"offset": 3}, "gamma\n"),
        ({"offset": 4}, ""),
        ({"offset": 2, "limit": 3}, "beta\ngamma\n"),
        ({"offset": 2, "limit": 99}, "beta\ngamma\n"),
        ({"offset": 0}, "alpha\nbeta\ngamma\n"),
        ({"offset": -5, "limit": None}, "alpha\nbeta\ngamma\n"),
        ({"offset": 2.0, "limit": 2.0}, "beta\ngamma\n\n[1 more lines in file. Use offset=4 to continue.]"),
    ],
)
def test_lines_are_counted_from_one(args: dict[str, Any], said: str, four: Path) -> None:
    assert text(read(four, "a.txt", **args)) == said


def test_a_line_beyond_the_end_is_an_error(four: Path) -> None:
    assert failure(four, "a.txt", offset=50) == "Offset 50 is beyond end of file (4 lines total)"
    assert failure(four, "a.txt", offset=5) == "Offset 5 is beyond end of file (4 lines total)"


@pytest.mark.parametrize("args", [{"limit": 0}, {"limit": -1}, {"limit": float("nan")}, {"offset": float("inf")}])
def test_numbers_that_make_no_sense_are_named(args: dict[str, float], four: Path) -> None:
    assert failure(four, "a.txt", **args).startswith(f"{next(iter(args))} must be ")


def test_3000_lines_show_the_first_2000(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(lines(1, 3000) + "\n")
    outcome = read(tmp_path, "a")
    assert text(outcome) == lines(1, 2000) + "\n\n[Showing lines 1-2000 of 3001. Use offset=2001 to continue.]"
    assert {name: to_builtins(value) for name, value in outcome.details.items()} == {
        "truncation": {
            "content": lines(1, 2000),
            "truncated": True,
            "truncatedBy": "lines",
            "totalLines": 3001,
            "totalBytes": 28893,
            "outputLines": 2000,
            "outputBytes": 18892,
            "lastLinePartial": False,
            "firstLineExceedsLimit": False,
            "maxLines": 2000,
            "maxBytes": 51200,
        }
    }


def test_many_bytes_show_the_first_whole_lines(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(f"{'é' * 500}\n" * 100)
    outcome = read(tmp_path, "a", offset=11)
    note = "\n\n[Showing lines 11-61 of 101 (50.0KB limit). Use offset=62 to continue.]"
    assert text(outcome) == "\n".join(["é" * 500] * 51) + note
    assert outcome.details["truncation"].total_bytes == 90 * 1001
    assert outcome.details["truncation"].total_lines == 91


def test_a_line_that_is_too_long_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "a b").write_text("short\n" + "x" * 61440 + "\nshort\n")
    note = "[Line 2 is 60.0KB, exceeds 50.0KB limit. Use bash: sed -n '2p' 'a b' | head -c 51200]"
    outcome = read(tmp_path, "a b", offset=2)
    assert text(outcome) == note
    assert outcome.details["truncation"].first_line_exceeds_limit is True


def test_the_portions_of_a_file_make_no_difference() -> None:
    data = b"".join(b"%d\n" % n for n in range(100))
    for start in (0, 1, 50, 99, 100):
        for limit in (None, 1, 3, 200):
            whole = scan(iter([data]), start, limit, count=True)
            single = scan(iter([data[at : at + 1] for at in range(len(data))]), start, limit, count=True)
            assert vars(single) == vars(whole)
            end = None if limit is None else start + limit
            assert whole.data == b"\n".join(data.split(b"\n")[start:end])


# Files of any size


@pytest.fixture
def huge(tmp_path: Path) -> Path:
    """10 GB: a hundred lines, then one that is all zeros."""
    with open(tmp_path / "huge", "wb") as file:
        file.write(b"".join(b"line %d\n" % n for n in range(1, 101)))
        file.truncate(10 * 1000**3)
    return tmp_path


def measured(work: Callable[[], T]) -> tuple[T, float, int]:
    """Its result, the seconds it took at best, and the KiB by which it made this process larger than it ever was."""
    before, taken = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, []
    for _ in range(3):
        started = time.monotonic()
        result = work()
        taken.append(time.monotonic() - started)
    return result, min(taken), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before


@pytest.mark.promise("F10", "F10b")
def test_the_first_lines_of_a_huge_file_come_quickly(huge: Path) -> None:
    outcome, took, grown = measured(lambda: read(huge, "huge", limit=5))
    assert outcome == Outcome([Text(lines(1, 5) + "\n\n[More lines in file. Use offset=6 to continue.]")], UNSET)
    assert took < 0.2
    assert grown < 16 * 1024


def test_a_huge_file_has_no_total(huge: Path) -> None:
    outcome, took, grown = measured(lambda: read(huge, "huge"))
    note = "\n\n[Showing lines 1-100 (50.0KB limit). More lines in file. Use offset=101 to continue.]"
    assert text(outcome) == lines(1, 100) + note
    assert took < 0.2
    assert grown < 16 * 1024


def test_a_huge_file_with_too_many_lines_has_no_total(tmp_path: Path) -> None:
    with open(tmp_path / "huge", "wb") as file:
        file.write(lines(1, 3000).encode())
        file.truncate(10 * 1000**3)
    note = "\n\n[Showing lines 11-2010. More lines in file. Use offset=2011 to continue.]"
    assert text(read(tmp_path, "huge", offset=11)) == lines(11, 2010) + note


def test_a_huge_line_has_no_length(huge: Path) -> None:
    note = "[Line 101 is more than 50.0KB, exceeds 50.0KB limit. Use bash: sed -n '101p' huge | head -c 51200]"
    assert text(read(huge, "huge", offset=101)) == note


def test_a_file_of_moderate_size_is_counted_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"0123456\n" * (2 * MIB))
    said = text(read(tmp_path, "a", limit=1))
    assert said == f"0123456\n\n[{2 * MIB} more lines in file. Use offset=2 to continue.]"


def test_a_cancelled_read_stops(huge: Path) -> None:
    machine = Gate()
    os.truncate(huge / "huge", 1000**4)  # which nothing reads to its end in the time we wait

    async def main() -> None:
        context = ToolContext(machine, str(huge), lambda outcome: None)
        # Everything must be read to find a line that is not there.
        reading = asyncio.ensure_future(READ.run({"path": "huge", "offset": 10**9}, context))
        await asyncio.to_thread(machine.began.wait)
        reading.cancel()
        with suppress(asyncio.CancelledError):
            await reading
        assert await asyncio.to_thread(machine.ended.wait, 20)

    asyncio.run(main())


class Gate(LocalMachine):
    """Tells when work in a thread begins and ends."""

    def __init__(self) -> None:
        super().__init__()
        self.began, self.ended = threading.Event(), threading.Event()

    async def in_thread(self, work: Callable[[], T]) -> T:
        def watched() -> T:
            self.began.set()
            try:
                return work()
            finally:
                self.ended.set()

        return await super().in_thread(watched)


# What cannot or must not be read


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert failure(tmp_path, "nope.txt") == f"ENOENT: no such file or directory, access '{tmp_path}/nope.txt'"


def test_a_directory(tmp_path: Path) -> None:
    assert failure(tmp_path, ".") == "EISDIR: illegal operation on a directory, read"


@pytest.mark.promise("F18")
@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("a\0b", "No file name can contain a NUL character: 'a\\x00b'"),
        ("\ud800", "No file name can contain half of a surrogate pair"),
        ("x" * 5000, "ENAMETOOLONG: file name too long, access '"),
        ("a.txt/b", "ENOTDIR: not a directory, access '"),
        ("loop", "ELOOP: too many levels of symbolic links, access '"),
        ("", "EISDIR: "),
    ],
)
def test_paths_that_cannot_be(path: str, said: str, four: Path) -> None:
    (four / "loop").symlink_to("loop")
    assert failure(four, path).startswith(said)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_of_another_user(four: Path) -> None:
    (four / "a.txt").chmod(0)
    assert failure(four, "a.txt") == f"EACCES: permission denied, access '{four}/a.txt'"


@pytest.mark.promise("F08", "F09")
def test_what_is_no_regular_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        assert {name: failure(tmp_path, name) for name in ("fifo", "link", "socket", "/dev/zero")} == {
            "fifo": f"{tmp_path}/fifo is a named pipe; only regular files can be read",
            "link": f"{tmp_path}/link is a named pipe; only regular files can be read",
            "socket": f"{tmp_path}/socket is a socket; only regular files can be read",
            "/dev/zero": "/dev/zero is a character device; only regular files can be read",
        }


@pytest.mark.promise("H01")
@pytest.mark.parametrize("name", ["environ", "mem", "task/{pid}/environ"])
def test_the_inside_of_a_process(name: str, tmp_path: Path) -> None:
    name = name.format(pid=os.getpid())
    (tmp_path / "link").symlink_to(f"/proc/self/{name}")
    for path in ("link", f"/proc/self/{name}", f"/proc/{os.getpid()}/{name}", f"/proc/self/root/proc/self/{name}"):
        assert failure(tmp_path, path).endswith("shows the environment or the memory of a process and may not be read")


def test_other_files_of_the_system_can_be_read(tmp_path: Path) -> None:
    assert text(read(tmp_path, "/proc/self/status")).startswith("Name:")


@pytest.fixture
def keys(tmp_path: Path) -> Iterator[Path]:
    """The agent's directory has to be told by the environment, as in life."""
    before = os.environ.get("PI_CODING_AGENT_DIR")
    os.environ["PI_CODING_AGENT_DIR"] = str(tmp_path / "agent")
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "auth.json").write_text("{}")
    (tmp_path / "agent" / "settings.json").write_text("{}")
    yield tmp_path
    if before is None:
        del os.environ["PI_CODING_AGENT_DIR"]
    else:
        os.environ["PI_CODING_AGENT_DIR"] = before


@pytest.mark.promise("H02")
def test_the_agents_credentials_whatever_leads_to_them(keys: Path) -> None:
    (keys / "soft").symlink_to("agent/auth.json")
    (keys / "hard").hardlink_to(keys / "agent" / "auth.json")
    for path in ("agent/auth.json", "soft", "hard"):
        assert failure(keys, path) == f"{keys}/{path} holds the agent's own credentials and may not be read"
    assert text(read(keys, "agent/settings.json")) == "{}"


# Images


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


PNG = (
    b"\x89PNG\r\n\x1a\n"
    + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
    + chunk(b"IDAT", zlib.compress(b"\0\0"))
    + chunk(b"IEND", b"")
)
GIF = base64.b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7")
PLAIN_GIF = b"GIF87a\1\0\1\0\x80\0\0\0\0\0\xff\xff\xff,\0\0\0\0\1\0\1\0\0\2\2D\1\0;"


@pytest.mark.parametrize(
    ("data", "mime_type"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF\0", "image/jpeg"),
        (b"\xff\xd8\xff\xdb\0\x43", "image/jpeg"),
        (GIF, "image/gif"),
        (PLAIN_GIF, "image/gif"),
        (b"RIFF\x1a\0\0\0WEBPVP8L", "image/webp"),
        (b"RIFF\x1a\0\0\0WAVEfmt ", None),
        (b"GIF89a is a format", None),
        (b"GIF89a 123456!!important", None),
        (b"GIF87a 123456, and so on, and so on", None),
        (b"GIF89a", None),
        (b"\x89PNG\r\n\x1a\n and then text", None),
        (b"\xff\xd8\xff", None),
        (b"BM", None),
        (b"", None),
    ],
)
def test_an_image_is_known_by_its_structure(data: bytes, mime_type: str | None) -> None:
    assert image_type(data) == mime_type


def test_an_image_is_shown_whatever_its_name(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(PNG)
    picture = Image(base64.b64encode(PNG).decode(), "image/png")
    assert read(tmp_path, "a.txt") == Outcome([Text("Read image file [image/png]"), picture], UNSET)


def test_an_image_that_is_too_large_is_not_shown(tmp_path: Path) -> None:
    with open(tmp_path / "a.png", "wb") as file:
        file.write(PNG)
        file.truncate(3 * 1000**3)
    assert failure(tmp_path, "a.png") == f"{tmp_path}/a.png is an image of 2861.0MB; at most 20.0MB can be shown"


# Paths


def test_what_a_path_means() -> None:
    home = os.path.expanduser("~")
    assert {
        path: resolve(path, "/w") for path in ("a/../b", "@a", "@@a", "/x", "~", "@~/a", "~a", "a\u00a0b\u202fc")
    } == {
        "a/../b": "/w/b",
        "@a": "/w/a",
        "@@a": "/w/@a",
        "/x": "/x",
        "~": home,
        "@~/a": f"{home}/a",
        "~a": "/w/~a",
        "a\u00a0b\u202fc": "/w/a b c",
    }


@pytest.mark.promise("F21")
@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("Screenshot at 9.41.00 AM.png", "Screenshot at 9.41.00\u202fAM.png"),
        ("caf\u00e9.txt", "cafe\u0301.txt"),
        ("Jane's file", "Jane\u2019s file"),
        ("caf\u00e9 d'or", "cafe\u0301 d\u2019or"),
        ("odd\u00a0space", "odd\u00a0space"),
        ("@types", "@types"),
    ],
)
def test_a_file_is_found_under_a_name_that_looks_the_same(asked: str, name: str, tmp_path: Path) -> None:
    (tmp_path / name).touch()
    assert resolve_existing(asked, str(tmp_path)) == str(tmp_path / name)


def test_the_plain_meaning_of_a_path_comes_first(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    (tmp_path / "@a").touch()
    assert resolve_existing("@a", str(tmp_path)) == str(tmp_path / "a")
    assert resolve_existing("@nothing", str(tmp_path)) == str(tmp_path / "nothing")

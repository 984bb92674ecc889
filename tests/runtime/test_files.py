from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tau.errors import ToolError
from tau.runtime.machine.files import LocalFiles
from tau.tools import Entry

KILLS = Path(__file__).parent.parent / "long" / "kills.py"
files = LocalFiles()
as_somebody = pytest.mark.skipif(os.geteuid() == 0, reason="root may do everything")
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


def failure(work: Callable[..., Any], *args: Any) -> str:
    with pytest.raises(ToolError) as failed:
        work(*args)
    return str(failed.value)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# Replacing


def test_a_file_is_made_with_its_folders(tmp_path: Path) -> None:
    files.replace(f"{tmp_path}/new/dir/a", b"content")
    assert (tmp_path / "new/dir/a").read_bytes() == b"content"
    assert os.listdir(tmp_path / "new/dir") == ["a"]


def test_a_new_file_gets_the_usual_mode(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        files.replace(f"{tmp_path}/a", b"")
    finally:
        os.umask(before)
    assert mode(tmp_path / "a") == 0o640


@pytest.mark.promise("F15")
@pytest.mark.parametrize("bits", [0o600, 0o750, 0o666, 0o4755])
def test_a_file_keeps_its_mode(bits: int, tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    path.chmod(bits)
    before = path.stat()
    files.replace(str(path), b"new")
    assert path.read_bytes() == b"new"
    assert mode(path) == bits
    assert path.stat().st_ino != before.st_ino
    assert os.listdir(tmp_path) == ["a"]


@as_root
def test_a_file_keeps_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    os.chown(path, 1234, 5678)
    path.chmod(0o6755)
    files.replace(str(path), b"new")
    status = path.stat()
    assert (status.st_uid, status.st_gid, mode(path)) == (1234, 5678, 0o6755)


def test_a_file_keeps_its_attributes(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    try:
        os.setxattr(path, "user.note", b"mine")
    except OSError:
        pytest.skip("no attributes on this file system")
    files.replace(str(path), b"new")
    assert os.getxattr(path, "user.note") == b"mine"


@pytest.mark.promise("F15")
def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there/a").write_bytes(b"old")
    (tmp_path / "one").symlink_to("there/a")
    (tmp_path / "two").symlink_to("one")
    (tmp_path / "dangling").symlink_to("there/new")
    files.replace(f"{tmp_path}/two", b"new")
    files.replace(f"{tmp_path}/dangling", b"made")
    assert os.readlink(tmp_path / "two") == "one"
    assert {name: (tmp_path / "there" / name).read_bytes() for name in os.listdir(tmp_path / "there")} == {
        "a": b"new",
        "new": b"made",
    }


@pytest.mark.promise("F15")
@pytest.mark.parametrize("content", [b"longer than the old one", b"short", b""])
def test_hard_links_stay_together(content: bytes, tmp_path: Path) -> None:
    path, other = tmp_path / "a", tmp_path / "b"
    path.write_bytes(b"the old content")
    other.hardlink_to(path)
    path.chmod(0o640)
    files.replace(str(path), content)
    assert other.read_bytes() == content
    assert path.samefile(other)
    assert mode(path) == 0o640
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("folder", "EISDIR: illegal operation on a directory, open '{}/folder'"),
        ("file/a", "EEXIST: file exists, mkdir '{}/file'"),
        ("loop", "ELOOP: too many levels of symbolic links, open '{}/loop'"),
        ("x" * 300, "ENAMETOOLONG: file name too long, open '{}/" + "x" * 300 + "'"),
        ("fifo", "{}/fifo is a named pipe; only regular files can be written"),
    ],
)
def test_where_nothing_can_be_written(name: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "fifo")
    before = sorted(os.listdir(tmp_path))
    assert failure(files.replace, f"{tmp_path}/{name}", b"x") == said.format(tmp_path)
    assert sorted(os.listdir(tmp_path)) == before


def test_a_device_is_not_written() -> None:
    assert (
        failure(files.replace, "/dev/null", b"") == "/dev/null is a character device; only regular files can be written"
    )


@as_somebody
def test_a_read_only_file_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    path.chmod(0o444)
    assert failure(files.replace, str(path), b"new") == f"EACCES: permission denied, open '{path}'"
    assert path.read_bytes() == b"old"


@as_somebody
def test_a_file_in_a_read_only_folder_is_written_in_place(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "a"
    path.parent.mkdir()
    path.write_bytes(b"old")
    path.parent.chmod(0o555)
    try:
        files.replace(str(path), b"new")
        assert path.read_bytes() == b"new"
    finally:
        path.parent.chmod(0o755)


def test_the_agents_credentials_are_neither_written_nor_read(tmp_path: Path) -> None:
    files = LocalFiles(keys=str(tmp_path / "auth.json"))
    (tmp_path / "auth.json").write_text("{}")
    (tmp_path / "link").symlink_to("auth.json")
    said = f"{tmp_path}/link holds the agent's own credentials and may not be written"
    assert failure(files.replace, f"{tmp_path}/link", b"") == said
    assert failure(files.open, f"{tmp_path}/link") == said.replace("written", "read")


@pytest.mark.promise("F13", "F14")
def test_kills_and_full_disks_leave_the_old_file_or_the_new_one() -> None:
    done = subprocess.run([sys.executable, KILLS, "20"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("never half a file") == 3


# Looking


def test_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    (tmp_path / "nowhere").symlink_to("nothing")
    os.mkfifo(tmp_path / "fifo")
    names = ("file", "folder", "link", "nowhere", "fifo", "nothing", "file/a")
    assert {name: files.kind(f"{tmp_path}/{name}") for name in names} == {
        "file": "file",
        "folder": "folder",
        "link": "folder",
        "nowhere": None,
        "fifo": "other",
        "nothing": None,
        "file/a": None,
    }
    assert sorted(files.entries(str(tmp_path)), key=lambda entry: entry.name) == [
        Entry("fifo", False),
        Entry("file", False),
        Entry("folder", True),
        Entry("link", True),
    ]
    assert failure(files.entries, f"{tmp_path}/nothing") == (
        f"ENOENT: no such file or directory, scandir '{tmp_path}/nothing'"
    )
    assert failure(files.entries, f"{tmp_path}/file") == f"ENOTDIR: not a directory, scandir '{tmp_path}/file'"


def test_what_cannot_be_looked_at_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    assert (
        failure(files.kind, f"{tmp_path}/loop") == f"ELOOP: too many levels of symbolic links, stat '{tmp_path}/loop'"
    )


def test_names_of_the_same_file_have_one_real_path(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    (tmp_path / "b").symlink_to("a")
    real = os.path.realpath(tmp_path)
    assert files.real(f"{tmp_path}/b") == files.real(f"{tmp_path}/./a") == f"{real}/a"
    assert files.real(f"{tmp_path}/none") == f"{real}/none"


def test_an_open_file_is_read_by_portions_and_closed(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"0123456789")
    with files.open(f"{tmp_path}/a") as file:
        assert (file.read(4), file.read(4), file.read(4), file.read(4)) == (b"0123", b"4567", b"89", b"")
    assert file.closed


@pytest.mark.skipif(not os.access("/proc/self/pagemap", os.R_OK), reason="needs a file that cannot be read")
def test_what_fails_while_it_is_read_is_reported(tmp_path: Path) -> None:
    # A file of the system that can be read by eight bytes only.
    with files.open("/proc/self/pagemap") as file:
        assert failure(file.read, 3) == "EINVAL: invalid argument, read"

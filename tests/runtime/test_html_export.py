from __future__ import annotations

import os
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tau.errors import CommandError
from tau.export import Export
from tau.export.page import CARDS_PER_SECTION, page
from tau.records.entries import Header
from tau.records.messages import User
from tau.runtime.history.html_export import MIN_FORKED_SECTIONS, session_page, write_export
from tau.runtime.history.session_log import SessionLog

PI = b"""<!DOCTYPE html>
<html lang="en">
<head>
  <meta charset="UTF-8">
  <meta name="viewport" content="width=device-width, initial-scale=1.0">
  <title>Session Export</title>
"""


def empty(version: str = "0.1.0") -> Iterator[bytes]:
    return page(Export(Header(id="s", timestamp="2026-01-01T00:00:00.000Z", cwd="/"), [], None, version))


def refused(path: Path, *, overwrite: bool = False) -> str:
    with pytest.raises(CommandError) as refusal:
        write_export([b"new"], path, overwrite)
    return str(refusal.value)


@pytest.mark.promise("G10")
def test_an_export_is_private_and_leaves_nothing_else_behind(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    assert write_export([b"one ", b"two"], path) == path
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"one two", 0o600)
    assert list(tmp_path.iterdir()) == [path]


def test_an_earlier_export_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    write_export(empty("0.0.9"), path)
    write_export(empty("0.1.0"), path)
    assert b"Exported by tau 0.1.0" in path.read_bytes()


def test_an_export_of_pi_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_bytes(PI + b"  <style>")
    write_export([b"new"], path)
    assert path.read_bytes() == b"new"


def test_the_sign_of_an_export_stands_in_its_first_200_bytes() -> None:
    assert b'<meta name="generator" content="tau session export">' in b"".join(empty())[:200]


@pytest.mark.promise("G11")
@pytest.mark.parametrize("content", [b"", b"precious", b"<!doctype html><title>mine</title>", b"x" * 500 + PI])
def test_a_file_that_is_no_export_is_not_touched(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.html"
    path.write_bytes(content)
    assert refused(path) == f"Cannot export to {path}: it exists and is not an export; name another file"
    assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_is_replaced_when_that_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "notes.html"
    path.write_bytes(b"old")
    path.chmod(0o644)
    write_export([b"new"], path, overwrite=True)
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"new", 0o600)


@pytest.mark.promise("G11")
def test_a_link_is_not_followed(tmp_path: Path) -> None:
    goal, link = tmp_path / "goal.html", tmp_path / "link.html"
    write_export(empty(), goal)
    link.symlink_to(goal)
    assert "is not an export" in refused(link)
    write_export([b"new"], link, overwrite=True)
    assert (link.is_symlink(), link.read_bytes()) == (False, b"new")
    assert goal.read_bytes() != b"new"


def test_a_link_that_leads_nowhere_is_not_followed(tmp_path: Path) -> None:
    link = tmp_path / "link.html"
    link.symlink_to(tmp_path / "absent")
    assert "is not an export" in refused(link)
    assert not (tmp_path / "absent").exists()


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_and_a_pipe_are_no_files(tmp_path: Path, overwrite: bool) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert refused(tmp_path, overwrite=overwrite) == f"Cannot export to {tmp_path}: it is a folder"
    assert "is not an export" in refused(tmp_path / "pipe", overwrite=overwrite)


def test_the_folder_must_exist(tmp_path: Path) -> None:
    path = tmp_path / "absent" / "page.html"
    assert refused(path) == f"Cannot export to {path}: the folder {path.parent} does not exist"


def test_a_file_in_place_of_the_folder_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    path = tmp_path / "file" / "page.html"
    assert refused(path) == f"Cannot export to {path}: not a directory"


def test_a_page_that_fails_on_the_way_leaves_the_earlier_export(tmp_path: Path) -> None:
    def broken() -> Iterator[bytes]:
        yield b"half"
        raise KeyError("a bug")

    path = tmp_path / "page.html"
    write_export(empty(), path)
    before = path.read_bytes()
    with pytest.raises(KeyError):
        write_export(broken(), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_appears_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "page.html"

    def slow() -> Iterator[bytes]:
        path.write_bytes(b"somebody else's")
        yield b"ours"

    with pytest.raises(CommandError):
        write_export(slow(), path)
    assert path.read_bytes() == b"somebody else's"
    assert list(tmp_path.iterdir()) == [path]


# A long page, rendered by two processes.


@pytest.fixture
def long_session(tmp_path: Path) -> SessionLog:
    log = SessionLog.new("/", None, lambda error: None)
    for number in range(MIN_FORKED_SECTIONS * CARDS_PER_SECTION + 1):
        log.append_message(User(f"# {number}\n\n```py\nif a: {number}\n```", number))
    return log


def children() -> list[int]:
    files = Path("/proc/self/task").glob("*/children")
    return [int(child) for file in files for child in file.read_text().split()]


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="this system has no memfd_create")
def test_two_processes_render_the_same_page_as_one(long_session: SessionLog) -> None:
    alone = b"".join(session_page(long_session))
    before = children()
    assert b"".join(session_page(long_session, may_fork=True)) == alone
    assert set(children()) <= set(before)  # those of other tests may have ended


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="this system has no memfd_create")
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor: nothing is divided")
def test_a_page_is_whole_if_the_second_process_is_killed(long_session: SessionLog) -> None:
    alone, before = b"".join(session_page(long_session)), children()
    page = session_page(long_session, may_fork=True)
    parts = [next(page), next(page)]  # the head and the first section: the second process works now
    [second] = set(children()) - set(before)
    os.kill(second, signal.SIGKILL)
    assert b"".join([*parts, *page]) == alone


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="this system has no memfd_create")
def test_a_page_that_is_not_read_to_its_end_leaves_no_process(long_session: SessionLog) -> None:
    before = children()
    page = session_page(long_session, may_fork=True)
    next(page), next(page)
    page.close()  # type: ignore[attr-defined]
    assert set(children()) <= set(before)

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.limits import no_descriptors
from support.rpc_process import quick
from tau.errors import CommandError
from tau.records.base import UNSET, encode
from tau.records.replies import SessionRow
from tau.runtime.app.session_files import owner_of
from tau.store.listing import (
    NO_MESSAGES,
    SEARCHED_AT_ONCE,
    all_session_rows,
    by_id,
    newest,
    project_folders,
    read_header,
    recent_files,
    session_files,
    session_head,
    session_row,
    session_rows,
    session_text,
)

Json = dict[str, Any]
TIME = "2026-03-15T10:00:00.000Z"
CREATED = 1773568800000


def message_line(role: str, text: str) -> Json:
    content = {"role": role, "content": [{"type": "text", "text": text}], "timestamp": 1}
    return {"type": "message", "id": text, "parentId": None, "timestamp": TIME, "message": content}


def named(name: str) -> Json:
    return {"type": "session_info", "id": "n", "parentId": None, "timestamp": TIME, "name": name}


def session(
    path: Path, *entries: Json | bytes, at: int = 0, cwd: str = "/w", id: str | None = None, **more: Any
) -> Path:
    """A session file that was changed `at` seconds after a certain time."""
    header = {"type": "session", "version": 3, "id": id or path.stem, "timestamp": TIME, "cwd": cwd, **more}
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [entry if isinstance(entry, bytes) else encode(entry) for entry in (header, *entries)]
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    os.utime(path, (CREATED / 1000 + at, CREATED / 1000 + at))
    return path


def ids(found: list[SessionRow]) -> list[str]:
    return [one.id for one in found]


# Rows.


def test_a_row_says_what_one_needs_to_choose(tmp_path: Path) -> None:
    answer = message_line("assistant", "hello")
    path = session(
        tmp_path / "a.jsonl",
        named("old"),
        message_line("user", "first"),
        answer,
        named("new"),
        message_line("user", "second"),
        at=60,
    )
    assert session_row(path) == SessionRow(
        path=str(path),
        id="a",
        cwd="/w",
        name="new",
        parent_session_path=UNSET,
        created=CREATED,
        modified=CREATED + 60_000,
        message_count=3,
        first_message="first",
    )


def test_a_session_without_name_messages_and_parent_has_a_row_too(tmp_path: Path) -> None:
    found = session_row(session(tmp_path / "a.jsonl"))
    assert found is not None
    assert (found.name, found.message_count, found.first_message) == (UNSET, 0, NO_MESSAGES)
    fork = session_row(session(tmp_path / "b.jsonl", named(""), parentSession="/a.jsonl"))
    assert fork is not None and (fork.name, fork.parent_session_path) == (UNSET, "/a.jsonl")


def test_the_first_message_is_the_first_of_the_user(tmp_path: Path) -> None:
    plain = {**message_line("user", "x"), "message": {"role": "user", "content": "plain text", "timestamp": 1}}
    found = session_row(
        session(tmp_path / "a.jsonl", message_line("assistant", "hi"), b"garbage", message_line("system", "s"), plain)
    )
    assert found is not None and found.first_message == "plain text"


def test_the_head_of_a_session_is_read_without_the_rest_of_its_file(tmp_path: Path) -> None:
    path = session(tmp_path / "s.jsonl", message_line("user", "the first"), named("a name"))
    assert session_head(path) == session_row(path)
    with path.open("ab") as file:
        file.truncate(50 * 1024 * 1024)  # NULs, as after a power failure
    row = session_head(path)
    assert row is not None and (row.name, row.first_message) == ("a name", "the first")
    assert session_head(tmp_path / "none.jsonl") is None


@pytest.mark.parametrize("more", [-30, -10, -1, 0, 1, 30])
def test_a_name_far_from_the_end_of_the_file_is_found(tmp_path: Path, more: int) -> None:
    path = session(tmp_path / "s.jsonl", named("a name"))
    name_at = path.read_bytes().index(b"\n") + len(encode(named("a name")))
    with path.open("ab") as file:  # the name lies around the place where one search ends and the next begins
        file.write(b" " * (2 * SEARCHED_AT_ONCE + more - (path.stat().st_size - name_at)))
    row = session_row(path)
    assert row is not None and row.name == "a name"


def test_the_text_of_a_session_is_that_of_prompts_and_answers(tmp_path: Path) -> None:
    path = session(tmp_path / "s.jsonl", message_line("user", "the first"), message_line("user", "the second"))
    assert session_text(path, 1000) == "the first\nthe second"
    assert session_text(path, 5) == "the f"


def test_the_files_of_several_folders_are_one_list_the_newest_first(tmp_path: Path) -> None:
    for folder, name, at in (("a", "1", 10), ("b", "2", 30), ("a", "3", 20)):
        session(tmp_path / folder / f"{name}.jsonl", at=at)
    (tmp_path / "a" / "notes.txt").write_text("")
    found = recent_files([tmp_path / "a", tmp_path / "b", tmp_path / "none"])
    assert [path.stem for path in found] == ["2", "3", "1"]


def test_damage_does_not_cost_the_row(tmp_path: Path) -> None:
    lines = (
        b"\0" * 100,
        b'{"type":"message","id":',
        message_line("user", "still here"),
        b'{"type":"session_info"',
        b"\xff\xfe",
    )
    found = session_row(session(tmp_path / "a.jsonl", *lines))
    assert found is not None and (found.first_message, found.name) == ("still here", UNSET)


NO_SESSIONS = [b"", b"\n", b"# notes\n", b'{"type":"message","id":"a"}\n', b"null\n", b"x" * 100_000, b"\xff" * 100]


@pytest.mark.parametrize("content", NO_SESSIONS)
def test_what_is_no_session_has_no_row(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(content)
    assert (session_row(path), session_rows(tmp_path, None), newest(tmp_path, "/w")) == (None, [], None)
    assert (by_id(tmp_path, tmp_path, "", "/w"), path.read_bytes()) == ([], content)


def test_a_header_with_a_bom_or_of_an_older_version_is_one(tmp_path: Path) -> None:
    path = session(tmp_path / "a.jsonl", message_line("user", "hi"))
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b'"version":3,', b""))
    header = read_header(path)
    assert header is not None and (header.id, header.version) == ("a", 1)
    assert [found.first_message for found in session_rows(tmp_path, "/w")] == ["hi"]


# Lists.


def test_sessions_are_listed_the_newest_first(tmp_path: Path) -> None:
    for at, name in enumerate(("b", "a", "c")):
        session(tmp_path / f"{name}.jsonl", at=at)
    assert [path.stem for path in session_files(tmp_path)] == ids(session_rows(tmp_path, None)) == ["c", "a", "b"]


def test_only_session_files_are_looked_at(tmp_path: Path) -> None:
    path = session(tmp_path / "a.jsonl")
    for name in ("a.jsonl.bak", ".a.jsonl.1f", "notes.md", "a.json"):
        (tmp_path / name).write_bytes(path.read_bytes())
    (tmp_path / "folder.jsonl").mkdir()
    os.mkfifo(tmp_path / "fifo.jsonl")  # to open it would be to wait for ever
    (tmp_path / "dangling.jsonl").symlink_to("nowhere")
    assert session_files(tmp_path) == [path]
    assert (session_files(tmp_path / "missing"), session_rows(tmp_path / "missing", None)) == ([], [])


def test_a_folder_may_hold_the_sessions_of_several_projects(tmp_path: Path) -> None:
    session(tmp_path / "mine.jsonl", at=1)
    session(tmp_path / "theirs.jsonl", cwd="/other", at=2)
    assert (ids(session_rows(tmp_path, "/w")), ids(session_rows(tmp_path, None))) == (["mine"], ["theirs", "mine"])


def test_the_sessions_of_all_projects_are_one_list(tmp_path: Path) -> None:
    session(tmp_path / "--w--" / "a.jsonl", at=1)
    session(tmp_path / "--other--" / "b.jsonl", cwd="/other", at=3)
    session(tmp_path / "--w--" / "c.jsonl", at=2)
    session(tmp_path / "private" / "d.jsonl", at=4)
    assert (ids(all_session_rows(tmp_path)), all_session_rows(tmp_path / "missing")) == (["b", "c", "a"], [])


@pytest.mark.promise("D23")
def test_listing_a_thousand_sessions_is_quick(tmp_path: Path) -> None:
    for at in range(1000):
        session(tmp_path / f"{at}.jsonl", *[message_line("user", "x" * 500)] * 20, at=at)

    def measure() -> float:
        began = time.process_time()  # the machine may have other things to do
        assert len(session_rows(tmp_path, "/w")) == 1000
        return time.process_time() - began

    quick(measure, 1)


# One of them.


def test_the_newest_is_that_of_this_project(tmp_path: Path) -> None:
    session(tmp_path / "old.jsonl", at=1)
    mine = session(tmp_path / "mine.jsonl", at=2)
    session(tmp_path / "theirs.jsonl", cwd="/w/sub", at=3)
    (tmp_path / "broken.jsonl").write_text("not a session, but the newest")
    assert (newest(tmp_path, "/w"), newest(tmp_path, "/nobody"), newest(tmp_path / "missing", "/w")) == (
        mine,
        None,
        None,
    )


def test_a_session_is_found_by_the_beginning_of_its_id(tmp_path: Path) -> None:
    here = tmp_path / "--w--"
    older = session(here / "1.jsonl", id="abc-1", at=1)
    newer = session(here / "2.jsonl", id="abc-2", at=2)
    theirs = session(here / "3.jsonl", id="abc-3", at=3, cwd="/w-")
    far = session(tmp_path / "--other--" / "4.jsonl", id="xyz", at=4)
    session(tmp_path / "private" / "5.jsonl", id="xyz-private")
    assert by_id(here, tmp_path, "abc", "/w") == [newer, older]
    assert by_id(here, tmp_path, "abc-3", "/w") == [theirs]
    assert by_id(here, tmp_path, "xyz", "/w") == [far]
    assert by_id(here, tmp_path, "zork", "/w") == []


@pytest.mark.parametrize(
    "listed",
    [
        lambda folder, path: session_files(folder),
        lambda folder, path: recent_files([folder]),
        lambda folder, path: project_folders(folder),
        lambda folder, path: newest(folder, "/w"),
        lambda folder, path: by_id(folder, folder, "abc", "/w"),
        lambda folder, path: read_header(path),
        lambda folder, path: session_row(path),
        lambda folder, path: session_head(path),
        lambda folder, path: session_text(path, 100),
        lambda folder, path: owner_of(str(path)),
    ],
)
def test_a_file_that_could_not_be_opened_for_want_of_a_descriptor_is_not_passed_over(
    tmp_path: Path, listed: Callable[[Path, Path], object]
) -> None:
    path = session(tmp_path / "abc.jsonl", message_line("user", "one"))
    with no_descriptors(), pytest.raises(CommandError) as error:
        listed(tmp_path, path)
    assert str(error.value) == "Too many open files. Try again later."

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.loop_kit import assistant, user
from support.session_logs import Json, entries, id_of, reopened, sent, texts, told, unheard, written
from tau.errors import CommandError
from tau.records.base import encode
from tau.records.entries import (
    Label,
)
from tau.runtime.clock import iso
from tau.runtime.history import copies
from tau.runtime.history.session_log import SessionLog
from tau.store.sessions import open_session


def test_a_fork_has_everything_before_a_message_and_gives_its_text_back() -> None:
    log = told("a", "b", "c")
    second = id_of(log, 1)
    fork = copies.fork(log, second)
    assert (copies.fork_text(log, second), [*fork.messages], fork.id == log.id) == ("b", [user("a")], False)
    assert entries(fork) == entries(log)[:1]
    assert [*log.messages] == [user("a"), user("b"), user("c")]


def test_a_fork_before_the_first_message_is_empty() -> None:
    log = told("a")
    fork = copies.fork(log, id_of(log, 0))
    assert (copies.fork_text(log, id_of(log, 0)), [*fork.messages], fork.tree.leaf_id) == ("a", [], None)


def test_only_messages_of_the_user_can_be_forked_from() -> None:
    log = told("a")
    log.append_message(assistant("b"))
    for id in ("zork", id_of(log, 1)):
        for act in (copies.fork, copies.fork_text):
            with pytest.raises(CommandError, match="Invalid entry ID for forking"):
                act(log, id)


def test_a_clone_is_the_same_and_goes_its_own_way() -> None:
    log = told("a", "b")
    clone = copies.clone(log)
    clone.append_message(user("c"))
    assert [*clone.messages] == [user("a"), user("b"), user("c")]
    assert entries(clone)[:2] == entries(log)
    assert [*log.messages] == [user("a"), user("b")]


def test_a_copy_is_a_file_of_its_own_that_names_its_parent(tmp_path: Path) -> None:
    log = told("a", "b", folder=tmp_path)
    clone = copies.clone(log)
    assert clone.path is not None and clone.path.parent == tmp_path and clone.path != log.path
    assert (written(clone)[0]["parentSession"], written(clone)[1:]) == (str(log.path), written(log)[1:])
    elsewhere = copies.copy_branch(log, log.tree.branch, "/other", tmp_path / "there")
    assert (written(elsewhere)[0]["cwd"], elsewhere.path and elsewhere.path.parent) == ("/other", tmp_path / "there")


def test_a_fork_without_messages_has_no_file_until_there_is_a_prompt(tmp_path: Path) -> None:
    log = told("a", folder=tmp_path)
    fork = copies.fork(log, id_of(log, 0))
    assert fork.path is not None and not fork.path.exists()
    fork.append_prompt(user("b"))
    assert texts(fork) == ["b"]


def test_a_copy_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    log = told("a", folder=tmp_path)
    (tmp_path / "blocked").write_text("")
    with pytest.raises(CommandError, match="cannot be written: Not a directory"):
        copies.copy_branch(log, log.tree.branch, folder=tmp_path / "blocked")


def test_what_is_said_after_a_fork_is_said_once() -> None:
    log = told("a", "b")
    fork = copies.fork(log, id_of(log, 1))
    fork.append_message(user("other"))
    assert [*fork.messages] == [user("a"), user("other")]


def test_labels_go_to_the_end_and_what_hung_on_them_hangs_on(tmp_path: Path) -> None:
    log = told("a", folder=tmp_path)
    a = id_of(log, 0)
    log.label(a, "here")
    log.append_message(user("b"))
    b = id_of(log, -1)
    log.label("nobody", "lost")
    clone = copies.clone(log)
    assert [*clone.messages] == [user("a"), user("b")]
    found = entries(clone)
    assert [(entry.id, entry.parent_id) for entry in found[:2]] == [(a, None), (b, a)]
    (label,) = found[2:]
    assert isinstance(label, Label) and (label.target_id, label.label, label.parent_id) == (a, "here", b)
    assert entries(reopened(clone)) == found


def test_a_copy_keeps_what_it_does_not_know(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    lines: list[Json] = [
        {"type": "session", "version": 3, "id": "s", "timestamp": iso(), "cwd": "/w", "mood": "good"},
        {"type": "message", "id": "a", "parentId": None, "timestamp": iso(), "extra": 1, "message": plain("A")},
        {"type": "label", "id": "l", "parentId": "a", "timestamp": iso(), "targetId": "a", "label": "x"},
        {"type": "message", "id": "b", "parentId": "l", "timestamp": iso(), "message": plain("B"), "more": [1.5]},
        {"type": "novelty", "id": "n", "parentId": "b", "data": {"deep": None}},
        {"type": "label", "id": "m", "parentId": "n", "timestamp": iso(), "targetId": "n", "label": "y"},
        {"type": "novelty", "id": "o", "parentId": "m", "data": 2},
    ]
    path.write_bytes(b"".join(encode(line) + b"\n" for line in lines))
    log = SessionLog.resumed(open_session(path), unheard)
    clone = copies.clone(log)
    assert [json.loads(message) for message in sent(clone)] == [plain("A"), plain("B")]
    copied = written(clone)[1:5]
    assert copied == [lines[1], {**lines[3], "parentId": "a"}, lines[4], {**lines[6], "parentId": "n"}]
    path.unlink()
    log.append_message(user("anew"))
    assert written(log)[:-1] == lines


def plain(text: str) -> Json:
    return {"role": "user", "content": [{"type": "text", "text": text, "tone": "dry"}], "timestamp": 0, "via": "phone"}


def test_what_was_queued_is_not_said_in_the_copy_too(tmp_path: Path) -> None:
    log = told("a", folder=tmp_path)
    log.pending_queue.record("steer", user("b"))
    assert (copies.clone(log).pending_queue.undelivered(), log.pending_queue.undelivered()) == (
        [],
        [("steer", user("b"))],
    )


def test_a_copy_of_a_damaged_session_is_sound(tmp_path: Path) -> None:
    log = told("a", "b", "c", folder=tmp_path)
    assert log.path is not None
    log.close()
    lines = log.path.read_bytes().splitlines(keepends=True)
    log.path.write_bytes(b"".join([*lines[:2], b"\0\0\0\n", *lines[3:]]))
    found = open_session(log.path)
    assert len(found.problems) == 2
    assert [*reopened(copies.clone(SessionLog.resumed(found, unheard))).messages] == [user("a"), user("c")]

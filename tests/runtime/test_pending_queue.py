from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.loop_kit import user
from support.session_logs import reopened, told
from tau.records.entries import (
    CustomEntry,
)
from tau.records.messages import Custom, Text, User


def test_what_was_queued_and_never_said_is_remembered(tmp_path: Path) -> None:
    log = told("a", folder=tmp_path)
    messages = [User([Text(text)], at) for at, text in enumerate(["first", "second", "second", "third"])]
    for message in messages:
        log.pending_queue.record("steer" if message.timestamp else "follow_up", message)
    log.append_message(messages[1])
    assert reopened(log).pending_queue.undelivered() == [
        ("follow_up", messages[0]),
        ("steer", messages[2]),
        ("steer", messages[3]),
    ]


def test_what_an_extension_wanted_to_say_is_remembered_too(tmp_path: Path) -> None:
    log = told("a", folder=tmp_path)
    notes = [
        Custom("note", text, display=True, details={"n": 1}, timestamp=at) for at, text in enumerate(["a", "b", "b"])
    ]
    for message in notes:
        log.pending_queue.record("follow_up", message)
    log.append_message(notes[1])
    assert reopened(log).pending_queue.undelivered() == [("follow_up", notes[0]), ("follow_up", notes[2])]


def test_of_two_equal_messages_one_is_left_when_one_was_said() -> None:
    log = told("a")
    log.pending_queue.record("steer", user("again"))
    log.pending_queue.record("steer", user("again"))
    log.append_message(user("again"))
    assert log.pending_queue.undelivered() == [("steer", user("again"))]


def test_a_cleared_queue_is_forgotten() -> None:
    log = told("a")
    log.pending_queue.record("steer", dropped := user("b"))
    log.pending_queue.clear([dropped])
    log.pending_queue.record("steer", user("c"))
    assert log.pending_queue.undelivered() == [("steer", user("c"))]


def test_what_is_on_its_way_from_a_queue_survives_that_the_queue_is_cleared() -> None:
    log = told("a")
    for words in ("taken and said", "taken", "dropped"):
        log.pending_queue.record("steer", user(words))
    log.append_message(user("taken and said"))
    (_, _), (_, dropped) = log.pending_queue.restore()
    log.pending_queue.clear([dropped])
    assert log.pending_queue.undelivered() == [("steer", user("taken"))]
    log.append_message(user("taken"))
    assert log.pending_queue.undelivered() == []
    log.pending_queue.clear(())
    assert log.pending_queue.undelivered() == []


def test_what_was_queued_in_a_session_that_could_not_be_left_is_said_once(tmp_path: Path) -> None:
    log = told("a", folder=tmp_path)
    log.pending_queue.record("steer", user("b"))
    log.pending_queue.clear_on_leave()
    log.pending_queue.record("steer", user("b"))  # the session stays
    assert log.pending_queue.undelivered() == [("steer", user("b"))]
    log.append_message(user("b"))
    log.pending_queue.clear(())
    assert reopened(log).pending_queue.undelivered() == []


def test_what_was_said_is_not_said_again_on_a_branch_that_begins_before_it(tmp_path: Path) -> None:
    log = told("a", folder=tmp_path)
    log.pending_queue.record("steer", user("b"))
    before = log.tree.leaf
    log.append_message(user("b"))
    log.move_leaf(before)
    log.append_message(user("c"))
    assert reopened(log).pending_queue.undelivered() == []


def test_what_waits_goes_on_waiting_on_another_branch(tmp_path: Path) -> None:
    log = told("a", folder=tmp_path)
    before = log.tree.leaf
    log.pending_queue.record("steer", user("b"))
    log.move_leaf(before)
    log.append_message(user("c"))
    assert reopened(log).pending_queue.undelivered() == [("steer", user("b"))]


@pytest.mark.parametrize(
    "data", [None, 5, {}, {"queue": "zork", "message": {"role": "user", "content": "", "timestamp": 0}}]
)
def test_a_queue_entry_that_makes_no_sense_is_passed_over(data: Any) -> None:
    log = told("a")
    log.file.add(CustomEntry, "tau.queued", data)
    assert log.pending_queue.undelivered() == []

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.loop_kit import assistant, user
from support.session_logs import reopened, told
from tau.records.entries import CustomEntry
from tau.records.messages import BashExecution
from tau.runtime.history import copies


def ran(command: str, at: int = 0) -> BashExecution:
    return BashExecution(command, "output\n", 0, timestamp=at)


def test_a_command_that_ended_during_a_run_is_remembered_until_its_message_is_added(tmp_path: Path) -> None:
    log = told("a", folder=tmp_path)
    log.pending_bash.record(ran("ls"))
    log.pending_bash.record(ran("pwd"))
    log.append_message(assistant("b"))
    log.append_message(ran("ls"))
    back = reopened(log)
    assert back.pending_bash.undelivered() == [ran("pwd")]
    back.append_message(ran("pwd"))
    assert back.pending_bash.undelivered() == []


def test_of_two_equal_commands_one_is_left_when_one_was_delivered() -> None:
    log = told("a")
    log.pending_bash.record(ran("ls"))
    log.pending_bash.record(ran("ls"))
    log.append_message(ran("ls"))
    assert log.pending_bash.undelivered() == [ran("ls")]
    log.append_message(ran("ls"))
    assert log.pending_bash.undelivered() == []


def test_a_command_that_waits_on_a_branch_that_was_left_still_waits(tmp_path: Path) -> None:
    log = told("a", folder=tmp_path)
    before = log.tree.leaf
    log.pending_bash.record(ran("ls"))
    log.move_leaf(before)
    log.append_message(user("b"))
    assert reopened(log).pending_bash.undelivered() == [ran("ls")]


def test_a_copy_does_not_deliver_the_commands_of_the_original(tmp_path: Path) -> None:
    log = told("a", folder=tmp_path)
    log.pending_bash.record(ran("ls"))
    assert copies.clone(log).pending_bash.undelivered() == []
    assert log.pending_bash.undelivered() == [ran("ls")]


@pytest.mark.parametrize("data", [None, 5, {}, {"sessionId": "s", "message": 5}])
def test_an_entry_of_a_command_that_makes_no_sense_is_passed_over(data: Any) -> None:
    log = told("a")
    log.file.add(CustomEntry, "tau.ran", data)
    assert log.pending_bash.undelivered() == []


def test_the_entries_of_queued_messages_and_of_commands_do_not_disturb_each_other() -> None:
    log = told("a")
    log.pending_queue.record("steer", user("b"))
    log.pending_bash.record(ran("ls"))
    log.append_custom("tau.queue_of_others", {"queue": "steer"})
    assert log.pending_queue.undelivered() == [("steer", user("b"))]
    assert log.pending_bash.undelivered() == [ran("ls")]
    log.append_message(ran("ls"))
    log.append_message(user("b"))
    assert (log.pending_queue.undelivered(), log.pending_bash.undelivered()) == ([], [])

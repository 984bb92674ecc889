from __future__ import annotations

import re
from datetime import datetime
from uuid import UUID

import pytest

from kit import MODEL, assistant, user
from tau.errors import CommandError
from tau.host.log import Log, iso, now, session_id
from tau.records.base import UNSET
from tau.records.entries import AnyEntry, Label, MessageEntry, ModelChange, SessionInfo, ThinkingLevelChange


def told(*texts: str) -> Log:
    log = Log("/work")
    for text in texts:
        log.say(user(text))
    return log


def entries(log: Log) -> list[AnyEntry]:
    return log.tree.branch


def test_what_is_said_is_an_entry_and_part_of_the_conversation() -> None:
    log = told("a")
    log.say(assistant("b"))
    assert log.messages == [user("a"), assistant("b")]
    assert [entry.message for entry in entries(log) if isinstance(entry, MessageEntry)] == log.messages


def test_every_entry_hangs_on_the_one_before() -> None:
    log = told("a", "b")
    log.set_model(MODEL)
    log.set_level("high")
    log.set_name("mine")
    found = entries(log)
    assert [type(entry) for entry in found] == [
        MessageEntry,
        MessageEntry,
        ModelChange,
        ThinkingLevelChange,
        SessionInfo,
    ]
    assert [entry.parent_id for entry in found] == [None, *(entry.id for entry in found[:-1])]
    assert all(re.fullmatch(r"[0-9a-f]{8}", entry.id) for entry in found)
    assert (log.tree.name, log.tree.leaf) == ("mine", found[-1].id)


def test_a_forgotten_answer_leaves_the_conversation_but_not_the_log() -> None:
    log, failed = told("a"), assistant("half", why="529")
    log.say(failed)
    log.say(assistant("half", why="529"))
    log.forget(failed)
    assert log.messages == [user("a"), assistant("half", why="529")]
    assert len(entries(log)) == 3


def test_a_log_has_an_id_a_place_and_maybe_a_parent() -> None:
    log = Log("/work", "/old.jsonl")
    assert (log.id, log.header.cwd, log.header.parent_session) == (log.header.id, "/work", "/old.jsonl")
    assert Log("/work").header.parent_session is UNSET
    assert log.header.version == 3


# Forks and clones.


def test_a_fork_has_everything_before_a_message_and_gives_its_text_back() -> None:
    log = told("a", "b", "c")
    second = entries(log)[1]
    fork, text = log.forked(second.id)
    assert (text, fork.messages, fork.id == log.id) == ("b", [user("a")], False)
    assert entries(fork) == entries(log)[:1]
    assert log.messages == [user("a"), user("b"), user("c")]


def test_a_fork_before_the_first_message_is_empty() -> None:
    log = told("a")
    fork, text = log.forked(entries(log)[0].id)
    assert (text, fork.messages, fork.tree.leaf) == ("a", [], None)


def test_only_messages_of_the_user_can_be_forked_from() -> None:
    log = told("a")
    log.say(assistant("b"))
    for id in ("zork", entries(log)[1].id):
        with pytest.raises(CommandError, match="Invalid entry ID for forking"):
            log.forked(id)


def test_a_clone_is_the_same_and_goes_its_own_way() -> None:
    log = told("a", "b")
    clone = log.cloned()
    clone.say(user("c"))
    assert clone.messages == [user("a"), user("b"), user("c")]
    assert entries(clone)[:2] == entries(log)
    assert log.messages == [user("a"), user("b")]


def test_what_is_said_after_a_fork_is_said_once() -> None:
    log = told("a", "b")
    fork, _ = log.forked(entries(log)[1].id)
    fork.say(user("other"))
    assert fork.messages == [user("a"), user("other")]


def test_labels_stay_behind_and_what_hung_on_them_hangs_on() -> None:
    log = told("a")
    (a,) = entries(log)
    log.tree.add(Label("label", a.id, a.timestamp, a.id, "here"))
    log.say(user("b"))
    clone = log.cloned()
    assert clone.messages == [user("a"), user("b")]
    assert [entry.parent_id for entry in entries(clone)] == [None, a.id]
    assert "label" not in clone.tree


# Names and times.


def test_session_ids_are_uuids_that_sort_by_time() -> None:
    ids = [UUID(session_id()) for _ in range(100)]
    assert {(id.version, id.variant) for id in ids} == {(7, "specified in RFC 4122")}
    assert len(set(ids)) == 100
    assert abs((ids[0].int >> 80) - now()) < 60_000


def test_times_are_written_as_iso_with_milliseconds() -> None:
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", iso())
    assert abs(datetime.fromisoformat(iso()).timestamp() * 1000 - now()) < 60_000

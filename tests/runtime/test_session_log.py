from __future__ import annotations

import asyncio
import gc
import os
import re
import weakref
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from support.loop_kit import MODEL, assistant, user
from support.session_logs import counted, entries, id_of, new, reopened, sent, texts, told, unheard, written
from tau.concurrency.threads import NoThread
from tau.core.conversation.tree import ROOT
from tau.errors import CommandError
from tau.records.base import UNSET, encode, wire_json
from tau.records.entries import (
    CompactionEntry,
    ContextEdit,
    MessageEntry,
    ModelChange,
    SessionInfo,
    ThinkingLevelChange,
)
from tau.records.messages import CompactionSummary, Custom
from tau.runtime.history import copies
from tau.runtime.history.session_log import SessionLog
from tau.runtime.history.sync import BackgroundSync
from tau.store.sessions import open_session


def test_what_is_said_is_an_entry_and_part_of_the_conversation() -> None:
    log = told("a")
    log.append_message(assistant("b"))
    assert [*log.messages] == [user("a"), assistant("b")]
    assert [entry.message for entry in entries(log) if isinstance(entry, MessageEntry)] == [*log.messages]
    assert (log.message_count, sent(log)) == (2, [encode(user("a")), encode(assistant("b"))])


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
    assert (log.tree.name, log.tree.leaf_id) == ("mine", found[-1].id)


def test_a_dropped_answer_leaves_the_conversation_but_not_the_log() -> None:
    log, failed = told("a"), assistant("half", why="529")
    log.append_message(failed)
    log.drop_last_answer()
    assert ([*log.messages], sent(log)) == ([user("a")], [encode(user("a"))])
    assert [type(entry) for entry in entries(log)] == [MessageEntry, MessageEntry, ContextEdit]


def test_a_dropped_answer_is_written_as_pi_writes_it(tmp_path: Path) -> None:
    log = told("a", folder=tmp_path)
    log.append_message(assistant("half", why="529"))
    log.drop_last_answer()
    edit, answer = written(log)[-1], written(log)[-2]
    assert edit == {
        "type": "context_edit",
        "id": edit["id"],
        "parentId": answer["id"],
        "timestamp": edit["timestamp"],
        "targetId": answer["id"],
        "replacement": None,
    }


@pytest.mark.parametrize("how", ["here", "compacted", "same place", "other place", "reopened", "cloned", "forked"])
def test_a_dropped_answer_stays_dropped(tmp_path: Path, how: str) -> None:
    log = told("a", folder=tmp_path)
    log.append_message(assistant("half", why="529"))
    log.drop_last_answer()
    log.append_message(assistant("whole"))
    kept = [user("a"), assistant("whole")]
    if how == "compacted":
        log.compact("S", id_of(log, 1), 10, {})
        (_, *rest), kept = log.messages, [assistant("whole")]
        assert (rest, counted(log)) == (kept, (2, 2, 2))
        return
    if how == "same place":
        log.move_leaf(log.tree.leaf)
    elif how == "other place":
        log.append_message(assistant("more"))
        log.move_leaf(log.tree.parent(log.tree.leaf))
    elif how == "reopened":
        log = reopened(log)
    elif how == "cloned":
        log = copies.clone(log)
    elif how == "forked":
        log.append_message(user("next"))
        log = copies.fork(log, id_of(log, -1))
    assert counted(log) == (2, 2, 2)
    assert ([*log.messages], sent(log)) == (kept, [wire_json(message) for message in kept])
    if how != "other place":  # a session that is opened again is at its last entry
        assert counted(reopened(log)) == (2, 2, 2)


@pytest.mark.parametrize("first_kept", [0, 1, 2, 3])
def test_messages_are_counted_without_those_that_were_dropped_or_summarized(first_kept: int) -> None:
    log = told("a")
    log.append_message(assistant("half", why="529"))
    log.drop_last_answer()
    log.append_message(assistant("whole"))
    log.append_message(Custom("note", "said by an extension", True))
    log.compact("S", id_of(log, first_kept), 10, {})
    log.append_message(user("b"))
    before_it_is_read = log.tree.seen_count()
    assert (before_it_is_read, *counted(log)) == (5 if first_kept == 0 else 4,) * 4


def test_the_last_edit_of_an_entry_counts_and_only_on_its_branch() -> None:
    log = told("a")
    log.append_message(assistant("half", why="529"))
    answer = log.tree.leaf
    log.drop_last_answer()
    log.file.add(ContextEdit, log.tree.id(answer), {"content": []})
    log._messages = None
    assert counted(log) == (2, 2, 2)
    log.drop_last_answer()
    assert counted(log) == (1, 1, 1)
    log.move_leaf(answer)
    assert counted(log) == (2, 2, 2)


def test_summaries_of_branches_that_say_nothing_are_not_counted() -> None:
    log = told("a")
    log.move_leaf(log.tree.leaf, "")
    log._messages = None
    before_it_is_read = log.message_count
    assert (before_it_is_read, *counted(log)) == (1, 1, 1, 1)


def test_a_log_has_an_id_a_place_and_maybe_a_parent() -> None:
    log = new(parent="/old.jsonl")
    assert (log.id, log.header.cwd, log.header.parent_session) == (log.header.id, "/work", "/old.jsonl")
    assert (new().header.parent_session, new(id="mine").id) == (UNSET, "mine")
    assert log.header.version == 3


def test_a_prompt_that_was_accepted_is_said_once() -> None:
    log, message = new(), user("a")
    log.append_prompt(message)
    assert [*log.messages] == [message]
    log.append_message(message)
    assert ([*log.messages], len(entries(log))) == ([message], 1)
    log.append_message(user("a"))
    assert len(entries(log)) == 2


# The file.


def test_the_file_begins_with_the_first_prompt(tmp_path: Path) -> None:
    log = new(tmp_path / "sessions")
    log.set_model(MODEL)
    log.set_level("low")
    assert list(tmp_path.iterdir()) == []
    log.append_prompt(user("hello"))
    assert [entry["type"] for entry in written(log)] == ["session", "model_change", "thinking_level_change", "message"]
    assert written(log)[0] == {
        "type": "session",
        "version": 3,
        "id": log.id,
        "timestamp": log.header.timestamp,
        "cwd": "/work",
    }
    assert log.path is not None and log.path.name == re.sub(r"[:.]", "-", log.header.timestamp) + f"_{log.id}.jsonl"


def test_the_file_begins_with_a_message_that_is_queued(tmp_path: Path) -> None:
    log = new(tmp_path)
    log.pending_queue.record("steer", user("psst"))
    assert [entry["type"] for entry in written(log)] == ["session", "custom"]
    assert reopened(log).pending_queue.undelivered() == [("steer", user("psst"))]


def test_an_entry_is_in_the_file_when_it_was_said(tmp_path: Path) -> None:
    log = told("a", folder=tmp_path)
    acts: list[Callable[[], None]] = [
        lambda: log.append_message(assistant("b")),
        lambda: log.set_level("high"),
        lambda: log.set_model(MODEL),
        lambda: log.set_name("n"),
        lambda: log.compact("s", id_of(log, 0), 5, {}),
        lambda: log.move_leaf(0, "left", {}),
        lambda: log.label(id_of(log, 0), "here"),
        lambda: log.pending_queue.record("steer", user("q")),
        lambda: log.pending_queue.clear(()),
    ]
    for act in acts:
        act()
        assert encode(written(log)[-1]) == log.tree.line(len(log.tree) - 1)
    assert len(written(log)) == 1 + len(log.tree)


def test_a_log_without_a_folder_stays_in_memory() -> None:
    log = told("a")
    log.pending_queue.record("steer", user("b"))
    log.flush()
    assert (log.path, log.unwritten, log.file.unsynced, log.file.syncing()) == (None, 0, False, None)
    log.close()


def test_a_session_that_is_opened_again_is_what_it_was(tmp_path: Path) -> None:
    log = told("a", folder=tmp_path)
    log.set_model(MODEL)
    log.append_message(assistant("b"))
    log.set_level("high")
    log.set_name("mine")
    back = reopened(log)
    assert (back.id, back.path, back.header) == (log.id, log.path, log.header)
    assert (sent(back), back.message_count) == (sent(log), 2)
    assert ([*back.messages], back.tree.name) == ([*log.messages], "mine")
    assert (back.last_model(), back.last_level(), back.lacks_level) == (("lab", "m-1"), "high", False)
    back.append_prompt(user("c"))
    assert texts(back) == ["a", "b", "c"]


def test_the_model_is_the_last_that_was_set_or_that_answered(tmp_path: Path) -> None:
    log = told("a", folder=tmp_path)
    assert (log.last_model(), log.last_level(), reopened(log).lacks_level) == (None, None, True)
    log = told("a")
    log.append_message(assistant("b"))
    assert log.last_model() == ("lab", "m-1")


def test_after_a_compaction_the_conversation_begins_with_its_summary() -> None:
    log = told("a", "b", "c")
    log.compact("long ago", id_of(log, 1), 99, {})
    summary = entries(log)[-1]
    assert isinstance(summary, CompactionEntry)
    first = next(iter(log.messages))
    assert isinstance(first, CompactionSummary) and first.summary == "long ago"
    assert ([*log.messages][1:], log.message_count) == ([user("b"), user("c")], 3)
    assert sent(log) == [wire_json(message) for message in log.messages]


def test_going_back_shows_the_conversation_up_to_there() -> None:
    log = told("a", "b")
    log.move_leaf(0)
    assert [*log.messages] == [user("a")]
    log.move_leaf(ROOT)
    assert ([*log.messages], log.message_count, sent(log)) == ([], 0, [])


def test_messages_of_a_wrong_shape_are_passed_over_in_both_forms(tmp_path: Path) -> None:
    log = told("a", folder=tmp_path)
    assert log.path is not None
    log.close()
    wrong: tuple[Any, ...] = (None, 5, "text", [], {}, {"role": 5}, {"content": "no role"})
    parent, ids = id_of(log, 0), [f"x{at}" for at in range(len(wrong))]
    with log.path.open("ab") as file:
        for id, message in zip(ids, wrong, strict=True):
            file.write(encode({"type": "message", "id": id, "parentId": parent, "message": message}) + b"\n")
            parent = id
        other = {"content": 5, "role": "user"}  # a known role, but nothing a model could read
        file.write(encode({"type": "message", "id": "y", "parentId": parent, "message": other}) + b"\n")
    back = SessionLog.resumed(open_session(log.path), unheard)
    assert sent(back) == [encode(user("a")), encode(other)]
    assert [wire_json(message) for message in back.messages] == [encode(user("a")), encode(other)]
    assert [text.split(":")[0] for text in back.problems.found] == [f"entry {id}" for id in [*ids, "y"]]
    assert (back.last_model(), back.pending_queue.undelivered(), back.tree.fork_points()[1:]) == (None, [], [])


def test_a_closed_log_is_freed_without_the_garbage_collector(tmp_path: Path) -> None:
    back = reopened(told("a", "b", folder=tmp_path))
    assert len([*back.messages]) == 2
    freed = weakref.ref(back.tree)
    gc.disable()
    try:
        back.close()
        del back
        assert freed() is None, "a reference cycle keeps the open file until the next collection"
    finally:
        gc.enable()


def test_a_number_that_is_none_counts_as_absent(tmp_path: Path) -> None:
    log = told("a", "b", folder=tmp_path)
    log.close()
    assert log.path is not None
    log.path.write_bytes(re.sub(rb'"timestamp":\d+}}', b'"timestamp":1e999}}', log.path.read_bytes(), count=1))
    back = SessionLog.resumed(open_session(log.path), unheard)
    assert [message.content for message in back.messages] == [user("a").content, user("b").content]
    assert (len(sent(back)), back.message_count, back.problems.found) == (2, 2, [])


# Writes that fail.


def test_a_prompt_that_cannot_be_written_is_refused_and_can_be_said_again(tmp_path: Path) -> None:
    blocked = tmp_path / "sessions"
    blocked.write_text("a file where the folder should be")
    log = new(blocked)
    with pytest.raises(CommandError, match=r"The session file .* cannot be written: Not a directory"):
        log.append_prompt(user("a"))
    assert ([*log.messages], len(log.tree), log.unwritten) == ([], 0, 0)
    blocked.unlink()
    log.append_prompt(user("a"))
    assert (texts(log), [*log.messages]) == (["a"], [user("a")])


def test_a_deleted_session_file_is_rewritten_completely(tmp_path: Path) -> None:
    log = told("a", "b", folder=tmp_path / "deep" / "down")
    assert log.path is not None
    before = log.path.read_bytes()
    log.path.unlink()
    log.path.parent.rmdir()
    log.append_message(assistant("c"))
    assert log.path.read_bytes().startswith(before)
    assert texts(log) == ["a", "b", "c"]
    log.path.unlink()
    log.append_prompt(user("d"))
    assert texts(reopened(log)) == ["a", "b", "c", "d"]


def test_what_cannot_be_written_is_reported_and_written_in_order_as_soon_as_it_can(tmp_path: Path) -> None:
    heard: list[int] = []
    log = told("a", folder=tmp_path, trouble=lambda error: heard.append(log.unwritten))
    assert log.path is not None
    log.path.unlink()
    log.path.mkdir()  # nothing can be written there now
    log.append_message(assistant("b"))
    log.append_message(assistant("c"))
    assert (heard, log.unwritten, log.file.write_failing, log.file.unsynced) == ([2, 3], 3, True, True)
    with pytest.raises(CommandError, match="cannot be written"):
        log.append_prompt(user("no"))
    with pytest.raises(OSError):
        log.flush()
    log.path.rmdir()
    log.flush()
    assert (log.unwritten, texts(log)) == (0, ["a", "b", "c"])
    log.append_message(assistant("d"))
    assert [*reopened(log).messages] == [user("a"), assistant("b"), assistant("c"), assistant("d")]


def test_a_write_that_failed_leaves_nothing_to_be_collected(tmp_path: Path) -> None:
    log = told("a", folder=tmp_path, trouble=lambda error: None)
    assert log.path is not None
    log.path.unlink()
    log.path.mkdir()
    log.append_message(assistant("b"))

    def left() -> int:
        gc.collect()
        log.append_message(assistant("c"))
        return gc.collect()

    gc.disable()  # it is seldom done, and what failed holds all that was under way
    try:
        assert any(left() == 0 for _ in range(5))  # other threads of this process have their own, now and then
    finally:
        gc.enable()


def test_a_session_that_cannot_be_written_is_not_opened(tmp_path: Path) -> None:
    log = told("a", folder=tmp_path)
    assert log.path is not None
    found = open_session(log.path)
    with pytest.raises(CommandError, match=r"in use by process \d+.*--fork"):
        SessionLog.resumed(found, unheard)
    log.close()
    log.path.unlink()
    with pytest.raises(CommandError, match="cannot be written: No such file"):
        SessionLog.resumed(found, unheard)


# Keeping it.


class Held:
    """A log whose keeper tells what happened; the thread's work can be made to fail, or to wait."""

    def __init__(self, log: SessionLog) -> None:
        self.log = log
        self.told: list[str] = []
        self.fail = False
        self.twice = asyncio.Event()
        self.meanwhile: Callable[[], None] = lambda: None
        self.keeper = BackgroundSync(
            lambda: self.log,
            self._in_thread,
            lambda error: self.told.append("failed"),
            lambda _: self.told.append("recovered"),
        )

    async def _in_thread(self, work: Callable[[], None]) -> None:
        self.told.append("sync")
        self.meanwhile()
        if self.fail:
            work()  # it was tried, but
            raise OSError(5, "Input/output error")
        await asyncio.to_thread(work)
        if self.told.count("sync") == 2:
            self.twice.set()


def test_what_was_written_is_synced_soon_also_if_it_was_written_during_a_sync(tmp_path: Path) -> None:
    async def main() -> Held:
        held = Held(told("a", folder=tmp_path))

        def write_once() -> None:
            held.meanwhile = lambda: None
            held.log.append_message(assistant("b"))

        held.meanwhile = write_once
        held.keeper.schedule()
        async with asyncio.timeout(10):
            await held.twice.wait()
        return held

    held = asyncio.run(main())
    assert (held.told, held.log.file.unsynced) == (["sync", "sync"], False)


def test_a_sync_that_fails_is_reported_once_and_that_it_recovered_too(tmp_path: Path) -> None:
    async def main() -> Held:
        held = Held(told("a", folder=tmp_path))
        held.fail = True
        assert not await held.keeper.sync_now()
        held.log.append_message(assistant("b"))
        assert not await held.keeper.sync_now()
        held.fail = False
        held.log.append_message(assistant("c"))
        assert await held.keeper.sync_now()
        return held

    assert asyncio.run(main()).told == ["sync", "failed", "sync", "sync", "recovered"]


def test_when_an_entry_got_through_by_itself_it_is_reported_too(tmp_path: Path) -> None:
    async def main() -> Held:
        held = Held(told("a", folder=tmp_path, trouble=lambda error: held.told.append("failed")))
        path = held.log.path
        assert path is not None
        path.unlink()
        path.mkdir()
        held.log.append_message(assistant("b"))
        assert not await held.keeper.sync_now()
        path.rmdir()
        held.log.append_message(assistant("c"))
        assert texts(held.log) == ["a", "b", "c"]
        assert await held.keeper.sync_now()
        return held

    assert asyncio.run(main()).told == ["failed", "sync", "recovered"]


def test_nothing_is_kept_by_itself_after_the_end(tmp_path: Path) -> None:
    async def main() -> None:
        held = Held(told("a", folder=tmp_path))
        await held.keeper.close()
        held.keeper.schedule()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_a_log_that_was_closed_writes_nothing_more(tmp_path: Path) -> None:
    log = told("a", folder=tmp_path)
    log.close()
    before = written(log)
    log.append_message(assistant("late"))
    log.flush()
    with pytest.raises(CommandError, match="the session is closed"):
        log.append_prompt(user("b"))
    assert (written(log), log.unwritten, log.file.unsynced) == (before, 0, True)


def test_a_session_that_was_left_and_cannot_be_synced_can_be_taken_back(tmp_path: Path) -> None:
    async def main() -> None:
        held, left = Held(new()), told("a", folder=tmp_path)
        assert left.path is not None
        held.fail = True
        await held.keeper.sync_and_close(left)
        assert held.keeper.take_back(left.path) is left
        held.fail = False
        await held.keeper.close()
        left.append_message(assistant("later"))
        assert texts(left) == ["a", "later"]

    asyncio.run(main())


def test_a_session_that_was_left_in_use_is_open_until_it_is_released(tmp_path: Path) -> None:
    async def main() -> None:
        held, left = Held(new()), told("a", folder=tmp_path)
        await held.keeper.sync_and_close(left, in_use=True)
        left.append_message(assistant("late"))
        assert left.path is not None
        with pytest.raises(CommandError, match="in use by process"):
            SessionLog.resumed(open_session(left.path), unheard)
        held.keeper.release(left)
        await held.keeper.close()
        assert [*SessionLog.resumed(open_session(left.path), unheard).messages] == [user("a"), assistant("late")]

    asyncio.run(main())


@pytest.mark.parametrize("released", [False, True])
def test_a_session_that_was_left_in_use_can_be_taken_back(tmp_path: Path, released: bool) -> None:
    async def main() -> None:
        held, left = Held(new()), told("a", folder=tmp_path)
        assert left.path is not None
        await held.keeper.sync_and_close(left, in_use=True)
        (tmp_path / "link.jsonl").symlink_to(left.path)
        if released:  # it is synced before it is closed, and can be taken back until then
            held.keeper.release(left)
        assert held.keeper.take_back(tmp_path / "link.jsonl") is left
        assert held.keeper.take_back(left.path) is None
        held.keeper.release(left)
        await held.keeper.close()
        left.append_message(assistant("later"))
        assert texts(left) == ["a", "later"]

    asyncio.run(main())


def test_without_a_thread_it_is_synced_all_the_same_and_nothing_stays_open(tmp_path: Path) -> None:
    async def main() -> None:
        log = told("a", folder=tmp_path)
        before = len(os.listdir("/proc/self/fd"))

        def no_thread(work: Callable[[], None]) -> Awaitable[None]:
            raise NoThread

        keeper = BackgroundSync(lambda: log, no_thread, unheard, lambda _: None)
        assert await keeper.sync_now()
        assert (log.file.unsynced, len(os.listdir("/proc/self/fd"))) == (False, before)

    asyncio.run(main())


def test_the_end_waits_for_a_sync_that_is_under_way(tmp_path: Path) -> None:
    async def main() -> None:
        log, begun, may_end, done = told("a", folder=tmp_path), asyncio.Event(), asyncio.Event(), []

        async def in_thread(work: Callable[[], None]) -> None:
            begun.set()
            await may_end.wait()
            work()
            done.append("synced")

        keeper = BackgroundSync(lambda: log, in_thread, unheard, lambda _: None)
        keeper.schedule()
        await begun.wait()
        closing = asyncio.create_task(keeper.close())
        for _ in range(10):
            await asyncio.sleep(0)
        assert not closing.done()
        may_end.set()
        await closing
        assert done == ["synced"]

    asyncio.run(main())

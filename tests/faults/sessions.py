"""Session files with something wrong in them, and everything a program does with one.

A file that is broken is opened and used, or refused with a CommandError. Any other
exception is one that would have ended a command, or the program, and so is a file
that takes longer than SLOW.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from faults.disk import Unsynced
from faults.mutations import IN_BYTES, VALUES, Random, retyped
from support.loop_kit import MODEL, assistant, call, for_model, user
from tau.core.conversation.branches import Branch, abandoned_entries, plan_branch_summary
from tau.core.conversation.compaction import compaction_due, plan_compaction
from tau.core.conversation.stats import SessionCounts, conversation_counts
from tau.core.conversation.tokens import context_usage
from tau.errors import CommandError
from tau.records.base import encode
from tau.records.messages import BashExecution, Custom, Text, Thinking, ToolResult
from tau.records.settings import CompactionSettings
from tau.runtime.history import copies
from tau.runtime.history.html_export import session_page
from tau.runtime.history.session_log import SessionLog
from tau.store.listing import session_row
from tau.store.sessions import open_session

SLOW = 5.0  # seconds
SMALL = CompactionSettings(reserve_tokens=10, keep_recent_tokens=50)

Lines = list[bytes]


# What is broken.


@cache
def samples() -> list[Lines]:
    """Sessions in which everything there is happens: as lines, without their ends."""
    return [_whole(), [_header()], *_old(), _told_by_others()]


def _header(version: int = 3, **more: Any) -> bytes:
    stamp = "2026-01-02T03:04:05.678Z"
    return json.dumps(
        {"type": "session", "version": version, "id": "s-1", "timestamp": stamp, "cwd": "", **more}
    ).encode()


def _whole() -> Lines:
    """With branches, summaries, labels, things that wait, and what extensions have said."""
    log = SessionLog.new("", None, _unexpected)
    log.set_model(MODEL)
    log.set_level("high")
    for turn in range(3):
        log.append_prompt(question := user(f"question {turn} \u00e9 \U0001f600 \u2028"))
        log.append_message(question)
        log.append_message(assistant(Thinking("hm"), "Let me look.", call("bash", command=f"echo {turn}")))
        log.append_message(ToolResult("call_bash", "bash", [Text("line\n" * turn)], {"exitCode": 0}))
        log.append_message(assistant("an answer"))
        if turn == 0:
            log.move_leaf(3, "what was tried", {"readFiles": ["a.py"]})
    log.pending_bash.record(BashExecution("ls", "a\nb\n", 0))
    log.append_message(BashExecution("ls", "a\nb\n", 0))
    log.append_message(Custom("note", "said by an extension", True))
    log.set_name("a name")
    log.label(log.tree.id(3), "here")
    log.compact("what happened", log.tree.id(8), 1234, {"readFiles": ["a.py"], "modifiedFiles": []})
    log.append_prompt(question := user("and now?"))
    log.append_message(question)
    log.pending_queue.record("steer", user("later"))
    log.pending_queue.record("follow_up", user("much later"))
    log.pending_bash.record(BashExecution("pwd", "/\n", 0))
    lines = b"\n".join(log.tree.line(at) for at in range(len(log.tree))).replace(log.id.encode(), b"s-1")
    for at in range(len(log.tree)):  # ids and times that are the same each time
        lines = lines.replace(log.tree.id(at).encode(), b"%08x" % at)
    lines = re.sub(rb'"timestamp":"[^"]*"', b'"timestamp":"2026-01-02T03:04:05.678Z"', lines)
    return [_header(), *lines.split(b"\n")]


def _old() -> list[Lines]:
    """Of the versions before this one."""

    def line(**fields: Any) -> bytes:
        return json.dumps(fields).encode()

    said = {"role": "user", "content": "hi", "timestamp": 1}
    hook = {"role": "hookMessage", "customType": "x", "content": "note", "display": True, "timestamp": 1}
    first: Lines = [
        line(type="session", id="old", timestamp="2025-11-01T00:00:00.000Z", cwd=""),
        line(type="message", timestamp="2025-11-01T00:00:01.000Z", message=said),
        line(type="message", timestamp="2025-11-01T00:00:02.000Z", message=hook),
        line(type="compaction", timestamp="t", summary="so far", firstKeptEntryIndex=1, tokensBefore=10),
        line(type="message", timestamp="2025-11-01T00:00:03.000Z", message=said),
    ]
    second: Lines = [
        _header(2),
        line(type="message", id="a", parentId=None, timestamp="t", message=said),
        line(type="message", id="b", parentId="a", timestamp="t", message=hook),
    ]
    return [first, second]


def _told_by_others() -> Lines:
    """As pi writes, with kinds of entries that nobody here knows."""
    entries: list[dict[str, Any]] = [
        {"type": "model_change", "provider": "p", "modelId": "m"},
        {"type": "thinking_level_change", "thinkingLevel": "off"},
        {"type": "message", "message": {"role": "user", "content": [{"type": "text", "text": "hi"}], "timestamp": 1}},
        {"type": "context_edit", "what": [1, 2]},
        {"type": "custom", "customType": "tau.queued", "data": {"queue": "steer", "message": 5}},
        {"type": "custom_message", "customType": "x", "content": [{"type": "text", "text": "y"}], "display": False},
        {"type": "branch_summary", "fromId": "1", "summary": "there", "details": None, "fromHook": True},
        {"type": "session_info", "name": "by pi"},
    ]
    ids = [f"{at:08x}" for at in range(len(entries))]
    linked = [
        {"type": entry.pop("type"), "id": id, "parentId": parent, "timestamp": "2026-01-02T03:04:05Z", **entry}
        for entry, id, parent in zip(entries, ids, [None, *ids], strict=False)
    ]
    return [_header(parentSession="/elsewhere.jsonl"), *(json.dumps(entry).encode() for entry in linked)]


# How it is broken.


def mutated_session(chance: Random) -> bytes:
    lines = list(chance.choice(samples()))
    for _ in range(chance.choice([1, 1, 1, 2, 3, 6])):
        chance.choice(WAYS)(lines, chance)
    data = b"\n".join(lines) + b"\n"
    for _ in range(chance.choice([0, 0, 0, 1, 2])):
        if data:
            data = chance.choice(IN_BYTES)(data, chance)
    return data + b"\0" * chance.choice([0] * 9 + [4096])


def _at(lines: Lines, chance: Random) -> int:
    return chance.randrange(len(lines))


def _lost(lines: Lines, chance: Random) -> None:
    lines.pop(_at(lines, chance))
    if not lines:
        lines.append(b"")


def _twice(lines: Lines, chance: Random) -> None:
    lines.insert(_at(lines, chance), lines[_at(lines, chance)])


def _swapped(lines: Lines, chance: Random) -> None:
    one, other = _at(lines, chance), _at(lines, chance)
    lines[one], lines[other] = lines[other], lines[one]


def _joined(lines: Lines, chance: Random) -> None:
    at = _at(lines, chance)
    lines[at : at + 2] = [b"".join(lines[at : at + 2])]


def _garbage(lines: Lines, chance: Random) -> None:
    kinds = [b"", b"null", b"5", b"[]", b"{}", b'{"type":"message"}', b"\xff\xfe", b"[" * 5_000, b"\0" * 100, b"\r"]
    lines.insert(_at(lines, chance), chance.choice(kinds))


def _reshaped(lines: Lines, chance: Random) -> None:
    at = _at(lines, chance)
    value = _object(lines[at])
    if value:
        retyped(value, chance)
        lines[at] = _json(value, chance)


def _relinked(lines: Lines, chance: Random) -> None:
    """An id, or what names one, becomes the id of some other entry: loops, twins, and what is not there."""
    at = _at(lines, chance)
    value = _object(lines[at])
    other = _object(lines[_at(lines, chance)]) or {}
    if value:
        name = chance.choice(["id", "parentId", "firstKeptEntryId", "targetId", "fromId", "firstKeptEntryIndex"])
        value[name] = chance.choice([other.get("id"), other.get("parentId"), value.get("id"), *VALUES])
        lines[at] = _json(value, chance)


def _renumbered(lines: Lines, chance: Random) -> None:
    """The version of the format."""
    value = _object(lines[0])
    if value:
        value["version"] = chance.choice([0, 1, 2, 3, 4, 99, -1, 1.5, "3", None, True, 10**30])
        lines[0] = _json(value, chance)


WAYS: list[Callable[[Lines, Random], None]] = [
    *(_reshaped, _reshaped, _reshaped, _relinked, _relinked),
    *(_lost, _twice, _swapped, _joined, _garbage, _renumbered),
]


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _json(value: Any, chance: Random) -> bytes:
    return json.dumps(value, ensure_ascii=chance.random() < 0.5).encode(errors="surrogatepass")


# What is done with it.


def use_session(path: Path, *, thoroughly: bool = True) -> bool:
    """Open a session and do everything with it that a program does; False if it was refused.

    Raises whatever goes wrong. What takes longest, copies and the page of it, is only made `thoroughly`.
    """
    before = path.read_bytes()
    session_row(path)
    try:
        found = open_session(path)
        log = SessionLog.resumed(found, _unexpected, Unsynced())
    except CommandError:
        assert path.read_bytes() == before, "a file that was refused was changed"
        return False
    try:
        _look(log)
        if thoroughly:
            b"".join(session_page(log))
            _copies(log, path.parent / "copies")
        log.append_message(added := user("one more"))
        assert next(iter(reversed(log.messages))) == added
    finally:
        log.close()
    again = open_session(path)
    assert again.tree.leaf_id == log.tree.leaf_id, "what was added is not there when it is opened again"
    if found.migrated_lines is None:
        assert path.read_bytes().startswith(before), "what was in the file was changed"
    return True


def _look(log: SessionLog) -> None:
    """What a client may ask for."""
    tree, branch = log.tree, Branch(log.tree)
    at_first = json.loads(b"".join(log.messages_json()))
    there = len(log.messages)  # only who reads them finds one that cannot be read
    shown = json.loads(b"".join(log.messages_json()))
    assert len(at_first) >= len(shown) == there, f"{len(shown)} messages are sent, {there} are there"
    assert log.message_count == len(log.messages)
    assert log.pending_queue.undelivered() is not None
    assert log.pending_bash.undelivered() is not None
    log.last_model(), log.last_level(), log.problems.take()
    json.loads(tree.json().decode())  # as any client reads it: ours is stricter about numbers
    for line in tree.after(None):
        json.loads(line.decode())
    tree.fork_points(), tree.name, tree.leaf_id
    for at in range(len(tree)):
        tree.entry(at), tree.id(at), tree.path(at)
    encode(conversation_counts(log.messages).stats(log.id))
    encode(SessionCounts().update(log.tree).stats(log.id))
    context_usage(branch, MODEL.context_window)
    for_model(log.messages, MODEL)
    for before_prompt in (False, True):
        compaction_due(branch, MODEL, SMALL, before_prompt=before_prompt)
    plan = plan_compaction(branch, SMALL)
    if not isinstance(plan, str):
        plan.requests(SMALL, MODEL, "off"), plan.summary(["one", "two"]), plan.details
    if tree.branch:
        plan_branch_summary(abandoned_entries(tree, tree.branch[-1], tree.branch[0]), MODEL.context_window, 10)


def _copies(log: SessionLog, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    log.file.path = folder / "original.jsonl"  # copies are made in the folder of the original
    made_copies = [copies.clone(log)]
    for point in log.tree.fork_points()[-1:]:
        with suppress(CommandError):  # two entries may have one id
            made_copies.append(copies.fork(log, point.entry_id))
    for made in made_copies:
        made.close()
        if made.path is not None and made.path.exists():
            open_session(made.path)
            made.path.unlink()


def _unexpected(error: OSError) -> None:
    raise AssertionError(f"a write failed: {error}")

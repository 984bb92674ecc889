"""The rules that every schedule keeps, checked when a case has been played.

    responses   each operation is answered once
    settled     each accepted prompt settles once, and runs do not overlap
    texts       a text that was acknowledged is in the conversation once, waits in its queue, or was cleared
    place       it is in the session in which it was accepted; after a switch that was asked for before: in the new one
    refused     a text that was refused is nowhere
    bash        the result of a command is recorded once, in the session in which it was started
    name        a name that was acknowledged is recorded
    stranded    a message that was queued before the end of a run which succeeded is a part of it
    queues      the queues that the client was last told of, and those of the file, are those of the session
    pairs       what starts ends: compactions, tools, retries
    files       each line is JSON, ids are unique, parents come first
    reopened    a session that is opened again has no damage, and the queued messages that were not delivered
    reload      after a request for a reload, settings and extensions are read once more
    stale       an extension's message is in the session for which the extension sent it

A player adds: hang, no response, task left, descriptor left, exception, error logged, internal error.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from support.schedule_cases import SWITCHES, Json
from support.schedule_record import Asked, Record
from tau.records.base import to_builtins
from tau.records.events import QueueUpdate
from tau.records.messages import Assistant
from tau.runtime.history.pending_queue import CLEARED, QUEUED
from tau.runtime.history.session_log import SessionLog
from tau.runtime.runs.compactor import RECOVERY_FAILED  # a compaction that is not even tried only has an end
from tau.store.sessions import OpenedSession, open_session

Problem = tuple[str, str]
TEXTS = {"prompt", "steer", "follow_up", "act send_message", "act send_user_message", "hook send", "hook send_turn"}
PAIRS = (("compaction_start", "compaction_end"), ("tool_execution_start", "tool_execution_end"))
END = 10**9
# Rules that are broken for a known reason; they are counted, and fail nothing.
KNOWN: dict[str, str] = {}


@dataclass
class Place:
    """Where a text was found: sessions by the kind of entry, and the ids of these entries."""

    messages: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  # entry id: sessions
    queued: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    names: set[str] = field(default_factory=set)
    twice: set[str] = field(default_factory=set)  # sessions in which it is more than once


class Sessions:
    """The entries of all sessions of a schedule, from their files; from memory if there is no file."""

    def __init__(self, record: Record) -> None:
        self.problems: list[Problem] = []
        self.entries: dict[str, list[Json]] = {}
        for left in record.sessions:
            if left.path is not None and left.path.exists():
                if left.id not in self.entries:
                    self.entries[left.id] = self._read(left.path.read_bytes(), left.id)
            else:
                self.entries[left.id] = [json.loads(line) for line in left.lines]

    def _read(self, data: bytes, name: str) -> list[Json]:
        entries: list[Json] = []
        known: set[str | None] = {None}
        for number, line in enumerate(data.split(b"\n")[:-1]):
            try:
                entry = json.loads(line)
            except ValueError:
                self.problems.append(("files", f"line {number} of {name} is not JSON: {line[:80]!r}"))
                continue
            if number == 0:
                continue
            if entry["id"] in known or entry["parentId"] not in known:
                self.problems.append(("files", f"entry {number} of {name}: id or parent is wrong: {line[:120]!r}"))
            known.add(entry["id"])
            entries.append(entry)
        return entries

    def places(self) -> dict[str, Place]:
        found: dict[str, Place] = defaultdict(Place)
        for session, entries in self.entries.items():
            seen: Counter[str] = Counter()
            for entry in entries:
                for text, kind in _texts(entry):
                    place = found[text]
                    if kind == "name":
                        place.names.add(session)
                    elif kind == "queued":
                        place.queued[entry["id"]].add(session)
                    else:
                        place.messages[entry["id"]].add(session)
                        seen[text] += 1
            for text, count in seen.items():
                if count > 1:
                    found[text].twice.add(session)
        return found

    def waiting(self) -> dict[str, set[str]]:
        """By text: the sessions in which it is queued and not delivered."""
        found: dict[str, set[str]] = defaultdict(set)
        for session, entries in self.entries.items():
            queue: list[str] = []
            for entry in entries:
                if entry["type"] == "custom" and entry["customType"] == CLEARED:
                    kept = (entry.get("data") or {}).get("kept", ())
                    queue = [_content(one["message"]) for one in kept]
                for text, kind in _texts(entry):
                    if kind == "queued":
                        queue.append(text)
                    elif kind == "message" and text in queue:
                        queue.remove(text)
            for text in queue:
                found[text].add(session)
        return found


def problems(record: Record) -> list[Problem]:
    sessions = Sessions(record)
    places, waiting = sessions.places(), sessions.waiting()
    timeline = [(left.at, left.id) for left in record.sessions]
    return [
        *record.problems,
        *sessions.problems,
        *_responses(record),
        *_settled(record),
        *_pairs(record),
        *_queues(record, waiting),
        *_stranded(record),
        *_reopened(record, waiting),
        *_reloads(record),
        *(one for asked in record.asked for one in _text(asked, record, places, waiting, timeline)),
        *(one for asked in record.asked for one in _other(asked, record, places, timeline)),
    ]


def _responses(record: Record) -> Iterator[Problem]:
    for asked in record.asked:
        if asked.source != "hook" and len(asked.answers) + len(asked.errors) != 1:
            yield "responses", f"{asked.do} {asked.operation['n']}: {asked.answers} {asked.errors}"


def _settled(record: Record) -> Iterator[Problem]:
    tags = [tag for _, tag, _ in record.events]
    count = tags.count("agent_settled")
    if not any(rule == "hang" for rule, _ in record.problems) and not record.accepted == record.settled == count:
        yield "settled", f"{record.accepted} accepted, {record.settled} settled, {count} agent_settled"
    running = False
    for tag in tags:
        if tag == "agent_start":
            if running:
                yield "settled", "agent_start during a run"
            running = True
        elif tag == "agent_end":
            if not running:
                yield "settled", "agent_end without a run"
            running = False
        elif tag == "agent_settled" and running:
            yield "settled", "agent_settled during a run"


def _pairs(record: Record) -> Iterator[Problem]:
    counts = Counter(tag for _, tag, event in record.events if getattr(event, "error_message", None) != RECOVERY_FAILED)
    for start, end in PAIRS:
        if counts[start] != counts[end]:
            yield "pairs", f"{counts[start]} {start}, {counts[end]} {end}"
    retrying = False
    for step, tag, _ in record.events:
        if tag == "auto_retry_end" and not retrying:
            yield "pairs", f"auto_retry_end at step {step} without a retry"
        if tag == "agent_settled" and retrying:
            yield "pairs", f"agent_settled at step {step} before auto_retry_end"
        if tag in ("auto_retry_start", "auto_retry_end"):
            retrying = tag == "auto_retry_start"


def _queues(record: Record, waiting: dict[str, set[str]]) -> Iterator[Problem]:
    if record.queued is not None:
        told = next((event for _, _, event in reversed(record.events) if isinstance(event, QueueUpdate)), None)
        shown = ([], []) if told is None else (list(told.steering), list(told.follow_up))
        if shown != record.queued:
            yield "queues", f"told {shown}, there are {record.queued}"
        session = record.sessions[-1].id
        kept = sorted(text for text, where in waiting.items() if session in where)
        if kept != sorted([*record.queued[0], *record.queued[1]]):
            yield "queues", f"{kept} in the file, there are {record.queued}"


def _undelivered(opened: OpenedSession) -> list[Any]:
    return SessionLog(opened.header, None, lambda error: None, opened.tree).pending_queue.undelivered()


def _reopened(record: Record, waiting: dict[str, set[str]]) -> Iterator[Problem]:
    for id, path in {left.id: left.path for left in record.sessions}.items():
        if path is None or not path.exists():
            continue
        opened = open_session(path)
        queued = sorted(_content(to_builtins(message)) for _, message in _undelivered(opened))
        kept = sorted(text for text, where in waiting.items() if id in where)
        if opened.problems or queued != kept:
            yield "reopened", f"{opened.problems}, queued {queued}, expected {kept}"


def _stranded(record: Record) -> Iterator[Problem]:
    ends: list[int] = []
    succeeded = False
    settled = iter(record.idle)
    for step, tag, event in record.events:
        if tag == "agent_end":
            ends.append(step)
        elif tag == "message_end" and isinstance(event.message, Assistant):
            succeeded = not event.message.failed
        elif tag == "agent_settled":
            _, left = next(settled)
            early = {one.text for one in record.asked if one.answers and one.done is not None and one.done < ends[-1]}
            if succeeded and not event.aborted and (texts := early & set(left)):
                yield "stranded", f"{sorted(texts)} at step {step}"


def _reloads(record: Record) -> Iterator[Problem]:
    if record.queued is None:  # it was closed before everything had ended
        return
    for asked in record.asked:
        wanted = asked.do in ("act reload", "hook reload") and not asked.closing and not asked.errors
        if wanted and not any(step > asked.at for step in record.reads):
            yield "reload", f"requested at step {asked.at}, read at {record.reads}"


def _text(
    asked: Asked,
    record: Record,
    places: dict[str, Place],
    waiting: dict[str, set[str]],
    timeline: list[tuple[int, str]],
) -> Iterator[Problem]:
    if asked.do not in TEXTS or not asked.text:
        return
    place, what = places.get(asked.text, Place()), f"{asked.do} {asked.text}"
    if len(place.messages) > 1 or place.twice:
        yield "texts", f"{what} is in the conversation more than once: {dict(place.messages)}"
    found = {one for ids in place.messages.values() for one in ids}
    if asked.errors and found:
        yield "refused", f"{what} was refused ({asked.errors[0]}), but is in {found}"
    origin = _first(found | {one for ids in place.queued.values() for one in ids}, timeline)
    cleared = any(asked.text in texts for texts in _cleared(record))
    if cleared and found:
        yield "texts", f"{what} was cleared and delivered"
    if asked.source == "hook":
        if origin is not None and origin != asked.session:
            yield "stale", f"{what} of session {asked.session[-4:]} is in {origin[-4:]}"
        return
    if not asked.answers or asked.answer in ("handled", {"disposition": "handled"}):
        return
    if origin is not None:
        legal = _legal(asked, record, timeline)
        if origin not in legal:
            yield "place", f"{what} is in {origin[-4:]}, expected {sorted(one[-4:] for one in legal)}"
    if not found and not cleared and not waiting.get(asked.text) and not _may_vanish(asked, record, place, timeline):
        yield "texts", f"{what} was acknowledged ({asked.answer}) and is lost"


def _may_vanish(asked: Asked, record: Record, place: Place, timeline: list[tuple[int, str]]) -> bool:
    """A queued message is dropped when its session is left; one for the next turn, if there is none."""
    if asked.do == "act send_message" and asked.operation.get("pick", 0) % 4 == 3:
        return True
    queued = {one for ids in place.queued.values() for one in ids}
    return any(any(step > asked.at and id != one for step, id in timeline) for one in queued)


def _other(
    asked: Asked, record: Record, places: dict[str, Place], timeline: list[tuple[int, str]]
) -> Iterator[Problem]:
    if not asked.answers or not asked.text:
        return
    place, what = places.get(asked.text, Place()), f"{asked.do} {asked.text}"
    legal = _legal(asked, record, timeline)
    if asked.do in ("set_session_name", "act set_session_name"):
        if not place.names:
            yield "name", f"{what} was acknowledged and is lost"
        elif (origin := _first(place.names, timeline)) not in legal:
            yield "place", f"{what} is in {str(origin)[-4:]}, expected {sorted(one[-4:] for one in legal)}"
    elif asked.do == "bash":
        if len(place.messages) > 1 or place.twice:
            yield "bash", f"{what} is recorded more than once: {dict(place.messages)}"
        found = {one for ids in place.messages.values() for one in ids}
        if not found:
            yield "bash", f"{what} was answered and is not recorded"
        elif (origin := _first(found, timeline)) not in legal:
            yield "place", f"{what} is in {str(origin)[-4:]}, expected {sorted(one[-4:] for one in legal)}"


def _legal(asked: Asked, record: Record, timeline: list[tuple[int, str]]) -> set[str]:
    """The sessions in which the effect of an operation may be.

    It is a session that was current between the operation and its answer. A client's operation that came during a
    switch applies to the session after the switch, if all switches under way at that moment came before it. If it was
    answered before that, no session is right.
    """
    first, last = asked.at, END if asked.done is None else asked.done
    if asked.source == "client" and record.ordered:
        for step, _ in timeline:
            if asked.at < step:
                during = [one for one in record.asked if one.do in SWITCHES and _spans(one, step)]
                others = [one for one in record.asked if one.do == "command"]  # it may switch as well
                if during and not others and all(one.at < asked.at for one in during):
                    first = step
    return {
        id
        for (step, id), (following, _) in zip(timeline, [*timeline[1:], (END, "")], strict=True)
        if step <= last and following > first
    }


def _spans(asked: Asked, step: int) -> bool:
    return asked.at < step and (asked.done is None or asked.done >= step)


def _first(found: set[str], timeline: list[tuple[int, str]]) -> str | None:
    """The session that was there first: forks and clones have copies."""
    return next((id for _, id in timeline if id in found), None)


def _cleared(record: Record) -> Iterator[list[str]]:
    for asked in record.asked:
        if asked.do == "clear_queue" and asked.answers:
            yield [*asked.answer["steering"], *asked.answer["followUp"]]


def _texts(entry: Json) -> Iterator[tuple[str, str]]:
    match entry["type"]:
        case "message" if entry["message"]["role"] == "user":
            yield _content(entry["message"]), "message"
        case "message" if entry["message"]["role"] == "bashExecution":
            yield entry["message"]["command"].split()[-1], "message"
        case "custom_message":
            yield _content(entry), "message"
        case "session_info":
            yield entry["name"], "name"
        case "custom" if entry["customType"] == QUEUED:
            yield _content(entry["data"]["message"]), "queued"


def _content(message: Any) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)

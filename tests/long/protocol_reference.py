"""The reference model of the RPC protocol: reads a transcript, item by item, and raises Violation for what is wrong.

Items are what a client sees, in its order:

    {"life": {...}}    a process was started: its script, and the session and the model that it was told to open
    {"sent": {...}}    a command was written
    {"got": {...}}     a record was read
    {"end": {...}}     the process has ended: its exit code, its stderr, the session files, processes that are left

A response or an event is the moment at which the model changes its state: the program tells of every change
before it does anything else. Only what a client sets takes effect when its line is read, unless the line stands
behind a command that goes to another session. The order of lines is then the order of the changes.
"""

from __future__ import annotations

import copy
import json
import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from long.protocol_answers import SLEEP
from long.protocol_choices import Choices
from long.protocol_commands import (
    BEHAVIORS,
    CERTAIN,
    CHANGES,
    MODES,
    MOVES,
    QUEUED_BY,
    STOPS,
    Sent,
    content_of,
    malformed,
)
from long.protocol_looks import Looks
from long.protocol_queues import Queue, Queues
from long.protocol_rules import Json, Rule, Violation, broken, require, short, text_of
from long.protocol_runs import Config, Prompt, Runs
from long.protocol_sessions import Session
from long.protocol_setup import IDS, clamp


@dataclass
class Stopped:
    """A run that settled as aborted, and the commands that may have stopped it."""

    prompt: Prompt
    causes: list[Sent] = field(default_factory=list)


class Reference(Choices, Looks):
    def __init__(self, settings: Json, soft: Callable[[Rule, str], None] | None = None) -> None:
        """`settings` is the user's settings file. `soft` hears of what is wrong without anything following from it."""
        self.saved = settings
        self._soft = soft
        self.sessions: list[Session] = []
        self.usages: dict[str, Json] = {}
        self._said: dict[str, Json] = {}  # what the model says, by the mark in its text
        self._place = 0

    def feed(self, item: Json) -> None:
        self._place += 1
        (kind, value), *_ = item.items()
        if kind == "life":
            self._begin(value)
        elif kind == "sent":
            self._send(value)
        elif kind == "end":
            self._end(value)
        elif value["type"] == "response":
            self._respond(value)
        else:
            self._event(value)

    # A process.

    def _begin(self, life: Json) -> None:
        self.pending: dict[str, Sent] = {}
        self._line: deque[Sent] = deque()  # moves under way, and what waits behind them
        self._stops: list[Sent] = []
        self._stopped: list[Stopped] = []
        self._aborts: list[int] = []
        self._requested: Json | None = None  # the last event of a compaction that a client requested
        self._switched = 0  # the place of the last session switch that was answered
        self._limited = 0  # the place of the last set_budget
        self._bash_aborts: list[int] = []
        self._look: tuple[str, int] = ("", 0)
        self._unsure = False  # the model is known when it is asked for
        saved = self.saved
        retry, compaction = saved.get("retry", {}), saved.get("compaction", {})
        self.config = Config(
            saved.get("steerAfter", "tool"),
            saved.get("toolExecution") == "parallel",
            saved.get("streamingUntil", "end"),
            saved.get("keepBashAfter", "prompt"),
            saved.get("retrySuccess", "answer"),
            retry.get("maxRetries", 3),
            retry.get("maxDelayMs", 60_000),
            {retry.get("enabled", True)},
            {
                "steering": {saved.get("steeringMode", MODES[1])},
                "followUp": {saved.get("followUpMode", MODES[1])},
            },
            compaction={compaction.get("enabled", True)},
            script=life["script"],
        )
        self.auto_compaction: bool = compaction.get("enabled", True)
        self.queues = Queues()
        self.runs = Runs(self.config, self.queues, self._record, lambda message: self.current.drop(message))
        self.runs.stopping = lambda: any(sent.kind in STOPS for sent in self.pending.values())
        for answer in life["script"]:
            if (mark := re.search(r"\[a\d+\.\d+\]", json.dumps(answer))) is not None:
                self._said[mark[0]] = answer
        self._open_first(life)

    def _open_first(self, life: Json) -> None:
        """Which model, level and session a process begins with."""
        named, path = life.get("model"), life.get("session")
        saved_model = self.saved.get("defaultModel")
        self.model: str = named or saved_model or IDS[0]
        level = self.saved.get("defaultThinkingLevel", "medium")
        if path is None:
            self.level = clamp(level, self.model)
            self.current = self._fresh_session()
            return
        self.current = next(session for session in self.sessions if session.file == path)
        self.current.reopened()
        if named is None:
            self._take_model(self.current)
        self._take_level(self.current, level)
        self.queues.opened(self.current.queues)

    def _end(self, end: Json) -> None:
        require(
            not self.pending, Rule.RESPONSE, f"never answered: {short([one.command for one in self.pending.values()])}"
        )
        require(not self.runs.busy, Rule.SETTLED, "the process ended, and an accepted prompt has not settled")
        require(not self.queues.leaving, Rule.DELIVERED, f"{self.queues.leaving} were taken out and never said")
        require(end["code"] == 0, Rule.EXIT, f"exit code {end['code']}")
        require(not end["stderr"], Rule.EXIT, f"stderr: {short(end['stderr'], 3000)}")
        require(not end["processes"], Rule.EXIT, f"still running: {end['processes']}")
        self.current.expect_waiting_bash()
        self.current.queues = self.queues.content
        files: dict[str, list[Json]] = dict(end["files"])
        for session in self.sessions:
            if session.begun and session.file is None:
                session.file = self._file_of(session, files)
            if session.begun and session.file is not None:
                require(session.file in files, Rule.FILE, f"there is no session file {session.file}")
                header, *entries = files.pop(session.file)
                require(
                    session.id in (None, header["id"]), Rule.FILE, f"{session.file} has another id: {short(header)}"
                )
                session.id = header["id"]
                session.adopt(entries, None, from_file=True)
                self._price_branch_summaries(session)
        require(not files, Rule.FILE, f"session files that no command began: {list(files)}")
        self.sessions = [session for session in self.sessions if session.begun]

    def _file_of(self, session: Session, files: dict[str, list[Json]]) -> str:
        """The file of a session that was left before its id was asked for."""
        taken = {one.file for one in self.sessions}
        talk = [entry["message"] for entry in session.entries if entry["type"] == "message"]
        talk += [item.fields["message"] for item in session.pending if item.type == "message"]
        texts = [text_of(message) for message in talk if message["role"] == "user"]
        for path, (_, *entries) in files.items():
            messages = [entry["message"] for entry in entries if entry["type"] == "message"]
            said = [text_of(message) for message in messages if message["role"] == "user"]
            if path not in taken and said == texts and _fits(session, entries):
                return path
        broken(Rule.FILE, f"no session file has the messages {texts}")

    # Commands.

    def _send(self, command: Json) -> None:
        sent = Sent(command, self._place, moves_ahead=bool(self._line))
        self.pending[command["id"]] = sent
        if malformed(command):
            sent.refused = True
            return
        kind = sent.kind
        if kind in STOPS:
            self._stops.append(sent)
        if kind in MOVES:
            self._line.append(sent)
        elif kind in CHANGES:
            if self._line:
                self._line.append(sent)
            else:
                self._apply(sent)
        elif kind == "abort":
            self._aborts.append(self._place)
            sent.predicted = self.runs.prompt or next(iter(self.runs.accepted), None)
        elif kind == "abort_bash":
            self._bash_aborts.append(self._place)
        elif kind == "abort_retry":
            sent.predicted = self.runs._waiting
        elif kind == "get_state" and not self._line:
            sent.predicted = self._settings()
        elif kind == "export_html":
            sent.predicted = self.current.begun and not self._line
        elif kind == "list_sessions":
            sent.predicted = [one for one in self.sessions if one.begun and one.id and one.file]
        elif kind == "set_steering_mode":
            self.config.modes["steering"].add(command["mode"])
            self.saved["steeringMode"] = command["mode"]
        elif kind == "set_follow_up_mode":
            self.config.modes["followUp"].add(command["mode"])
            self.saved["followUpMode"] = command["mode"]
        elif kind == "set_auto_retry":
            self.config.retry.add(command["enabled"])
            self.saved.setdefault("retry", {})["enabled"] = command["enabled"]
        elif kind == "set_auto_compaction":
            self.auto_compaction = command["enabled"]
            self.config.compaction.add(command["enabled"])
            self.saved.setdefault("compaction", {})["enabled"] = command["enabled"]
        elif kind == "set_budget":
            self.config.limit, self._limited = command.get("maxTurns"), self._place
            self.config.budget = self.config.budget or self.config.limit is not None

    # Responses.

    def _respond(self, response: Json) -> None:
        sent = self.pending.pop(response.get("id", ""), None)
        if sent is None:
            broken(Rule.RESPONSE, f"no command has this id, or it was answered before: {short(response)}")
        require(response["command"] == sent.kind, Rule.RESPONSE, f"{short(response)} for {short(sent.command)}")
        sent.answered, sent.success, sent.error = self._place, response["success"], response.get("error", "")
        require("Internal error" not in sent.error, Rule.RESPONSE, short(response))
        if sent in self._line:
            self._its_turn(sent)
        if sent.success and sent.kind in ("prompt", "steer", "follow_up", "clear_queue"):
            good = self._switched < sent.place
            require(good, Rule.SWITCHED, f"{short(sent.command)} had to wait for a switch that was sent after it")
        if sent.refused:
            require(not sent.success, Rule.REFUSED, f"{short(sent.command)} succeeded")
        elif sent.kind in CERTAIN:
            require(sent.success, Rule.ACCEPTED, f"{short(sent.command)} was refused: {sent.error}")
        data = response.get("data")
        if handler := getattr(self, f"_on_{sent.kind}", None):
            handler(sent, data)
        if not sent.success and sent.kind in STOPS:
            self._blame()
        while self._line and (self._line[0].kind not in MOVES or self._line[0].answered):
            first = self._line.popleft()
            if first.kind not in MOVES:
                self._apply(first)

    def _its_turn(self, sent: Sent) -> None:
        """A command is answered that is a move, or stands behind one."""
        ahead: list[Sent] = []
        for one in self._line:
            if one is sent:
                break
            ahead.append(one)
        if sent.kind in MOVES:
            moves = [one.command for one in ahead if one.kind in MOVES]
            require(not moves, Rule.RESPONSE, f"{short(sent.command)} was answered before {short(moves)}")
            return
        switches = [one.command for one in ahead if one.kind in MOVES and one.kind != "navigate"]
        require(not switches, Rule.SWITCHED, f"{short(sent.command)} was answered before {short(switches)}")
        self._line.remove(sent)
        self._apply(sent)

    def _on_prompt(self, sent: Sent, data: Any) -> None:
        text = sent.command.get("message")
        queued = text in self.queues.queued
        if not sent.success:
            require(not queued, Rule.UNCHANGED, f"a refused prompt was queued: {text!r}")
            aborted = any(place > sent.place for place in self._aborts)
            good = sent.refused or self.runs.streaming or aborted
            require(good, Rule.BUSY, f"{text!r} was refused while nothing ran: {sent.error}")
            if self.runs.streaming and not aborted and not sent.refused:
                good = "streamingBehavior" not in sent.command
                require(good, Rule.BUSY, f"{text!r} was not queued: {sent.error}")
            return
        if queued:
            require(self.runs.streaming, Rule.BUSY, f"{text!r} was queued, and nothing ran")
            return
        require(not self.runs.streaming, Rule.BUSY, f"{text!r} was accepted to run while the agent streams")
        recorded: Json | None = None
        if not self.runs.busy:
            self.current.expect_waiting_bash()
            self._note_level(sent.place)
            recorded = {"role": "user", "content": content_of(sent.command)}
            self.current.expect("message", message=recorded)
        self.current.begun = True
        self.runs.accepted.append(Prompt(sent.command["message"], content_of(sent.command), self._place, recorded))

    def _on_steer(self, sent: Sent, data: Any) -> None:
        text = sent.command.get("message")
        queued = text in self.queues.queued
        if sent.success:
            require(queued, Rule.QUEUE_UPDATE, f"{text!r} was accepted, and queue_update did not tell of it")
            self.current.begun = True
        else:
            require(not queued, Rule.UNCHANGED, f"a refused message was queued: {text!r}")

    _on_follow_up = _on_steer

    def _on_clear_queue(self, sent: Sent, data: Any) -> None:
        self.queues.cleared(data)

    def _on_abort(self, sent: Sent, data: Any) -> None:
        stopped: Prompt | None = sent.predicted
        good = stopped is None or stopped.settled
        require(good, Rule.ABORTED, f"abort was answered before {stopped and stopped.text!r} settled")

    def _on_abort_retry(self, sent: Sent, data: Any) -> None:
        good = sent.predicted is None or self.runs._waiting is not sent.predicted
        require(good, Rule.RETRY, "abort_retry was answered, and the retry is still waited for")

    def _on_bash(self, sent: Sent, data: Any) -> None:
        command, session = sent.command["command"], sent.session
        assert session is not None
        stopped = any(place > sent.place for place in self._bash_aborts)
        require(stopped or not data["cancelled"], Rule.RETURNED, f"{command!r} was cancelled, and nothing stopped it")
        require(command != SLEEP or data["cancelled"], Rule.RETURNED, f"{command!r} ended by itself: {short(data)}")
        if command.startswith("echo ") and not data["cancelled"]:
            told = data["output"], data.get("exitCode")
            require(told == (f"{command[5:]}\n", 0), Rule.RETURNED, f"{command!r} returned {short(data)}")
        message = {
            "role": "bashExecution",
            "command": command,
            "output": data["output"],
            "cancelled": data["cancelled"],
            "truncated": data["truncated"],
            "fullOutputPath": data.get("fullOutputPath"),
        }
        if "exitCode" in data:
            message["exitCode"] = data["exitCode"]
        if sent.command.get("excludeFromContext"):
            message["excludeFromContext"] = True
        if session is self.current and self.runs.busy:
            session.waiting_bash.append(message)
            session.wrote()
            return
        session.expect_waiting_bash()
        copying = any(one.kind == "clone" for one in self._line)
        session.expect("message", bash=True, optional=copying, message=message)  # a copy may be made already

    def _on_compact(self, sent: Sent, data: Any) -> None:
        if sent.success:
            told = self._requested or {}
            require(told.get("result") == data, Rule.COMPACTION_EVENTS, f"compacted, and the last event is {told}")
            self._compacted(data)

    def _compacted(self, result: Json) -> None:
        fields = {name: result[name] for name in ("summary", "firstKeptEntryId", "tokensBefore")}
        self.current.expect("compaction", result.get("usage"), **fields)

    # Moves.

    def _arrive(self, session: Session, place: int) -> None:
        """Another session is there, and what was under way in the old one has ended."""
        old = self.current
        self._switched = place
        require(not self.runs.busy, Rule.ABORTED, "a session was left while a run was under way")
        old.expect_waiting_bash()
        if self.queues.leaving:
            old.wrote()
        old.queues = ([], [])
        if session not in self.sessions:
            self.sessions.append(session)
        self.current = session
        self.queues.moved(session.queues)

    def _on_new_session(self, sent: Sent, data: Any) -> None:
        self._arrive(self._fresh_session(), sent.place)

    def _on_clone(self, sent: Sent, data: Any) -> None:
        self.current.expect_waiting_bash()
        self._arrive(self.current.copy_all(), sent.place)

    def _on_fork(self, sent: Sent, data: Any) -> None:
        entry = self.current.by_id.get(sent.command.get("entryId", ""))
        good = entry is not None and entry["type"] == "message" and entry["message"]["role"] == "user"
        require(sent.success == (good and not sent.refused), Rule.ACCEPTED, f"{short(sent.command)}: {sent.error}")
        if sent.success:
            assert entry is not None
            require(data["text"] == text_of(entry["message"]), Rule.RETURNED, short(data))
            self._arrive(self.current.copy_before(entry["id"]), sent.place)

    def _on_switch_session(self, sent: Sent, data: Any) -> None:
        path = sent.command.get("sessionPath", "")
        valid = not sent.refused and "missing" not in path
        require(sent.success == valid, Rule.ACCEPTED, f"{short(sent.command)}: {sent.error}")
        if not sent.success or path == self.current.file:
            return
        target = next((session for session in self.sessions if session.file == path), None)
        if target is None or not target.begun:
            self.sessions = [session for session in self.sessions if session.file != path]
            self._arrive(self._fresh_session(), sent.place)
            self.current.file = path
            return
        target.reopened()
        self._arrive(target, sent.place)
        self._take_model(target)
        self._take_level(target, self.level)

    def _on_navigate(self, sent: Sent, data: Any) -> None:
        session, command = self.current, sent.command
        entry = session.by_id.get(command.get("entryId", ""))
        if entry is None or sent.refused:
            require(not sent.success, Rule.REFUSED, f"{short(command)} succeeded")
            return
        if not sent.success:
            require(command.get("summarize"), Rule.ACCEPTED, f"{short(command)} was refused: {sent.error}")
        require(not self.runs.busy, Rule.ABORTED, "navigate was answered while a run was under way")
        session.expect_waiting_bash()
        if not sent.success or data["cancelled"]:
            return
        user = entry["type"] == "message" and entry["message"]["role"] == "user"
        leaf = entry["parentId"] if user else entry["id"]
        text = text_of(entry["message"]) if user else None
        require(data.get("editorText") == text, Rule.RETURNED, short(data))
        session.navigated(leaf)
        label = command.get("label")
        if command.get("summarize"):
            session.expect("branch_summary")
        elif label is None:
            require(data["leafId"] == leaf, Rule.RETURNED, f"navigated to {data['leafId']}, expected {leaf}")
        if label is not None:
            fields = {"label": label} if command.get("summarize") else {"label": label, "targetId": entry["id"]}
            session.expect("label", **fields)

    # Looks.

    # Events.

    def _event(self, event: Json) -> None:
        self._look = ("", 0)
        if event["type"] == "queue_update":
            self._queue_update(event)
            return
        if event["type"] in ("compaction_start", "compaction_end"):
            self._requested_compaction(event)
            return
        if self.runs.prompt is None and self.runs.accepted and not self.runs.accepted[0].begun:
            self.runs.accepted[0].begun = True
            self.current.expect_waiting_bash()
        settled = self.runs.event(event)
        if event["type"] == "auto_compaction_end" and event["result"] is not None:
            self._compacted(event["result"])
        if settled is not None:
            self._settle(settled, event)

    def _requested_compaction(self, event: Json) -> None:
        before = self._requested
        started = before is not None and before["type"] == "compaction_start"
        good = event["reason"] == "manual" and started == (event["type"] == "compaction_end")
        require(good, Rule.COMPACTION_EVENTS, f"{short(event)} after {before}")
        self._requested = event

    def _queue_update(self, event: Json) -> None:
        commands: dict[str, Queue] = {}
        for sent in self.pending.values():
            behavior = sent.command.get("streamingBehavior", "")
            queue = BEHAVIORS.get(behavior) if sent.kind == "prompt" else QUEUED_BY.get(sent.kind)
            if queue is not None and not sent.refused:
                commands[sent.command["message"]] = queue
        paths = [sent.command.get("sessionPath") for sent in self._line if sent.kind == "switch_session"]
        opened = [
            text for session in self.sessions if session.file in paths for texts in session.queues for text in texts
        ]
        queued = self.queues.update(event, commands, opened, moving=bool(self._line))
        if queued:
            self.current.begun = True
        if queued or not self._line:
            self.current.wrote()

    def _settle(self, prompt: Prompt, event: Json) -> None:
        turns = [answer for answer in self.runs.answers if answer["stopReason"] not in ("error", "aborted")]
        if self.config.limit is not None and self._limited < prompt.accepted:
            good = len(turns) <= self.config.limit
            require(good, Rule.BUDGET, f"{prompt.text!r} took {len(turns)} turns of {self.config.limit}")
        self.config.budget = self.config.limit is not None
        if self.config.keep_bash_after == "run":
            self.current.expect_waiting_bash()
        if event["aborted"]:
            causes = [one for one in self._stops if one.answered is None or one.answered > prompt.accepted]
            require(causes, Rule.ABORTED, f"{prompt.text!r} was aborted, and no command stopped it")
            self._stopped.append(Stopped(prompt, causes))
            self._blame()

    def _blame(self) -> None:
        """A run that was aborted only by commands that were refused."""
        for stopped in self._stopped:
            answered = [cause for cause in stopped.causes if cause.answered is not None]
            if len(answered) == len(stopped.causes) and not any(map(_may_stop, answered)):
                told = short([(cause.command, cause.error) for cause in answered])
                broken(Rule.UNCHANGED, f"{stopped.prompt.text!r} was aborted by a command that was refused: {told}")

    def _record(self, message: Json) -> None:
        self.current.expect("message", message=message)

    # For those who drive.

    @property
    def idle(self) -> bool:
        return not self.pending and not self.runs.busy

    @property
    def waits_for_us(self) -> bool:
        """Whether nothing more will come unless something is aborted."""
        sleeping = all(sent.kind == "bash" and sent.command["command"] == SLEEP for sent in self.pending.values())
        return sleeping and (not self.runs.busy or self.runs.hangs)


def _fits(session: Session, entries: list[Json]) -> bool:
    """Whether these can be the entries of a session."""
    try:
        copy.deepcopy(session).adopt(entries, None, from_file=True)
    except Violation:
        return False
    return True


def _may_stop(cause: Sent) -> bool:
    """Whether a command that was answered may have stopped a run: it succeeded, or failed after it had begun."""
    return cause.success or "failed:" in cause.error or "cancelled" in cause.error

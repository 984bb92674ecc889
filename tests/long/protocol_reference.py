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

import json
import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from long.protocol_answers import SLEEP
from long.protocol_queues import Queue, Queues
from long.protocol_rules import Json, Rule, broken, require, short, text_of
from long.protocol_runs import Config, Prompt, Runs
from long.protocol_sessions import Session
from long.protocol_setup import IDS, LEVELS, PRICE, PROVIDER, clamp, levels, window

MOVES = ("new_session", "switch_session", "fork", "clone", "navigate")
STOPS = (*MOVES, "abort", "compact")
# What changes the session, and so waits behind a move.
CHANGES = (
    *("prompt", "steer", "follow_up", "clear_queue", "compact", "bash", "set_session_name"),
    *("set_model", "cycle_model", "set_thinking_level", "cycle_thinking_level"),
)
QUEUED_BY: dict[str, Queue] = {"steer": "steering", "follow_up": "followUp"}
BEHAVIORS: dict[str, Queue] = {"steer": "steering", "followUp": "followUp"}
MODES = ("all", "one-at-a-time")
# Commands that never fail if their fields are right.
CERTAIN = {
    *("steer", "follow_up", "abort", "clear_queue", "new_session", "get_state", "get_messages", "cycle_model"),
    *("get_available_models", "set_thinking_level", "cycle_thinking_level", "get_available_thinking_levels"),
    *("set_steering_mode", "set_follow_up_mode", "set_auto_compaction", "set_auto_retry", "abort_retry"),
    *("set_budget", "bash", "abort_bash", "get_session_stats", "list_sessions", "clone"),
    *("get_fork_messages", "get_tree", "get_last_assistant_text", "get_commands", "get_protocol"),
}
REQUIRED = {
    "prompt": ("message",),
    "steer": ("message",),
    "follow_up": ("message",),
    "set_model": ("provider", "modelId"),
    "set_thinking_level": ("level",),
    "set_steering_mode": ("mode",),
    "set_follow_up_mode": ("mode",),
    "set_auto_compaction": ("enabled",),
    "set_auto_retry": ("enabled",),
    "bash": ("command",),
    "switch_session": ("sessionPath",),
    "navigate": ("entryId",),
    "fork": ("entryId",),
    "set_session_name": ("name",),
}
OPTIONAL = ("compact", "get_entries", "export_html")
COMMANDS = {*CERTAIN, *REQUIRED, *OPTIONAL}


def malformed(command: Json) -> bool:
    """Whether it is no command, lacks a field, or has a wrong value in one."""
    kind = command["type"]
    if kind not in COMMANDS or any(not isinstance(command.get(name), str | bool) for name in REQUIRED.get(kind, ())):
        return True
    if any(isinstance(command.get(name), bool) != (name == "enabled") for name in REQUIRED.get(kind, ())):
        return True
    return (
        ("level" in command and command["level"] not in LEVELS)
        or ("mode" in command and command["mode"] not in MODES)
        or command.get("streamingBehavior", "steer") not in BEHAVIORS
        or any(image.get("mimeType") != "image/png" for image in command.get("images", ()))
        or command.get("maxTurns", 1) < 1
    )


def content_of(command: Json) -> list[Json]:
    return [{"type": "text", "text": command["message"]}, *command.get("images", ())]


@dataclass
class Sent:
    """A command, from its line to its response."""

    command: Json
    place: int
    moves_ahead: bool = False  # it stands behind a command that goes to another session
    session: Session | None = None  # in which a bash command was started
    predicted: Any = None
    refused: bool = False  # it must be
    answered: int | None = None
    success: bool = False
    error: str = ""

    @property
    def kind(self) -> str:
        return str(self.command["type"])


@dataclass
class Stopped:
    """A run that settled as aborted, and the commands that may have stopped it."""

    prompt: Prompt
    causes: list[Sent] = field(default_factory=list)


class Reference:
    def __init__(self, settings: Json, soft: Callable[[Rule, str], None] | None = None) -> None:
        """`settings` is the user's settings file. `soft` hears of what is wrong without anything following from it."""
        self.saved = settings
        self._soft = soft
        self.sessions: list[Session] = []
        self.usages: dict[str, Json] = {}
        self.texts_said: set[str] = set()
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

    def _take_model(self, session: Session) -> None:
        """Go on with the model of a session that is opened."""
        found = session.models()
        self._unsure = len(found) > 1
        self.model = next(iter(found), self.model)

    def _take_level(self, session: Session, usual: str) -> None:
        """Go on with its level. One that a session lacks is noted before its next prompt."""
        kept = session.setting("thinking_level_change")
        session.lacks_level = kept is None
        self.level = clamp(kept["thinkingLevel"] if kept else usual, self.model)

    def _fresh_session(self) -> Session:
        session = Session(usages=self.usages)
        if self._unsure:
            session.expect("model_change", provider=PROVIDER)
            session.expect("thinking_level_change")
        else:
            session.expect("model_change", provider=PROVIDER, modelId=self.model)
            session.expect("thinking_level_change", thinkingLevel=self.level)
        self.sessions.append(session)
        return session

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
            if path not in taken and said == texts:
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
            self.saved.setdefault("compaction", {})["enabled"] = command["enabled"]
        elif kind == "set_budget":
            self.config.budget = True

    def _settings(self) -> Json:
        return {
            "model": self.model,
            "thinkingLevel": self.level,
            "steeringMode": self.saved.get("steeringMode", MODES[1]),
            "followUpMode": self.saved.get("followUpMode", MODES[1]),
            "autoCompactionEnabled": self.auto_compaction,
            "name": ... if self.current.copied else self.current.name,  # a copy has the names on its branch
        }

    def _apply(self, sent: Sent) -> None:
        """A change that takes effect when its turn has come, before it is answered."""
        command, session = sent.command, self.current
        match sent.kind:
            case "set_model":
                sent.refused = command["provider"] != PROVIDER or command["modelId"] not in IDS
                if not sent.refused:
                    sent.predicted = command["modelId"]
                    self._set_model(command["modelId"], sent.place)
            case "cycle_model":
                sent.predicted = IDS[(IDS.index(self.model) + 1) % len(IDS)]
                self._set_model(sent.predicted, sent.place)
                sent.predicted = None if self._unsure else (sent.predicted, self.level)
            case "set_thinking_level":
                self._set_level(clamp(command["level"], self.model), sent.place)
            case "cycle_thinking_level":
                offered = levels(self.model)
                if len(offered) > 1:
                    sent.predicted = offered[(offered.index(self.level) + 1) % len(offered)]
                    self._set_level(sent.predicted, sent.place)
            case "set_session_name":
                sent.refused = not command["name"].strip()
                if not sent.refused:
                    session.expect("session_info", place=sent.place, name=command["name"].strip())
            case "bash":
                sent.session = session

    def _set_model(self, model: str, place: int) -> None:
        self.model = model
        self.saved |= {"defaultProvider": PROVIDER, "defaultModel": model}
        self.current.expect("model_change", place=place, provider=PROVIDER, modelId=model)
        self._set_level(clamp(self.level, model), place)

    def _set_level(self, level: str, place: int) -> None:
        if level != self.level or self._unsure:
            unsure = self._unsure
            self.level = self.saved["defaultThinkingLevel"] = level
            self.current.expect("thinking_level_change", place=place, optional=unsure, thinkingLevel=level)

    # Responses.

    def _respond(self, response: Json) -> None:
        sent = self.pending.pop(response.get("id"), None)
        if sent is None:
            broken(Rule.RESPONSE, f"no command has this id, or it was answered before: {short(response)}")
        require(response["command"] == sent.kind, Rule.RESPONSE, f"{short(response)} for {short(sent.command)}")
        sent.answered, sent.success, sent.error = self._place, response["success"], response.get("error", "")
        require("Internal error" not in sent.error, Rule.RESPONSE, short(response))
        if sent in self._line:
            self._its_turn(sent)
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

    def _note_level(self, place: int) -> None:
        """A session without a level gets one before its first prompt, if none was set until then."""
        session = self.current
        if not session.lacks_level:
            return
        session.lacks_level = False
        changes = [item for item in session.pending if item.type == "thinking_level_change"]
        if all(item.place > place for item in changes):
            note = session.expect("thinking_level_change")
            if changes:  # by commands that came later
                session.pending.remove(note)
                session.pending.insert(session.pending.index(changes[0]), note)

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

    def _on_set_steering_mode(self, sent: Sent, data: Any) -> None:
        if sent.success:
            self.config.modes["steering"] = {sent.command["mode"], self.saved["steeringMode"]}

    def _on_set_follow_up_mode(self, sent: Sent, data: Any) -> None:
        if sent.success:
            self.config.modes["followUp"] = {sent.command["mode"], self.saved["followUpMode"]}

    def _on_set_auto_retry(self, sent: Sent, data: Any) -> None:
        if sent.success:
            self.config.retry = {sent.command["enabled"], self.saved["retry"]["enabled"]}

    def _on_cycle_model(self, sent: Sent, data: Any) -> None:
        found = data["model"]["id"], data["thinkingLevel"]
        good = sent.predicted in (None, found)
        require(good, Rule.SETTINGS, f"cycle_model returned {found}, expected {sent.predicted}")

    def _on_cycle_thinking_level(self, sent: Sent, data: Any) -> None:
        found = data and data["level"]
        require(found == sent.predicted, Rule.SETTINGS, f"cycle_thinking_level: {found}, expected {sent.predicted}")

    def _on_set_budget(self, sent: Sent, data: Any) -> None:
        if sent.success:
            require(data["maxTurns"] == sent.command.get("maxTurns"), Rule.RETURNED, short(data))

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
        else:
            session.expect("message", bash=True, message=message)

    def _on_compact(self, sent: Sent, data: Any) -> None:
        if sent.success:
            self._compacted(data)

    def _compacted(self, result: Json) -> None:
        fields = {name: result[name] for name in ("summary", "firstKeptEntryId", "tokensBefore")}
        self.current.expect("compaction", result.get("usage"), **fields)

    # Moves.

    def _arrive(self, session: Session) -> None:
        """Another session is there, and what was under way in the old one has ended."""
        old = self.current
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
        self._arrive(self._fresh_session())

    def _on_clone(self, sent: Sent, data: Any) -> None:
        self.current.expect_waiting_bash()
        self._arrive(self.current.copy_all())

    def _on_fork(self, sent: Sent, data: Any) -> None:
        entry = self.current.by_id.get(sent.command.get("entryId", ""))
        good = entry is not None and entry["type"] == "message" and entry["message"]["role"] == "user"
        require(sent.success == (good and not sent.refused), Rule.ACCEPTED, f"{short(sent.command)}: {sent.error}")
        if sent.success:
            assert entry is not None
            require(data["text"] == text_of(entry["message"]), Rule.RETURNED, short(data))
            self._arrive(self.current.copy_before(entry["id"]))

    def _on_switch_session(self, sent: Sent, data: Any) -> None:
        path = sent.command.get("sessionPath", "")
        valid = not sent.refused and "missing" not in path
        require(sent.success == valid, Rule.ACCEPTED, f"{short(sent.command)}: {sent.error}")
        if not sent.success or path == self.current.file:
            return
        target = next((session for session in self.sessions if session.file == path), None)
        if target is None or not target.begun:
            self.sessions = [session for session in self.sessions if session.file != path]
            self._arrive(self._fresh_session())
            self.current.file = path
            return
        target.reopened()
        self._arrive(target)
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

    def _on_get_state(self, sent: Sent, data: Any) -> None:
        if self._line or sent.moves_ahead:
            return
        session = self.current
        if session.id is None:
            known = [one.id for one in self.sessions]
            require(
                data["sessionId"] not in known, Rule.SETTINGS, f"a session that was left is still there: {short(data)}"
            )
            session.id = data["sessionId"]
            session.file = session.file or data["sessionFile"]
        told = data["sessionId"], data["sessionFile"]
        require(told == (session.id, session.file), Rule.SETTINGS, f"the session is {told}, expected {session.id}")
        require(data["isStreaming"] == self.runs.streaming, Rule.STREAMING, f"isStreaming is {data['isStreaming']}")
        pending = data["pendingMessageCount"]
        require(pending == len(self.queues), Rule.PENDING, f"{pending} are pending, and told are {self.queues.content}")
        if sent.predicted is not None:
            self._compare_settings(sent.predicted, data)
        if (talk := session.conversation()) is not None and data["messageCount"] != len(talk):
            self._wrong(Rule.COUNTS, f"messageCount is {data['messageCount']}, the conversation has {len(talk)}")
        self._look = sent.command["id"].rpartition("-")[0], data["messageCount"]

    def _compare_settings(self, expected: Json, data: Json) -> None:
        found = {name: data[name] for name in expected if name not in ("model", "name")}
        found |= {"model": data["model"]["id"], "name": data.get("sessionName")}
        if self._unsure:
            self._unsure, self.model, self.level = False, found["model"], found["thinkingLevel"]
            return
        for name, value in expected.items():
            if value not in (..., found[name]):
                self._wrong(Rule.SETTINGS, f"{name} is {found[name]!r}, expected {value!r}")
                self.level, self.model = found["thinkingLevel"], found["model"]

    def _on_get_messages(self, sent: Sent, data: Any) -> None:
        messages = data["messages"]
        if self._look[0] == sent.command["id"].rpartition("-")[0] and self._look[1] != len(messages):
            self._wrong(Rule.COUNTS, f"messageCount is {self._look[1]}, get_messages has {len(messages)}")
        if self._line or sent.moves_ahead or (expected := self.current.conversation()) is None:
            return
        for at in range(max(len(expected), len(messages))):
            found, wanted = messages[at : at + 1], expected[at : at + 1]
            if not (found and wanted and _same(found[0], wanted[0])):
                self._wrong(Rule.CONVERSATION, f"message {at}: expected {short(wanted)}\n    found {short(found)}")
                return

    def _on_get_entries(self, sent: Sent, data: Any) -> None:
        if self._line or sent.moves_ahead:
            return
        since = sent.command.get("since")
        if since is not None:
            known = since in self.current.by_id
            require(sent.success == known, Rule.ACCEPTED, f"{short(sent.command)}: {sent.error}")
            return
        require(sent.success, Rule.ACCEPTED, sent.error)
        self.current.adopt(data["entries"], data["leafId"], asked=sent.place)
        self._price_branch_summaries(self.current)

    def _price_branch_summaries(self, session: Session) -> None:
        """No response has the usage of a branch summary: it is known from the script, by the mark in its text."""
        for entry in session.entries:
            if entry["type"] == "branch_summary" and entry["id"] not in self.usages:
                mark = re.search(r"\[a\d+\.\d+\]", entry["summary"])
                if mark is not None:
                    self.usages[entry["id"]] = priced(self._said[mark[0]].get("usage", {}))

    def _on_get_session_stats(self, sent: Sent, data: Any) -> None:
        session = self.current
        if self._line or sent.moves_ahead or not session.looked_at:
            return
        expected = session.statistics()
        for name, value in expected.items():
            found = round(data[name], 9) if name == "cost" else data[name]
            if found != value:
                self._wrong(Rule.STATISTICS, f"{name} is {found}, the session file has {value}")
                break
        usage = data["contextUsage"]
        require(usage["contextWindow"] == window(self.model), Rule.RETURNED, short(usage))
        unknown = _not_counted(session.branch)
        require((usage["tokens"] is None) == unknown, Rule.RETURNED, f"contextUsage after a compaction: {short(usage)}")

    def _on_get_tree(self, sent: Sent, data: Any) -> None:
        if not self._line and not sent.moves_ahead and self.current.looked_at:
            require(data["tree"] == self.current.tree(), Rule.TREE, f"get_tree: {short(data)}")

    def _on_get_fork_messages(self, sent: Sent, data: Any) -> None:
        if not self._line and not sent.moves_ahead and self.current.looked_at:
            points = self.current.fork_points
            require(
                data["messages"] == points, Rule.TREE, f"get_fork_messages: {short(data)}, expected {short(points)}"
            )

    def _on_get_last_assistant_text(self, sent: Sent, data: Any) -> None:
        if self._line or sent.moves_ahead or (talk := self.current.conversation()) is None:
            return
        answers = [one for one in talk if one["role"] == "assistant"]
        answers = [one for one in answers if one["content"] or one["stopReason"] != "aborted"]
        expected = (text_of(answers[-1]).strip() or None) if answers else None
        if data["text"] != expected:
            self._wrong(Rule.TREE, f"get_last_assistant_text: {short(data)}, expected {expected!r}")

    def _on_list_sessions(self, sent: Sent, data: Any) -> None:
        rows = {row["path"]: row["id"] for row in data["sessions"]}
        for session in sent.predicted:
            require(rows.get(session.file) == session.id, Rule.SESSIONS, f"{session.file} is not listed")

    def _on_export_html(self, sent: Sent, data: Any) -> None:
        good = sent.success or not sent.predicted or not self.current.begun or not self.current.conversation()
        require(good, Rule.ACCEPTED, f"{short(sent.command)} was refused: {sent.error}")

    def _on_get_available_models(self, sent: Sent, data: Any) -> None:
        found = [model["id"] for model in data["models"]]
        require(found == list(IDS), Rule.RETURNED, f"get_available_models: {found}")

    def _wrong(self, rule: Rule, detail: str) -> None:
        """Nothing follows from it, so a search may go on."""
        if self._soft is None:
            broken(rule, detail)
        self._soft(rule, detail)

    # Events.

    def _event(self, event: Json) -> None:
        if event["type"] == "queue_update":
            self._queue_update(event)
            return
        if event["type"] in ("agent_start", "auto_compaction_start") and self.runs.prompt is None:
            self.current.expect_waiting_bash()
        settled = self.runs.event(event)
        if event["type"] == "auto_compaction_end" and event["result"] is not None:
            self._compacted(event["result"])
        if settled is not None:
            self._settle(settled, event)

    def _queue_update(self, event: Json) -> None:
        commands: dict[str, Queue] = {}
        for sent in self.pending.values():
            behavior = sent.command.get("streamingBehavior")
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


def _may_stop(cause: Sent) -> bool:
    """Whether a command that was answered may have stopped a run: it succeeded, or failed after it had begun."""
    return cause.success or "failed:" in cause.error or "cancelled" in cause.error


def _same(found: Json, expected: Json) -> bool:
    if "timestamp" in expected:
        return found == expected
    return {name: value for name, value in found.items() if name != "timestamp"} == expected


def _not_counted(branch: list[Json]) -> bool:
    """Whether no model has answered since the last compaction of a branch that has one."""
    for entry in reversed(branch):
        if entry["type"] == "compaction":
            return True
        if entry["type"] == "message" and entry["message"]["role"] == "assistant":
            answer = entry["message"]
            if answer["stopReason"] not in ("error", "aborted") and answer["usage"]["totalTokens"]:
                return False
    return False


def priced(given: Json) -> Json:
    """Usage as the program should count it; all models have the same price."""
    usage = {"input": 10, "output": 5, "cacheRead": 0, "cacheWrite": 0} | given
    return {**usage, "cost": {"total": sum(usage[name] * PRICE[name] / 1_000_000 for name in usage)}}

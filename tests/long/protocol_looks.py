"""The part of the reference model for commands that only look: their data, compared with what the model knows."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from typing import Any

from long.protocol_commands import Sent
from long.protocol_queues import Queues
from long.protocol_rules import Json, Rule, broken, require, short, text_of
from long.protocol_runs import Runs
from long.protocol_sessions import Session, same
from long.protocol_setup import IDS, PRICE, window


class Looks:
    sessions: list[Session]
    current: Session
    usages: dict[str, Json]
    queues: Queues
    runs: Runs
    model: str
    level: str
    _line: deque[Sent]
    _said: dict[str, Json]
    _soft: Callable[[Rule, str], None] | None
    _unsure: bool
    _look: tuple[str, int]

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
            if value != found[name]:
                self._wrong(Rule.SETTINGS, f"{name} is {found[name]!r}, expected {value!r}")
                self.level, self.model = found["thinkingLevel"], found["model"]

    def _on_get_messages(self, sent: Sent, data: Any) -> None:
        messages = data["messages"]
        look = sent.command["id"].rpartition("-")[0]  # nothing has happened between two questions of one look
        if look.startswith("look") and self._look[0] == look and self._look[1] != len(messages):
            self._wrong(Rule.COUNTS, f"messageCount is {self._look[1]}, get_messages has {len(messages)}")
        if self._line or sent.moves_ahead or (expected := self.current.conversation()) is None:
            return
        for at in range(max(len(expected), len(messages))):
            found, wanted = messages[at : at + 1], expected[at : at + 1]
            if not (found and wanted and same(found[0], wanted[0])):
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

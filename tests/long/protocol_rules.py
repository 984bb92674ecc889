"""The rules of docs/protocol.md that the model-based test checks, in plain words."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Any, NoReturn

Json = dict[str, Any]


class Rule(StrEnum):
    # Responses.
    RESPONSE = "every command gets exactly one response, with its id and its name"
    ACCEPTED = "a valid command succeeds"
    REFUSED = "an invalid command is refused"
    BUSY = "a prompt is refused while the agent streams, and only then or when it was aborted before it was accepted"
    RETURNED = "a response has the data that the command is documented to return"
    ANSWERED = "every command is answered in bounded time"
    SWITCHED = "what changes a session waits for a session switch that was sent before it"
    # Runs.
    NESTING = "agent, turn, message and tool events nest as documented"
    SETTLED = "each accepted prompt settles exactly once"
    BY_ITSELF = "nothing runs without a prompt; queued messages wait while the agent is idle"
    DELTAS = "the deltas of an answer add up to its final content"
    SCRIPT = "an answer is what the model said"
    TOOLS = "each tool call has one start, one end and one result, in the documented order"
    STEERED = "steering skips the remaining tool calls, and nothing else does"
    RETRY = "a transient error is retried as the settings say, and auto_retry events tell of it"
    ABORTED = "a run is aborted only by a command that stops it, and abort is answered after the run has settled"
    UNCHANGED = "a refused command changes nothing"
    COMPACTION_EVENTS = "the start and the end of a compaction come in pairs"
    BUDGET = "a budget ends a prompt with one budget_exceeded event"
    STREAMING = "isStreaming is true from the acceptance of a prompt to its agent_end"
    # Queues.
    QUEUE_UPDATE = "queue_update reports every change of the queues, and only changes"
    DELIVERED = "each accepted message is said, queued or cleared exactly once"
    QUEUE_ORDER = "messages leave their queue in order, as many at once as the mode says, steering first"
    STRANDED = "nothing that was queued during a run is left behind by a run that ends well"
    PENDING = "get_state counts the messages that queue_update lists"
    # Sessions.
    APPEND_ONLY = "session entries are only appended, each with a new id and a known parent"
    RECORDED = "the session has exactly the messages that events and responses told of, in their order"
    CONVERSATION = "get_messages is the conversation that events told of, without answers that were retried"
    COUNTS = "messageCount is the number of messages that get_messages returns"
    STATISTICS = "statistics are the sums over all entries of the session file, summaries included"
    SETTINGS = "model, thinking level, name and modes are what the client set, or what the opened session has"
    TREE = "get_tree, get_fork_messages and get_last_assistant_text agree with the entries"
    FILE = "the session file has the same entries as the session in memory"
    BASH = "a bash result is recorded in the session in which the command was started"
    SESSIONS = "list_sessions has every session that was begun"
    # The process.
    EXIT = "the process ends with exit code 0 and a clean stderr, and leaves nothing running"


class Violation(AssertionError):
    """What the program did, and the rule it breaks."""

    def __init__(self, rule: Rule, detail: str) -> None:
        super().__init__(f"{rule.name}: {rule}\n    {detail}")
        self.rule = rule
        self.detail = detail


def broken(rule: Rule, detail: str) -> NoReturn:
    raise Violation(rule, detail)


def require(good: object, rule: Rule, detail: str) -> None:
    if not good:
        raise Violation(rule, detail)


def short(value: Any, limit: int = 500) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= limit else f"{text[:limit]}..."


def text_of(message: Json) -> str:
    content = message["content"]
    if isinstance(content, str):
        return content
    return "".join(block["text"] for block in content if block["type"] == "text")

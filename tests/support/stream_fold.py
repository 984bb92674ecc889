"""What a client makes of the records of a stream: the fold that a snapshot must equal."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


class Fold:
    """The state of a client that keeps the highest number and drops what is not higher. For any dialect."""

    def __init__(self) -> None:
        self.seq = 0
        self.stream = ""
        self.messages: list[Json] = []
        self.partial: str | None = None  # the text of the answer so far
        self.texts: list[str] = []  # of finished answers, as their deltas added up
        self.tools: dict[str, Json] = {}
        self.queue: Json = {"steering": [], "followUp": []}
        self.dialogs: dict[str, Json] = {}
        self.statuses: dict[str, str] = {}
        self.settled = 0
        self.gaps: list[str] = []

    def apply(self, record: Json) -> None:
        if record["type"] == "snapshot":
            self._snapshot(record)
            return
        seq = record.get("seq")
        if seq is None or seq <= self.seq:
            return
        self.seq = seq
        self._apply(record)

    def _apply(self, record: Json) -> None:
        match record["type"]:
            case "message_start" if record["message"]["role"] == "assistant":
                self.partial = ""
            case "message_update":
                delta = record["assistantMessageEvent"]
                if delta["type"] == "text_delta":
                    self.partial = (self.partial or "") + delta["delta"]
            case "message_end":
                self._message_end(record["message"])
            case "tool_execution_start":
                self.tools[record["toolCallId"]] = {}
            case "tool_execution_update":
                self.tools[record["toolCallId"]] = record["partialResult"]
            case "tool_execution_end":
                self.tools.pop(record["toolCallId"], None)
            case "queue_update":
                self.queue = {"steering": record["steering"], "followUp": record["followUp"]}
            case "extension_ui_request":
                self._ui(record)
            case "extension_ui_resolved":
                self.dialogs.pop(record["id"], None)
            case "agent_settled":
                self.settled += 1

    def _message_end(self, message: Json) -> None:
        if message["role"] == "assistant":
            text = text_of(message)
            if self.partial is not None and self.partial != text and message["stopReason"] not in ("error", "aborted"):
                self.gaps.append(f"{self.partial[-40:]!r} is not {text[-40:]!r}")
            self.texts.append(text)
            self.partial = None
        self.messages.append(message)

    def _ui(self, record: Json) -> None:
        if record["method"] in ("select", "confirm", "input", "editor"):
            self.dialogs[record["id"]] = record
        elif record["method"] == "setStatus":
            if "statusText" in record:
                self.statuses[record["statusKey"]] = record["statusText"]
            else:
                self.statuses.pop(record["statusKey"], None)

    def _snapshot(self, record: Json) -> None:
        self.seq, self.stream = record["seq"], record["stream"]
        entries = [entry["message"] for entry in record["entries"] if entry["type"] == "message"]
        self.messages = entries
        self.partial = None if record["partial"] is None else text_of(record["partial"])
        self.tools = {tool["toolCallId"]: tool.get("partialResult", {}) for tool in record["tools"]}
        self.queue = record["queue"]
        self.dialogs = {dialog["id"]: dialog for dialog in record["dialogs"]}
        self.statuses = record["ui"]["statuses"]

    def state(self) -> Json:
        """What is compared: everything that a snapshot says."""
        return {
            "seq": self.seq,
            "messages": [(message["role"], text_of(message)) for message in self.messages],
            "partial": self.partial,
            "tools": self.tools,
            "queue": self.queue,
            "dialogs": sorted(self.dialogs),
            "statuses": self.statuses,
        }


def text_of(message: Json) -> str:
    content = message.get("content", "")
    if isinstance(content, str):
        return content
    return "".join(block.get("text", "") for block in content if block["type"] == "text")

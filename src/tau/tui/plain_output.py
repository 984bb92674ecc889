"""Events of a session as plain lines: text as it streams, one line for each tool call, words instead of spinners."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress

from tau.core.agent.draft import Update
from tau.core.text.terminal_text import Cleaner, escape_message
from tau.records.deltas import TextDelta, TextEnd
from tau.records.dialogs import Confirm, Editor, Input, Notify, Select, UiRequest
from tau.records.events import (
    AgentSettled,
    AgentStart,
    AutoRetryStart,
    BashUpdate,
    CompactionStart,
    Event,
    MessageEnd,
    MessageUpdate,
    ToolEnd,
    ToolStart,
)
from tau.records.messages import Assistant, Text
from tau.runtime.extensions.dialogs import Question
from tau.runtime.terminal import stream
from tau.screen.cards.tool_titles import title_lines
from tau.screen.event_notices import event_notice
from tau.screen.lines import plain_text
from tau.screen.look import Look
from tau.screen.safe_text import one_line

STILL_WORKING_S = 30.0
PLAIN = Look(0)


class PlainOutput:
    """Prints events. `on_question` gets dialogs; `readable` rewrites errors of model servers."""

    def __init__(self, on_question: Callable[[Question], None]) -> None:
        self._on_question = on_question
        self._cleaner = Cleaner()
        self._lock = threading.Lock()
        self._held: list[str] | None = None
        self._said_at = 0.0
        self._working: threading.Timer | None = None
        self.readable: Callable[[str], str] = str
        self.bash_updates = 0  # pieces of the output of shell commands that were printed

    def show(self, event: Event | Update | UiRequest) -> None:
        match event:
            case (
                Update(delta=TextDelta(delta=piece))
                | MessageUpdate(assistant_message_event=TextDelta(delta=piece))
                | BashUpdate(delta=piece)
            ):
                self.bash_updates += isinstance(event, BashUpdate)
                self.say(self._cleaner.feed(piece))
            case Update(delta=TextEnd()) | MessageUpdate(assistant_message_event=TextEnd()):
                self._cleaner.end()
                self.say("\n")
            case ToolStart():
                self.say(f"* {call_text(event)}\n")
            case ToolEnd(is_error=True, result=result):
                text = " ".join(block.text for block in result.content if isinstance(block, Text))
                self.say(f"  failed: {one_line(text, 200)}\n")
            case MessageEnd(message=Assistant(failed=True) as answer):
                aborted = answer.stop_reason == "aborted"
                why = "Stopped." if aborted else f"Error: {self.readable(answer.error_message or '')}"
                self.say(f"\n{escape_message(why)}\n")
            case MessageEnd(message=Assistant(stop_reason="length")):
                self.say("\nThe answer was cut off at its length limit.\n")
            case AutoRetryStart():
                self.say(f"Retry {event.attempt} of {event.max_attempts} in {event.delay_ms / 1000:.0f} s.\n")
            case CompactionStart():
                self.say("Summarising the conversation.\n")
            case AgentStart():
                self._start_working()
            case AgentSettled():
                self._stop_working()
            case Select() | Confirm() | Input() | Editor():
                self._on_question(event)
            case Notify(message=text):
                self.say(f"{escape_message(text)}\n")
            case Event():
                if (notice := event_notice(event, self.readable)) is not None:
                    self.say(escape_message("\n".join(map(plain_text, notice.rows(PLAIN, 0.0)))) + "\n")

    def say(self, text: str) -> None:
        if not text:
            return
        self._said_at = time.monotonic()
        with self._lock, suppress(OSError):
            if self._held is not None:
                self._held.append(text)
                return
            stream(text)

    def hold(self) -> None:
        """Buffer output while the user reads a question."""
        with self._lock:
            self._held = []

    def go_on(self) -> None:
        with self._lock:
            held, self._held = self._held or [], None
        self.say("".join(held))

    def _start_working(self) -> None:
        self._stop_working()
        self._working = threading.Timer(STILL_WORKING_S, self._still_working)
        self._working.daemon = True
        self._working.start()

    def _still_working(self) -> None:
        """Nothing was printed for a while: say that the agent still works."""
        if time.monotonic() - self._said_at >= STILL_WORKING_S:
            self.say("Working.\n")
        self._start_working()

    def _stop_working(self) -> None:
        if self._working is not None:
            self._working.cancel()
            self._working = None


def call_text(event: ToolStart) -> str:
    """A tool call on one line, as the title of its card."""
    arguments = event.args if isinstance(event.args, dict) else {}
    title = " ".join(plain_text(row) for row in title_lines(event.tool_name, arguments)).removeprefix("$ ")
    return one_line(title if title.startswith(event.tool_name) else f"{event.tool_name} {title}", 200)

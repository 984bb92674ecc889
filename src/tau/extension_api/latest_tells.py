"""Coalesces messages of which only the newest matters: an extension may set a widget in every step of a loop.

In the terminal interface only; clients of other modes get every message.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from tau.extension_api.messages import Tell

INTERVAL_S = 1 / 60

# Actions whose newest message replaces earlier ones, and the parameter that must be the same for that, if any.
LATEST_WINS: dict[str, str | None] = {
    "set_status": "statusKey",
    "set_widget": "widgetKey",
    "set_title": None,
    "set_editor_text": None,
    "set_working_message": None,
    "set_working_visible": None,
    "set_working_indicator": None,
    "set_hidden_thinking_label": None,
    "set_header": None,
    "set_footer": None,
}


class LatestTells:
    """Messages that wait to be sent. `call_later` schedules in the event loop, from any thread."""

    def __init__(self, send: Callable[[Tell], None], call_later: Callable[[float, Callable[[], None]], None]) -> None:
        self._send = send
        self._call_later = call_later
        self._lock = threading.Lock()
        self._waiting: dict[tuple[str, str], Tell] = {}
        self._scheduled = False

    def put(self, message: Tell) -> None:
        """Send the message soon, unless a newer one replaces it."""
        field = LATEST_WINS[message.name]
        key = message.name, "" if field is None else str(message.params.get(field))
        with self._lock:
            self._waiting.pop(key, None)  # the newest comes last
            self._waiting[key] = message
            schedule, self._scheduled = not self._scheduled, True
        if schedule:
            self._call_later(INTERVAL_S, self._on_time)

    def flush(self) -> None:
        """Send what waits: another message follows, and the order must be kept."""
        if self._waiting:
            with self._lock:
                messages = list(self._waiting.values())
                self._waiting.clear()
            for message in messages:
                self._send(message)

    def clear(self) -> None:
        """Drop what waits."""
        with self._lock:
            self._waiting.clear()

    def _on_time(self) -> None:
        with self._lock:
            self._scheduled = False
        self.flush()

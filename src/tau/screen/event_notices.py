"""Notices about events: retries, budgets, problems of the session file, errors of extensions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tau.core.agent.budgets import limit_text
from tau.records import events as ev
from tau.records.base import UNSET, encode
from tau.screen.cards.notices import NoticeCard
from tau.screen.safe_text import one_line

MAX_PROBLEMS = 5


def event_notice(event: Any, readable: Callable[[str], str] = str) -> NoticeCard | None:
    match event:
        case ev.AutoRetryEnd(success=False, final_error="Retry cancelled"):
            return NoticeCard("Retry cancelled.", "warning")
        case ev.AutoRetryEnd(success=False):  # the error stands above: it ended the answer
            return NoticeCard(f"No answer after {event.attempt} retr{'y' if event.attempt == 1 else 'ies'}.", "error")
        case ev.CompactionEnd():
            return _compaction(event, readable)
        case ev.BudgetExceeded():
            stuck = event.limit == "stuck"
            text = limit_text(event) if stuck else f"Stopped: the limit of {budget_text(event)} is reached."
            return NoticeCard(text, "warning")
        case ev.SessionDamaged():
            shown = [f"{one_line(problem)}" for problem in event.problems[:MAX_PROBLEMS]]
            more = len(event.problems) - len(shown)
            lines = [f"Parts of the session file {one_line(event.session_file)} cannot be read; the rest was loaded."]
            return NoticeCard("\n".join([*lines, *shown, *([f"… {more} more"] if more else [])]), "warning")
        case ev.SessionWriteFailed():
            count = f"{event.waiting} entr{'y' if event.waiting == 1 else 'ies'}"
            return NoticeCard(
                f"{count} could not be written to {one_line(event.session_file)}: {one_line(event.error)}."
                " They are kept in memory and written when that is possible again.",
                "error",
            )
        case ev.SessionWriteRecovered():
            return NoticeCard(f"All entries are written to {one_line(event.session_file)} again.")
        case ev.ExtensionError():
            where = f"{one_line(event.extension_path)}, {one_line(event.event)}"
            return NoticeCard(f"Extension {where}: {event.error}", "error")
        case ev.StructuredOutput():
            if isinstance(event.error, str):
                return NoticeCard(f"No structured output: {event.error}", "error")
            return NoticeCard(encode(event.value).decode("utf-8", "replace")) if event.value is not UNSET else None
    return None


def _compaction(event: ev.CompactionEnd, readable: Callable[[str], str]) -> NoticeCard | None:
    if event.aborted:
        return NoticeCard("Compaction stopped.", "warning")
    if isinstance(event.error_message, str):
        return NoticeCard(f"Compaction failed: {readable(event.error_message)}", "error")
    return None


def budget_text(event: ev.BudgetExceeded) -> str:
    if event.limit == "cost":
        return f"${event.allowed:.2f} for this prompt (${event.used:.2f} used)"
    unit = {"turns": "turns", "tokens": "tokens", "time": "seconds"}[event.limit]
    return f"{event.allowed:,g} {unit} for this prompt ({event.used:,g} used)"

"""The transcript: events become rows with absolute numbers."""

from __future__ import annotations

from tau.records.deltas import TextDelta, TextEnd, ThinkingDelta, ToolCallDelta, ToolCallStart
from tau.records.events import MessageEnd, MessageStart, MessageUpdate, Outcome, ToolEnd, ToolStart
from tau.records.messages import Assistant, Text, Usage, User
from tau.screen.lines import plain_text
from tau.screen.transcript import Transcript

ANSWER = Assistant([], "api", "provider", "model", Usage(), "stop", 0)


def shown(transcript: Transcript, first: int = 0, width: int = 60, now: float = 0) -> list[str]:
    return [plain_text(row).rstrip() for row in transcript.rows(first, width, now)[1]]


def test_a_prompt_an_answer_and_a_tool_call() -> None:
    transcript = Transcript()
    transcript.apply(MessageStart(User("hello\nworld", 0)), 0)
    transcript.apply(MessageStart(ANSWER), 0)
    transcript.apply(MessageUpdate(ThinkingDelta(0, "Hm.")), 0)
    transcript.apply(MessageUpdate(TextDelta(1, "Some **bo")), 0)
    assert shown(transcript) == ["> hello", "  world", "", "Hm.", "", "Some bo"]
    transcript.apply(MessageUpdate(TextDelta(1, "ld** text.")), 0)
    transcript.apply(MessageUpdate(TextEnd(1, "")), 0)
    transcript.apply(MessageUpdate(ToolCallStart(2, "c1", "bash")), 0)
    transcript.apply(MessageUpdate(ToolCallDelta(2, '{"command": "echo \\"h')), 0)
    assert shown(transcript)[5:] == ["Some bold text.", "", '• $ echo "h']
    transcript.apply(ToolStart("c1", "bash", {"command": "echo hi"}), 0)
    transcript.apply(ToolEnd("c1", "bash", Outcome([Text("hi\n")]), False, 1234), 0)
    transcript.apply(MessageEnd(ANSWER), 0)
    assert shown(transcript)[7:] == ["✓ $ echo hi", "  hi", "  Took 1.2s"]


def test_rows_that_have_scrolled_off_are_forgotten_and_numbers_stay() -> None:
    transcript = Transcript()
    transcript.apply(MessageStart(ANSWER), 0)
    for number in range(100):
        transcript.apply(MessageUpdate(TextDelta(0, f"Paragraph {number}\n\n")), 0)
    first, rows = transcript.rows(0, 60, 0)
    assert (first, len(rows)) == (0, 199)
    first, rows = transcript.rows(190, 60, 0)
    assert (first, [plain_text(row) for row in rows[:2]]) == (190, ["Paragraph 95", ""])
    assert transcript.rows(0, 60, 0)[0] == 189  # the block of paragraph 95 begins with an empty row

"""The transcript: events become rows with absolute numbers."""

from __future__ import annotations

import re
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tau.core.agent.draft import Draft, MessageDone
from tau.records.base import replace
from tau.records.deltas import TextDelta, TextEnd, ThinkingDelta, ThinkingEnd, ToolCallDelta, ToolCallStart
from tau.records.dialogs import Notify
from tau.records.entries import (
    BranchSummaryEntry,
    CompactionEntry,
    CustomEntry,
    CustomMessageEntry,
    MessageEntry,
    ModelChange,
    SessionInfo,
    ThinkingLevelChange,
)
from tau.records.events import (
    AgentSettled,
    AgentStart,
    AutoRetryEnd,
    BashUpdate,
    BudgetExceeded,
    CompactionEnd,
    CompactionResult,
    Event,
    ExtensionError,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    Outcome,
    SessionDamaged,
    SessionWriteFailed,
    SessionWriteRecovered,
    StructuredOutput,
    ThinkingLevelChanged,
    ToolEnd,
    ToolStart,
    ToolUpdate,
)
from tau.records.messages import (
    Assistant,
    BashExecution,
    BranchSummary,
    Custom,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    User,
)
from tau.records.models import Model
from tau.screen.lines import plain_text
from tau.screen.look import Look
from tau.screen.stream import markdown_rows
from tau.screen.transcript import Transcript
from tau.wire.unfinished import PartialJson

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


def answer(text: str, transcript: Transcript | None = None) -> Transcript:
    transcript = transcript or Transcript()
    transcript.apply(MessageStart(ANSWER), 0)
    transcript.apply(MessageUpdate(TextDelta(0, text)), 0)
    return transcript


class Printer:
    """What a terminal would have: rows above the screen stay as they were printed."""

    def __init__(self, transcript: Transcript, height: int, width: int = 60) -> None:
        self.transcript, self.height, self.width = transcript, height, width
        self.rows: list[str] = []
        self.first = 0

    def paint(self, now: float = 0) -> None:
        start, rows = self.transcript.rows(self.first, self.width, now)
        assert start == self.first
        self.rows[start:] = [plain_text(row).rstrip() for row in rows]
        self.first = max(self.first, len(self.rows) - self.height)

    @property
    def screen(self) -> list[str]:
        return self.rows[self.first :]


def test_a_live_end_taller_than_the_screen_goes_into_history_once() -> None:
    text = "".join(
        f"- item {number} with some words that need more than one row on a narrow screen\n" for number in range(60)
    )
    text += "\n" + " ".join(f"word{number}" for number in range(300)) + "\n\n```\n"
    text += "".join(f"code {number}\n" for number in range(100)) + "```\nend"
    transcript = Transcript()
    printer = Printer(transcript, 10, 30)
    transcript.apply(MessageStart(ANSWER), 0)
    for at in range(0, len(text), 11):
        transcript.apply(MessageUpdate(TextDelta(0, text[at : at + 11])), 0)
        printer.paint()
    transcript.apply(MessageUpdate(TextEnd(0, text)), 0)
    printer.paint()
    assert printer.rows == [plain_text(row).rstrip() for row in markdown_rows(text, Look(30))]


def test_a_table_taller_than_the_screen_goes_into_history_row_by_row() -> None:
    rows = [f"| {number} | {'word ' * (number % 7 + 1)}| x |" for number in range(30)]
    text = "\n".join(["| n | text | y |", "|---|---|---|", *rows]) + "\n\nend"
    transcript = Transcript()
    printer = Printer(transcript, 8, 40)
    transcript.apply(MessageStart(ANSWER), 0)
    for at in range(0, len(text), 9):
        transcript.apply(MessageUpdate(TextDelta(0, text[at : at + 9])), 0)
        printer.paint()
    transcript.apply(MessageUpdate(TextEnd(0, text)), 0)
    printer.paint()
    table = printer.rows[:-2]
    assert printer.rows[-2:] == ["", "end"]
    assert len({row.index("│") for row in table if "│" in row and not row.startswith(("n", "─"))}) == 1
    assert " ".join(table).split().count("word") == sum(number % 7 + 1 for number in range(30))
    assert [row.split()[0] for row in table if row[0].isdigit()] == [str(number) for number in range(30)]


def test_the_cost_of_a_frame_does_not_depend_on_the_transcript() -> None:
    transcript = answer("".join(f"Paragraph {number}\n\n" for number in range(5000)))
    printer = Printer(transcript, 40)
    printer.paint()
    printer.paint()
    assert sum(len(section.blocks(transcript.look, 0)) for section in transcript._sections) < 40


def test_ctrl_o_expands_what_is_on_the_screen_and_leaves_what_is_above() -> None:
    transcript = Transcript()
    output = "\n".join(f"line {number}" for number in range(8))
    for id in "ab":
        transcript.apply(ToolStart(id, "bash", {"command": id}), 0)
        transcript.apply(ToolEnd(id, "bash", Outcome([Text(output)]), False), 0)
    printer = Printer(transcript, 9)
    printer.paint()
    above = printer.rows[: printer.first]
    assert above == ["✓ $ a", "  … 3 earlier lines, Ctrl+O", "  line 3", "  line 4", "  line 5", "  line 6"]
    transcript.expanded = True
    printer.paint()
    assert printer.rows[:6] == above
    assert printer.rows[-9:] == ["✓ $ b", *(f"  line {number}" for number in range(8))]
    transcript.expanded = False
    start = printer.first
    printer.paint()
    assert printer.rows[:start][:6] == above


def test_ctrl_t_collapses_thinking_that_is_partly_above_the_screen() -> None:
    transcript = Transcript()
    transcript.apply(MessageStart(ANSWER), 0)
    transcript.apply(MessageUpdate(ThinkingDelta(0, "".join(f"thought {number}\n\n" for number in range(10)))), 0)
    transcript.apply(MessageUpdate(ThinkingEnd(0, "")), 0)
    transcript.apply(MessageUpdate(TextDelta(1, "\n\n".join(f"answer {number}" for number in range(4)))), 0)
    printer = Printer(transcript, 12)
    printer.paint()
    above = printer.rows[: printer.first]
    transcript.hide_thinking = True
    printer.paint()
    assert printer.rows[: len(above)] == above
    assert [row for row in printer.rows[len(above) :] if row] == [f"answer {number}" for number in range(4)]
    transcript.hide_thinking = False
    printer.paint()
    assert [row for row in printer.screen if row][-4:] == [f"answer {number}" for number in range(4)]


def test_hidden_thinking_is_one_line() -> None:
    transcript = Transcript()
    transcript.hide_thinking = True
    transcript.apply(MessageStart(ANSWER), 0)
    transcript.apply(MessageUpdate(ThinkingDelta(0, "secret\n\nthoughts")), 0)
    transcript.apply(MessageUpdate(ThinkingEnd(0, "")), 0)
    transcript.apply(MessageUpdate(TextDelta(1, "answer")), 0)
    assert shown(transcript) == ["Thinking…", "", "answer"]
    transcript.hide_thinking = False
    assert shown(transcript) == ["secret", "", "thoughts", "", "answer"]
    assert all("italic" in span.style and "thinkingText" in span.style for span in transcript.rows(0, 60, 0)[1][0])


@pytest.mark.parametrize("width", [20, 31, 90])
def test_no_word_is_lost_when_the_width_changes(width: int) -> None:
    text = " ".join(f"word{number}" for number in range(200))
    transcript = answer(text)
    printer = Printer(transcript, 8, 50)
    printer.paint()
    printer.width = width
    printer.paint()
    rows = printer.rows
    words = " ".join(rows).split()
    assert list(dict.fromkeys(words)) == text.split()
    assert len(words) - 200 <= 20


SEPARATORS = [" ", " ", " ", " ", ".\n", "\n\n", "\n- ", "\n1. ", "\n```\n", " **", " `", "\n\n> "]


@settings(deadline=None, max_examples=60)
@given(st.randoms(use_true_random=False), st.integers(3, 30))
def test_no_word_is_lost_whatever_the_sizes_are_while_an_answer_streams(random: Random, height: int) -> None:
    transcript = Transcript()
    printer = Printer(transcript, height, random.randrange(20, 100))
    transcript.apply(MessageStart(ANSWER), 0)
    count = 0
    for _ in range(random.randrange(5, 40)):
        if random.random() < 0.7:
            words = range(count, count + random.randrange(1, 30))
            count = words.stop
            text = "".join(f"w{number}x{random.choice(SEPARATORS)}" for number in words)
            transcript.apply(MessageUpdate(TextDelta(0, text)), 0)
        elif random.random() < 0.5:
            printer.width = random.randrange(20, 100)
        else:
            transcript.expanded = not transcript.expanded
        printer.paint()
    transcript.apply(MessageUpdate(TextEnd(0, "")), 0)
    printer.paint()
    found = re.findall(r"w\d+x", " ".join(printer.rows))
    assert list(dict.fromkeys(found)) == [f"w{number}x" for number in range(count)]
    assert len(found) <= count * 1.1 + 20


def test_tools_side_by_side_are_in_the_order_of_their_calls() -> None:
    transcript = Transcript()
    transcript.apply(MessageStart(ANSWER), 0)
    for index, id in enumerate("abc"):
        transcript.apply(MessageUpdate(ToolCallStart(index, id, "bash")), 0)
    for id in "abc":
        transcript.apply(ToolStart(id, "bash", {"command": id}), 0)
    transcript.apply(ToolEnd("c", "bash", Outcome([Text("out c")]), False, 5), 0)
    transcript.apply(ToolUpdate("a", "bash", {}, Outcome([Text("so far")])), 0)
    assert shown(transcript) == ["• $ a", "  so far", "", "• $ b", "", "✓ $ c", "  out c"]
    transcript.apply(ToolEnd("a", "bash", Outcome([Text("out a")]), True, 5), 0)
    transcript.apply(ToolEnd("b", "bash", Outcome([Text("out b")]), False, 5), 0)
    assert shown(transcript) == ["✗ $ a", "  out a", "", "✓ $ b", "  out b", "", "✓ $ c", "  out c"]


def test_a_call_that_scrolled_off_while_it_ran_is_shown_again_when_it_ends() -> None:
    transcript = Transcript()
    transcript.apply(ToolStart("a", "bash", {"command": "slow"}), 0)
    for number in range(20):
        transcript.add_notice(f"notice {number}")
    printer = Printer(transcript, 5)
    printer.paint()
    printer.paint()
    transcript.apply(ToolEnd("a", "bash", Outcome([Text("done")]), False), 9)
    printer.paint()
    assert printer.rows[-2:] == ["✓ $ slow", "  done"]


def test_text_that_goes_on_after_it_scrolled_off_is_shown_below() -> None:
    transcript = answer("before")
    for number in range(20):
        transcript.add_notice(f"notice {number}")
    printer = Printer(transcript, 5)
    printer.paint()
    printer.paint()
    transcript.apply(MessageUpdate(TextDelta(0, "after")), 0)
    printer.paint()
    assert printer.rows[0] == "before"
    assert printer.rows[-1] == "after"


def test_calls_of_an_aborted_answer_are_marked() -> None:
    transcript = Transcript()
    transcript.apply(MessageStart(ANSWER), 0)
    transcript.apply(MessageUpdate(TextDelta(0, "I will **no")), 0)
    transcript.apply(MessageUpdate(ToolCallStart(1, "a", "bash")), 0)
    transcript.apply(MessageUpdate(ToolCallDelta(1, '{"command": "rm')), 0)
    transcript.apply(MessageEnd(replace(ANSWER, stop_reason="aborted")), 0)
    assert shown(transcript) == ["I will **no", "", "■ $ rm", "", "Warning: Stopped."]


def test_an_answer_that_was_not_streamed_is_shown_at_its_end() -> None:
    transcript = Transcript()
    whole = replace(ANSWER, content=[Thinking("hm"), Text("All *of* it."), ToolCall("a", "bash", {"command": "x"})])
    transcript.apply(MessageStart(whole), 0)
    transcript.apply(MessageEnd(whole), 0)
    transcript.apply(ToolStart("a", "bash", {"command": "x"}), 0)
    assert shown(transcript) == ["hm", "", "All of it.", "", "• $ x"]


# Errors and other events


@pytest.mark.parametrize(
    ("event", "rows"),
    [
        (MessageEnd(replace(ANSWER, stop_reason="error", error_message="overloaded")), ["Error: overloaded"]),
        (MessageEnd(replace(ANSWER, stop_reason="length")), ["Warning: The answer was cut off at its length limit."]),
        (AutoRetryEnd(False, 3, "overloaded"), ["Error: No answer after 3 retries."]),
        (AutoRetryEnd(False, 1, "Retry cancelled"), ["Warning: Retry cancelled."]),
        (AutoRetryEnd(True, 1), []),
        (
            CompactionEnd("manual", CompactionResult("sum", "x", 12345), aborted=False, will_retry=False),
            ["[Compacted: a summary replaces 12,345 tokens, Ctrl+O]"],
        ),
        (CompactionEnd("manual", None, aborted=True, will_retry=False), ["Warning: Compaction stopped."]),
        (
            CompactionEnd("manual", None, aborted=False, will_retry=False, error_message="no"),
            ["Error: Compaction failed: no"],
        ),
        (
            BudgetExceeded("cost", 1.02, 1.0),
            ["Warning: Stopped: the limit of $1.00 for this prompt ($1.02", "used) is reached."],
        ),
        (
            BudgetExceeded("stuck", 8, 8),
            ["Warning: Stopped: the tool calls of 8 answers in a row all", "failed in the same way."],
        ),
        (
            BudgetExceeded("turns", 5, 5),
            ["Warning: Stopped: the limit of 5 turns for this prompt (5", "used) is reached."],
        ),
        (
            SessionDamaged("/s.jsonl", ["line 3\x07", "line 4"]),
            [
                "Warning: Parts of the session file /s.jsonl cannot be read;",
                "the rest was loaded.",
                r"  line 3\x07",
                "  line 4",
            ],
        ),
        (SessionWriteRecovered("/s.jsonl"), ["All entries are written to /s.jsonl again."]),
        (
            ExtensionError("/x.py", "tool_call", "boom\nat line 1"),
            ["Error: Extension /x.py, tool_call: boom", "  at line 1"],
        ),
        (Notify("1", "careful", "warning"), ["Warning: careful"]),
        (MessageStart(Custom("todo", "**x**", True)), ["[todo]", "x"]),
        (MessageStart(Custom("todo", "x", False)), []),
        (MessageStart(BranchSummary("sum", "id")), ["[Summary of the abandoned branch, Ctrl+O]"]),
        (ThinkingLevelChanged("high"), ["Thinking: high"]),
        (StructuredOutput({"a": 1}), ['{"a":1}']),
        (AgentSettled(), []),
    ],
)
def test_events_are_shown(event: Event, rows: list[str]) -> None:
    transcript = Transcript()
    transcript.apply(event, 0)
    assert shown(transcript) == rows


def test_a_write_error_of_the_session_names_file_and_reason() -> None:
    transcript = Transcript()
    transcript.apply(SessionWriteFailed("/s.jsonl", "No space left on device", 2), 0)
    text = " ".join(shown(transcript))
    assert text.startswith("Error: 2 entries could not be written to /s.jsonl: No space left on device.")


def test_levels_that_change_quickly_are_one_line() -> None:
    transcript = Transcript()
    for level in ("low", "medium", "high"):
        transcript.apply(ThinkingLevelChanged(level), 0)
    assert shown(transcript) == ["Thinking: high"]
    transcript.replace_line("model", "Model: a/b")
    transcript.apply(ThinkingLevelChanged("off"), 0)
    assert shown(transcript) == ["Thinking: high", "", "Model: a/b", "", "Thinking: off"]


def test_commands_of_the_person_at_the_terminal() -> None:
    transcript = Transcript()
    transcript.start_bash("make", 0)
    transcript.apply(BashUpdate("one\n"), 0)
    transcript.apply(BashUpdate("two\n"), 0)
    assert shown(transcript) == ["! make", "  one", "  two"]
    transcript.end_bash(BashExecution("make", "one\ntwo\n", exit_code=0), 0.05)
    assert shown(transcript) == ["! make", "  one", "  two"]
    transcript.end_bash(BashExecution("other", "x", exit_code=1), 0)
    assert shown(transcript)[3:] == ["", "! other", "  x", "  Exit code 1"]


# What a resumed session shows


def conversation(count: int) -> list[User | Assistant | ToolResult]:
    messages: list[User | Assistant | ToolResult] = []
    for number in range(count):
        call = ToolCall(f"c{number}", "bash", {"command": f"echo {number}"})
        messages += [
            User(f"prompt {number}", 0),
            replace(ANSWER, content=[Text(f"answer {number}"), call]),
            ToolResult(f"c{number}", "bash", [Text(f"output {number}")]),
        ]
    return messages


def test_a_resumed_session_shows_its_last_200_lines_and_how_many_messages_are_above() -> None:
    transcript = Transcript()
    transcript.add_entries(conversation(300))
    rows = shown(transcript)
    assert len(rows) == 201
    assert rows[0] == "… 814 earlier messages · Alt+O"
    assert rows[-6:] == ["> prompt 299", "", "answer 299", "", "✓ $ echo 299", "  output 299"]


def test_a_short_session_is_shown_whole() -> None:
    transcript = Transcript()
    transcript.add_entries(conversation(1))
    assert shown(transcript) == ["> prompt 0", "", "answer 0", "", "✓ $ echo 0", "  output 0"]


def test_entries_of_a_session_file_have_their_cards() -> None:
    transcript = Transcript()
    transcript.add_rule('fork of "x" · 3 messages')
    transcript.add_entries(
        [
            ModelChange("1", None, "", "openai", "gpt"),
            ThinkingLevelChange("2", "1", "", "high"),
            MessageEntry("3", "2", "", User("hi", 0)),
            CompactionEntry("4", "3", "", "sum", "3", 999),
            BranchSummaryEntry("5", "4", "", "1", "sum"),
            CustomMessageEntry("6", "5", "", "note", "text", True),
            CustomEntry("7", "6", "", "state"),
            SessionInfo("8", "7", "", "name"),
        ]
    )
    assert [row for row in shown(transcript) if row][1:] == [
        "Model: openai/gpt",
        "Thinking: high",
        "> hi",
        "[Compacted: a summary replaces 999 tokens, Ctrl+O]",
        "[Summary of the abandoned branch, Ctrl+O]",
        "[note]",
        "text",
    ]


def test_opening_a_long_session_makes_only_the_rows_that_are_shown() -> None:
    class Entries(list[User]):
        read = 0

        def __getitem__(self, at: Any) -> Any:
            self.read += isinstance(at, int)
            return super().__getitem__(at)

    entries = Entries(User(f"prompt {number}", 0) for number in range(20_000))
    transcript = Transcript()
    transcript.add_entries(entries)
    assert len(shown(transcript)) == 201
    assert entries.read <= 101


# Output to a slow terminal


def test_rows_that_waited_too_long_become_one_line() -> None:
    transcript = answer("first\n\n")
    printer = Printer(transcript, 20)
    printer.paint()
    transcript.apply(MessageUpdate(TextDelta(0, "".join(f"Paragraph {number}\n\n" for number in range(5000)))), 0)
    printer.paint()
    assert 1990 <= len(printer.rows) <= 2010
    assert printer.rows[:3] == ["first", "", "… 8,000 lines not shown · Alt+O"]
    assert printer.rows[-1] == "Paragraph 4999"
    transcript.apply(MessageUpdate(TextDelta(0, "end")), 0)
    printer.paint()
    assert printer.rows[-3:] == ["Paragraph 4999", "", "end"]


def test_rows_that_waited_too_long_leave_the_end_of_the_text() -> None:
    """Also if earlier blocks have scrolled off the screen since the last frame."""
    transcript = answer("".join(f"Before {number}\n\n" for number in range(100)))
    printer = Printer(transcript, 20)
    printer.paint()
    transcript.apply(MessageUpdate(TextDelta(0, "".join(f"Paragraph {number}\n\n" for number in range(5000)))), 0)
    printer.paint()
    assert printer.rows[-1] == "Paragraph 4999"
    note = next(at for at, row in enumerate(printer.rows) if "lines not shown" in row)
    assert printer.rows[note - 2 : note] == ["Before 99", ""]


# Plain text


def test_plain_text_is_not_wrapped_and_has_no_decoration() -> None:
    transcript = Transcript()
    transcript.apply(MessageStart(User("hello", 0)), 0)
    answer("word " * 50 + "\n\n| a | b |\n|---|---|\n| 1 | 2 |\n", transcript)
    transcript.apply(ToolStart("a", "bash", {"command": "x"}), 0)
    transcript.apply(ToolEnd("a", "bash", Outcome([Text("\x1b[31mred " * 40)]), True), 0)
    rows = shown(transcript, width=0)
    assert rows == [
        "> hello", "", ("word " * 50).strip(), "", "a: 1", "b: 2", "", "failed: $ x", ("red " * 40).strip(),
    ]  # fmt: skip


def test_only_changes_ask_for_a_frame() -> None:
    transcript = answer("x")
    assert transcript.changed
    transcript.rows(0, 60, 0)
    assert not transcript.changed
    transcript.apply(AgentStart(), 0)
    assert not transcript.changed
    transcript.apply(MessageUpdate(TextDelta(0, "y")), 0)
    assert transcript.changed


def test_a_screen_without_room_for_the_transcript_gets_the_row_after_it() -> None:
    transcript = Transcript()
    transcript.add_notice("one")
    transcript.rows(0, 60, 0)
    assert transcript.rows(5, 60, 0) == (1, [])
    assert transcript.rows(5, 60, 0) == (1, [])
    transcript.add_notice("two")
    assert [plain_text(row) for row in transcript.rows(1, 60, 0)[1]] == ["", "two"]


def test_updates_of_a_draft_are_applied() -> None:
    model = Model("m", "m", "api", "p", "")
    draft = Draft(model, 0, PartialJson)
    transcript = Transcript()
    transcript.apply(MessageStart(draft.begin().message), 0)
    transcript.apply(draft.open("text"), 0)
    transcript.apply(draft.add(0, "Some *text*"), 0)
    transcript.apply(draft.close(0), 0)
    transcript.apply(draft.open_call("c", "bash"), 0)
    transcript.apply(draft.add(1, '{"command": "ls"}'), 0)
    transcript.apply(draft.close(1), 0)
    assert shown(transcript) == ["Some text", "", "• $ ls"]
    [done] = draft.finish("toolUse")
    assert isinstance(done, MessageDone)
    transcript.apply(MessageEnd(done.message), 0)
    assert shown(transcript) == ["Some text", "", "• $ ls"]


@pytest.mark.parametrize("label", ["Pondering…", "bad\x1b[2J"])
def test_the_label_of_hidden_thinking_can_be_changed(label: str) -> None:
    transcript = Transcript()
    transcript.set_look(hide_thinking=True, thinking_label=label)
    transcript.apply(MessageStart(ANSWER), 0)
    transcript.apply(MessageUpdate(ThinkingDelta(0, "x")), 0)
    assert shown(transcript) == [label.replace("\x1b", "\\x1b")]


def test_a_problem_that_is_reported_again_at_once_is_counted() -> None:
    transcript = Transcript()
    for _ in range(3):
        transcript.add_notice("The queue is full.", "error")
    transcript.add_notice("ok")
    transcript.add_notice("ok")
    transcript.add_notice("The queue is full.", "error")
    _, rows = transcript.rows(0, 80, 0.0)
    shown = [plain_text(row) for row in rows if row]
    assert shown == ["Error: The queue is full. (3 times)", "ok", "ok", "Error: The queue is full."]

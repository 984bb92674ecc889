"""Cards: prompts, tool calls, diffs, commands, summaries, notices."""

from __future__ import annotations

from typing import Any

import pytest

from tau.core.text.diff import changes, render_diff, split_lines
from tau.records.base import UNSET, replace
from tau.records.events import Outcome
from tau.records.messages import BashExecution, Image, Text
from tau.records.tools import Truncation
from tau.screen.cards import Card
from tau.screen.cards.bash import BashCard
from tau.screen.cards.diff import diff_rows
from tau.screen.cards.messages import CustomCard, SummaryCard, UserCard
from tau.screen.cards.notices import LineCard, NoticeCard
from tau.screen.cards.tools import ToolCard
from tau.screen.cells import line_width
from tau.screen.lines import Line, Span, plain_text
from tau.screen.look import Look
from tau.screen.renderers import Renderers
from tau.screen.sections import Block

LOOK = Look(60)


def texts(card: Card, look: Look = LOOK, now: float = 0) -> list[str]:
    return [plain_text(row).rstrip() for row in card.rows(look, now)]


def finished(
    name: str, arguments: dict[str, Any], text: str, details: Any = UNSET, *, is_error: bool = False
) -> ToolCard:
    card = ToolCard(name)
    card.start(arguments, 0)
    card.end(Outcome([Text(text)], details), is_error=is_error, took=0.05)
    return card


def numbered(count: int) -> str:
    return "\n".join(f"line {number}" for number in range(1, count + 1))


# Tool calls: live output, elapsed time


def test_a_title_shows_arguments_as_they_arrive() -> None:
    card = ToolCard("bash")
    assert texts(card) == ["• $"]
    card.add_arguments('{"timeout": 5, "comm')
    card.add_arguments('and": "make \\"a')
    assert texts(card) == ['• $ make "a']
    card.add_arguments(" \\u00e")
    assert texts(card) == ['• $ make "a']
    card.add_arguments("9\\n\\u001b[2Jb")
    assert texts(card) == ['• $ make "a é', "  b"]
    path = ToolCard("write")
    path.add_arguments('{"path": "src/a.py", "content": "x')
    assert texts(path) == ["• write src/a.py"]


def test_running_calls_show_the_tail_of_their_output_and_the_time() -> None:
    card = ToolCard("bash")
    card.start({"command": "make"}, 10)
    assert texts(card, now=10.9) == ["• $ make"]
    card.update(Outcome([Text(numbered(30))]))
    assert texts(card, now=12.4) == [
        "• $ make",
        "  … 25 earlier lines, Ctrl+O",
        *(f"  line {number}" for number in range(26, 31)),
        "  Elapsed 2s",
    ]
    state = card.state(12.4)
    assert state == card.state(12.9) != card.state(13.1)


def test_of_a_running_call_the_last_200_lines_are_kept() -> None:
    card = ToolCard("bash")
    card.start({"command": "make"}, 0)
    cut = Truncation("", True, "lines", 5000, 0, 1000, 0, False, False, 2000, 50_000)
    card.update(Outcome([Text(numbered(1000))], {"truncation": cut, "fullOutputPath": "/tmp/x"}))
    assert texts(card)[1] == "  … 4,995 earlier lines, Ctrl+O"
    expanded = texts(card, Look(60, expanded=True))
    assert expanded[1:3] == ["  … 4,800 earlier lines", "  line 801"]
    assert len(expanded) == 202


def test_the_duration_is_shown_above_a_tenth_of_a_second() -> None:
    card = finished("bash", {"command": "true"}, "(no output)")
    assert texts(card) == ["✓ $ true", "  (no output)"]
    card.end(Outcome([Text("ok")]), is_error=False, took=1.23)
    assert texts(card) == ["✓ $ true", "  ok", "  Took 1.2s"]
    card.end(Outcome([Text("ok")]), is_error=False, took=125)
    assert texts(card)[-1] == "  Took 2m 05s"


# Collapse and expand


@pytest.mark.parametrize(
    ("name", "arguments", "title", "shown", "where"),
    [
        ("bash", {"command": "x"}, "$ x", 5, "earlier"),
        ("read", {"path": "a.txt"}, "read a.txt", 10, "more"),
        ("ls", {"path": "src"}, "ls src", 20, "more"),
        ("find", {"pattern": "*.py"}, "find *.py", 20, "more"),
        ("grep", {"pattern": "x", "path": "src", "glob": "*.c"}, "grep x in src (*.c)", 15, "more"),
        ("mcp__files__list", {"folder": "/x", "deep": True}, "mcp__files__list folder=/x deep=true", 10, "more"),
    ],
)
def test_previews_have_the_lines_of_the_table(
    name: str, arguments: dict[str, Any], title: str, shown: int, where: str
) -> None:
    rows = texts(finished(name, arguments, numbered(50)))
    assert rows[0] == f"✓ {title}"
    note = f"  … {50 - shown} {where} lines, Ctrl+O"
    lines = [f"  line {number}" for number in range(1, 51)]
    assert rows[1:] == ([note, *lines[-shown:]] if where == "earlier" else [*lines[:shown], note])
    plain = texts(finished(name, arguments, numbered(50)), Look(0))
    assert plain == [title, *(row.strip().removesuffix(", Ctrl+O") for row in rows[1:])]
    expanded = texts(finished(name, arguments, numbered(50)), Look(60, expanded=True))
    assert expanded[-50:] == lines


def test_write_shows_what_it_writes() -> None:
    rows = texts(finished("write", {"path": "a.txt", "content": numbered(12)}, "Successfully wrote 90 bytes"))
    assert rows == ["✓ write a.txt", *(f"  line {number}" for number in range(1, 11)), "  … 2 more lines, Ctrl+O"]


def test_read_shows_the_range_and_keeps_the_note_about_truncation() -> None:
    text = numbered(12) + "\n\n[Showing lines 5-16 of 100. Use offset=17 to continue.]"
    rows = texts(finished("read", {"path": "a.txt", "offset": 5, "limit": 12}, text))
    assert rows[0] == "✓ read a.txt:5-16"
    assert rows[-2:] == ["  … 2 more lines, Ctrl+O", "  [Showing lines 5-16 of 100. Use offset=17 to continue.]"]


def test_a_failed_call_says_so_without_colour() -> None:
    card = finished("bash", {"command": "false"}, "oops\n\nCommand exited with code 1", is_error=True)
    assert texts(card) == ["✗ $ false", "  oops", "", "  Command exited with code 1"]
    assert texts(card, Look(0))[0] == "failed: $ false"


def test_a_call_that_was_aborted_says_so() -> None:
    card = ToolCard("bash")
    card.start({"command": "sleep 9"}, 0)
    card.abort()
    assert texts(card, now=99) == ["■ $ sleep 9"]
    stopped = finished("bash", {"command": "sleep 9"}, "a\n\nCommand aborted", is_error=True)
    assert stopped.status == "aborted"
    assert texts(stopped)[0] == "■ $ sleep 9"


def test_an_image_of_a_result_is_a_line_of_text() -> None:
    card = ToolCard("read")
    card.start({"path": "a.png"}, 0)
    card.end(Outcome([Text("Read image file"), Image("QUJD" * 1000, "image/png")]), is_error=False)
    assert texts(card) == ["✓ read a.png", "  Read image file", "  [image image/png 3 kB]"]


def test_a_line_of_a_megabyte_costs_a_few_rows() -> None:
    rows = texts(finished("bash", {"command": "x"}, "word " * 200_000))
    assert len(rows) <= 8
    assert len(texts(finished("read", {"path": "x"}, "word " * 200_000))) <= 13


# Diffs


def diff_of(old: str, new: str) -> str:
    before, after = split_lines(old.encode()), split_lines(new.encode())
    return render_diff(before, after, changes(before, after))


def test_diffs_have_line_numbers_signs_and_marked_words() -> None:
    diff = diff_of("a\nreturn old_name + 1\nb\n", "a\nreturn new_name + 1\nb\n")
    rows = diff_rows(diff, LOOK)
    assert [plain_text(row) for row in rows] == [" 1 a", "-2 return old_name + 1", "+2 return new_name + 1", " 3 b"]
    assert rows[1][2] == Span("old_name", "toolDiffRemoved inverse")
    assert rows[2][2] == Span("new_name", "toolDiffAdded inverse")


def test_lines_that_have_little_in_common_are_not_marked() -> None:
    rows = diff_rows("-1 completely different\n+1 nothing of the kind", LOOK)
    assert all("inverse" not in span.style for row in rows for span in row)


def test_long_lines_of_a_diff_wrap_behind_their_number() -> None:
    rows = [plain_text(row) for row in diff_rows("+12 " + "word " * 20, Look(40))]
    assert rows[0].startswith("+12 word")
    assert all(row.startswith("    word") for row in rows[1:])


def test_the_card_of_an_edit_shows_its_diff() -> None:
    card = finished("edit", {"path": "a.py"}, "Successfully replaced text in a.py.", {"diff": "-1 old\n+1 new"})
    assert texts(card) == ["✓ edit a.py", "  -1 old", "  +1 new"]


# Commands of the person at the terminal


def test_a_command_shows_its_live_output_and_its_end() -> None:
    card = BashCard("make", 0)
    for number in range(1, 1001):
        card.add_output(f"line {number}\n")
    rows = texts(card)
    assert (rows[0], rows[-1], len(rows)) == ("! make", "  line 1000", 22)
    card.end(BashExecution("make", numbered(1000), exit_code=2, truncated=True, full_output_path="/tmp/x"), 3)
    assert texts(card)[-4:] == ["  line 1000", "  Exit code 2", "  Truncated; full output: /tmp/x", "  Took 3.0s"]


def test_a_command_that_the_model_is_not_told_is_dim() -> None:
    card = BashCard("secret", 0, hidden=True)
    card.end(BashExecution("secret", "x", cancelled=True))
    assert texts(card) == ["!! secret", "  x", "  Stopped"]
    assert {word for row in card.rows(LOOK, 0) for span in row for word in span.style.split()} <= {
        "dim",
        "bold",
        "muted",
    }


# Prompts, summaries, notices


def test_a_prompt_is_marked_and_fills_its_background() -> None:
    card = UserCard([Text("fix *this*\n\n- now"), Image("QUJD", "image/png")])
    assert texts(card) == ["> fix *this*", "", "  - now", "  [image image/png 3 bytes]"]
    assert all(line_width(row) == 60 for row in card.rows(LOOK, 0))
    assert texts(card, Look(0)) == ["> fix *this*", "", "  - now", "  [image image/png 3 bytes]"]


def test_files_and_skills_in_a_prompt_are_named_not_shown() -> None:
    card = UserCard('<file name="a.py">\nprint(1)\n</file>\n<skill name="pdf" location="/x">\nbody\n</skill>\n\ngo')
    assert texts(card) == ["> [file a.py]", "  [skill pdf]", "  go"]


def test_summaries_are_one_line_until_they_are_expanded() -> None:
    card = SummaryCard("Compacted: a summary replaces 12,345 tokens", "## Goal\nto *win*")
    assert texts(card) == ["[Compacted: a summary replaces 12,345 tokens, Ctrl+O]"]
    assert texts(card, Look(60, expanded=True)) == [
        "[Compacted: a summary replaces 12,345 tokens]",
        "  Goal",
        "  to win",
    ]


def test_custom_entries_show_their_kind_and_the_lines_of_their_renderer() -> None:
    assert texts(CustomCard("todo", "**one**")) == ["[todo]", "one"]
    renderers = Renderers(renders_message=lambda kind: kind == "todo")
    card = CustomCard("todo", "one", renderers.message("todo"), {"x": 1})
    state = card.state(0)
    assert texts(card) == ["[todo]", "one"]
    [request] = renderers.take_requests()
    assert (request.name, request.data, request.width, request.options) == ("todo", {"x": 1}, 60, {"expanded": False})
    request.answer([(Span("drawn", "accent"),)])
    assert card.state(0) != state
    assert texts(card) == ["drawn"]
    assert renderers.take_requests() == []
    assert renderers.message("other") is None


def test_an_extension_draws_the_calls_and_results_of_its_tools() -> None:
    renderers = Renderers(renders_tool=lambda name: name == "ask")
    card = ToolCard("ask", renderers=renderers)
    card.start({"q": "why"}, 0)
    assert texts(card) == ["• ask q=why"]
    [call] = renderers.take_requests()
    assert (call.part, call.data, call.width) == ("call", {"q": "why"}, 58)
    call.answer([(Span("ask: why?"),)])
    assert texts(card) == ["• ask: why?"]
    card.end(Outcome([Text("42")]), is_error=False)
    assert texts(card) == ["✓ ask: why?", "  42"]
    result, call = renderers.take_requests()
    assert (result.part, result.options) == ("result", {"expanded": False, "isPartial": False, "isError": False})
    assert result.data == {"content": [{"type": "text", "text": "42"}]}
    result.answer([(Span("forty-two"),)])
    call.answer(None)
    assert texts(card) == ["✓ ask q=why", "  forty-two"]
    assert texts(card, Look(60, expanded=True))[0] == "✓ ask q=why"
    assert len(renderers.take_requests()) == 2


def test_notices_say_their_kind_in_words() -> None:
    assert texts(NoticeCard("done")) == ["done"]
    assert texts(NoticeCard("low space", "warning")) == ["Warning: low space"]
    assert texts(NoticeCard("Error: no\nmore", "error")) == ["Error: no", "  more"]


def test_a_rule_names_what_begins() -> None:
    [row] = texts(LineCard('fork of "parser" · 14 messages', rule=True))
    assert row.startswith('── fork of "parser" · 14 messages ──')
    assert len(row) <= 60


def wide(rows: list[Line], width: int) -> list[str]:
    return [plain_text(row) for row in rows if line_width(row) > width]


@pytest.mark.parametrize("width", [1, 2, 5, 12, 30, 79])
def test_no_card_is_wider_than_the_screen(width: int) -> None:
    look = Look(width)
    long = "日本語 word " * 20 + "x" * 90 + "👩‍👩‍👧" * 9
    cards: list[Card] = [
        UserCard([Text(long), Image("QUJD", "image/png")]),
        SummaryCard(long, long),
        CustomCard(long, long),
        NoticeCard(long, "error"),
        LineCard(long, rule=True),
        BashCard(long, 0),
        finished("edit", {"path": long}, "", {"diff": f"-1 {long}\n+1 {long}a"}),
        *(finished(name, {"path": long, "command": long}, f"{long}\n{long}") for name in ("bash", "read", "grep", "x")),
    ]
    for card in cards:
        assert wide(Block(card, lead=True).rows(look, 0), width) == []
        assert wide(Block(card).rows(replace(look, expanded=True), 0), width) == []


def test_hints_name_the_keys_that_are_bound() -> None:
    card = finished("bash", {"command": "x"}, numbered(50))
    assert texts(card, Look(60, expand_key="F2"))[1] == "  … 45 earlier lines, F2"
    assert texts(SummaryCard("Compacted", "x"), Look(60, expand_key="F2")) == ["[Compacted, F2]"]


def test_paths_in_the_folder_of_the_session_are_relative() -> None:
    look = Look(60, cwd="/home/me/project")
    assert texts(finished("ls", {"path": "/home/me/project/src"}, ""), look) == ["✓ ls src"]
    assert texts(finished("ls", {"path": "/home/me/projects"}, ""), look) == ["✓ ls /home/me/projects"]
    assert texts(finished("mcp", {"path": "/home/me/project/x"}, ""), look) == ["✓ mcp path=/home/me/project/x"]

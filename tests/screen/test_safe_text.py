"""Hostile output: nothing that a model, tool, name or extension says reaches the terminal as a control."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tau.records.base import replace
from tau.records.events import Outcome
from tau.records.messages import BashExecution, Image, Text
from tau.screen.cards import Card
from tau.screen.cards.bash import BashCard
from tau.screen.cards.messages import CustomCard, SummaryCard, UserCard
from tau.screen.cards.notices import LineCard, NoticeCard
from tau.screen.cards.tools import ToolCard
from tau.screen.footer import FooterState, footer_lines
from tau.screen.lines import Line, Span, plain_text
from tau.screen.look import Look
from tau.screen.safe_text import clean_text, one_line, output_lines
from tau.screen.stream import MarkdownStream, markdown_rows
from tau.screen.working import Activity, Retry, queue_lines, working_line

FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufff9-\ufffb]")

CONTROLS = {
    **{f"U+{code:04X}": chr(code) for code in (*range(0x20), *range(0x7F, 0xA0))},
    **{f"U+{code:04X}": chr(code) for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x2028, 0x2029)},
    "lone surrogate": "\ud800",
    "clear": "\x1b[2J",
    "clear scrollback": "\x1b[3J",
    "cursor": "\x1b[10;10H",
    "8-bit CSI": "\x9b2J",
    "title": "\x1b]0;owned\x07",
    "title, ST": "\x1b]2;owned\x1b\\",
    "clipboard": "\x1b]52;c;cm0gLXJmIC8=\x07",
    "hyperlink": "\x1b]8;;http://evil\x1b\\",
    "device control": "\x1bP1$r0m\x1b\\",
    "application program": "\x1b_Gf=100;AAAA\x1b\\",
    "privacy": "\x1b^x\x1b\\",
    "alternate screen": "\x1b[?1049h",
    "paste": "\x1b[201~",
    "reset": "\x1bc",
    "charset": "\x1b(0",
    "SGR": "\x1b[31;1m",
    "SGR in halves": "\x1b[31",
    "unfinished": "\x1b]0;never ends",
    "device status": "\x1b[6n",
    "key press": "\x1bOM",
}


def hostile_rows(bad: str, look: Look) -> Iterable[tuple[str, list[Line]]]:
    text = f"one {bad}two\n{bad}\n- **x{bad}** `{bad}y` [l{bad}](http://a/{bad})\n\n"
    text += f"| {bad} | b |\n|---|---|\n| {bad} | 2 |\n\n```{bad}py\n{bad}x\n```\n# {bad}"
    stream = MarkdownStream()
    stream.feed(text)
    stream.take()
    yield "tail", stream.tail(look)
    yield "markdown", markdown_rows(text, look)
    for expanded in (False, True):
        for name, card in hostile_cards(bad, text):
            yield name, card.rows(replace(look, expanded=expanded), 0)
    state = FooterState(
        cwd=bad, branch=bad, name=bad, model=bad, provider=bad, level=bad, flags=(bad,), statuses={"a": bad}
    )
    yield "footer", footer_lines(state, look.width)
    yield "retry", [working_line(Activity(0.0, retry=Retry(1, 3, 8.0, bad)), 0, look.width)]
    yield "working", [working_line(Activity(0.0, message=bad), 0, look.width)]
    yield "queue", queue_lines([text], [bad], look.width)


def hostile_cards(bad: str, text: str) -> Iterable[tuple[str, Card]]:
    yield "prompt", UserCard([Text(f'<file name="{bad}">\nx\n</file>\n{text}'), Image("QUJD", bad)])
    yield "summary", SummaryCard(bad, text)
    yield "custom", CustomCard(bad, [Text(text), Image("", bad)])
    yield "notice", NoticeCard(text, "error")
    yield "line", LineCard(bad, rule=True)
    bash = BashCard(bad)
    bash.add_output(text)
    yield "running command", bash
    bash = BashCard(bad)
    bash.end(BashExecution(bad, text, truncated=True, full_output_path=bad))
    yield "command", bash
    arriving = ToolCard(bad)
    arriving.add_arguments(f'{{"command": "{bad}", "path": "a\\u001b[2Jb{bad}')
    yield "arriving", arriving
    for name in ("bash", "read", "write", "edit", "grep", bad):
        call = ToolCard(name)
        call.start({key: text for key in ("command", "path", "content", "pattern", "glob", bad)}, 0)
        yield f"running {name}", call
        for is_error in (False, True):
            call = ToolCard(name)
            call.start({key: text for key in ("command", "path", "content", "pattern", "glob", bad)}, 0)
            diff = {"diff": f"-1 {bad}\n+1 {bad}x\n {bad}"}
            call.end(Outcome([Text(text), Image("QUJD", bad)], diff), is_error=is_error)
            yield name, call


def assert_safe(name: str, rows: Iterable[Line]) -> None:
    for row in rows:
        for span in row:
            assert not FORBIDDEN.search(span.text), (name, span)
            assert not FORBIDDEN.search(span.link), (name, span)
            assert not FORBIDDEN.search(span.style), (name, span)


@pytest.mark.promise("T01")
@pytest.mark.parametrize("name", CONTROLS)
@pytest.mark.parametrize("width", [0, 40])
def test_no_control_of_any_source_reaches_a_span(name: str, width: int) -> None:
    for source, rows in hostile_rows(CONTROLS[name], Look(width)):
        assert_safe(source, rows)


@pytest.mark.promise("T01")
@settings(deadline=None, max_examples=200)
@given(st.lists(st.sampled_from([*CONTROLS.values(), *"[]0;m?1a\\ \n"]), max_size=30).map("".join))
def test_no_sequence_of_controls_reaches_a_span(text: str) -> None:
    assert_safe("clean", [(Span(clean_text(text).replace("\n", "")),), (Span(one_line(text)),)])
    assert_safe("output", output_lines(text))


@pytest.mark.promise("T01")
def test_characters_that_reorder_text_are_spelled_out() -> None:
    assert clean_text("a\u202eb") == "a\\u202eb"
    assert one_line("a\u2066b\u200bc") == "a\\u2066b\\u200bc"


def test_an_escape_sequence_cut_into_pieces_is_still_removed() -> None:
    stream = MarkdownStream()
    for piece in ("a \x1b", "[3", "1mred \x1b]0;ow", "ned", "\x07end"):
        stream.feed(piece)
        stream.take()
        assert "ow" not in plain_text(stream.tail(Look(40))[0])
    stream.finish()
    [whole] = stream.take()
    assert whole.source == "a red end"


# Colours of command output


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("\x1b[31mred\x1b[0m plain", [("red", "fg=1"), (" plain", "out")]),
        ("\x1b[1;92mbold\x1b[22m\x1b[39m.", [("bold", "fg=10 bold"), (".", "out")]),
        ("\x1b[38;5;208mx\x1b[48;2;1;2;3my", [("x", "fg=208"), ("y", "fg=208 bg=#010203")]),
        ("\x1b[38:2:255:136:0mx", [("x", "fg=#ff8800")]),
        (
            "\x1b[7mx\x1b[27my\x1b[4mz\x1b[m!",
            [("x", "out inverse"), ("y", "out"), ("z", "out underline"), ("!", "out")],
        ),
        ("\x1b[38:2::255:136:0mx\x1b[4:3;39my", [("x", "fg=#ff8800"), ("y", "out underline")]),
        ("\x1b[38;5mx", [("x", "out")]),
        ("\x1b[999;38;2;1mx", [("x", "out")]),
        ("\x1b[5;8mno blinking, nothing hidden", [("no blinking, nothing hidden", "out")]),
    ],
)
def test_colours_of_command_output_are_kept(text: str, spans: list[tuple[str, str]]) -> None:
    [line] = output_lines(text, "out")
    assert [(span.text, span.style) for span in line] == spans


def test_colours_last_over_lines() -> None:
    assert output_lines("\x1b[32ma\nb\x1b[0m\nc") == [(Span("a", "fg=2"),), (Span("b", "fg=2"),), (Span("c"),)]


def test_a_line_that_was_overwritten_shows_its_last_state() -> None:
    assert [plain_text(line) for line in output_lines("10%\r50%\r100%\r\ndone\r\n")] == ["100%", "done", ""]


def test_tabs_are_spaces() -> None:
    assert [plain_text(line) for line in output_lines("a\tb")] == ["a   b"]

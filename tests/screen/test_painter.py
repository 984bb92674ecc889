"""What the painter writes, shown by a terminal (pyte), is the frame; rows that have scrolled off stay as they were."""

from __future__ import annotations

import random
import re

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.terminal_screen import Emulator, Screen
from tau.screen.cells import line_width
from tau.screen.colors import Depth
from tau.screen.frame import Cursor, Frame
from tau.screen.lines import Line, Span, line, plain_text
from tau.screen.painter import Painter
from tau.screen.styles import Palette

# All that the painter may say: text, CR, LF, BS, and these sequences.
ALLOWED = re.compile(
    rb"\x1b\[[0-9;]*m|\x1b\[[0-9]*[ABCD]|\x1b\[[JK]|\x1b\[\?2026[hl]|\x1b\[\?25[hl]|\x1b\]8;;[!-~]*\x1b\\"
)


class Display:
    """A screen below some rows of a shell."""

    def __init__(self, rows: int, columns: int, shell_rows: int = 0, depth: Depth = "truecolor") -> None:
        self.screen = Screen(columns, rows, history=100_000, ratio=0.5)
        self.stream = pyte.ByteStream(self.screen)
        self.shell_rows = shell_rows
        self.feed(b"$\r\n" * shell_rows)
        self.painter = Painter(rows, columns, Palette(depth=depth))
        self.written = 0

    def feed(self, data: bytes) -> None:
        assert not re.search(rb"[\x00-\x07\x0b\x0c\x0e-\x1f\x7f]", ALLOWED.sub(b"", data)), data
        self.stream.feed(re.sub(rb"\x1b\[\?2026[hl]|\x1b\]8;[^\x1b]*\x1b\\", b"", data))

    def show(self, top: int, rows: list[Line], cursor: Cursor | None = None) -> bytes:
        data = self.painter.paint(Frame(top, tuple(rows[top:]), cursor))
        if data:
            assert data.startswith(b"\x1b[?2026h") and data.endswith(b"\x1b[?2026l")
        self.feed(data)
        return data

    def rows(self) -> list[str]:
        """All rows below the shell's, also those that have scrolled off."""
        columns = range(self.screen.columns)
        history = ["".join(row[column].data for column in columns) for row in self.screen.history.top]
        return [row.rstrip() for row in history + list(self.screen.display)][self.shell_rows :]

    def cursor(self) -> tuple[int, int]:
        row = len(self.screen.history.top) + self.screen.cursor.y - self.shell_rows
        return row, min(self.screen.cursor.x, self.screen.columns - 1)


def shown(rows: list[Line], columns: int) -> list[str]:
    return [plain_text(row).rstrip() for row in rows]


def random_row(source: random.Random, columns: int) -> Line:
    """At most as wide as the painter shows: one column less than the screen."""
    # pyte wraps a combining mark after the last column, which only one column makes possible
    alphabet = ["a", "b", "c", " ", "─", "é", "日", "👍", "x\u0302" if columns > 1 else "x"]
    row: list[Span] = []
    for _ in range(source.randint(0, 3)):
        text = "".join(source.choices(alphabet, k=source.randint(0, 5)))
        row.append(Span(text, source.choice(["", "accent", "bold bg:selectedBg"]), source.choice(["", "", "http://x"])))
        if line_width(tuple(row)) > max(1, columns - 1):
            row.pop()
    return tuple(row)


def changed(source: random.Random, rows: list[Line], first: int, columns: int) -> list[Line]:
    """Another frame: rows from `first` on may have changed, have gone or have come."""
    rows = rows[: max(first, len(rows) - source.randint(0, 6))] + [
        random_row(source, columns) for _ in range(source.randint(0, 7))
    ]
    for index in range(first, len(rows)):
        if source.random() < 0.2:
            rows[index] = random_row(source, columns)
        elif source.random() < 0.2 and rows[index]:
            rows[index] = rows[index][:-1]
    return rows


@given(
    st.randoms(use_true_random=False),
    st.integers(1, 9),
    st.integers(1, 14),
    st.sampled_from(["truecolor", "16", "none"]),
)
def test_the_screen_shows_the_frame_and_history_stays(
    source: random.Random, rows: int, columns: int, depth: Depth
) -> None:
    display = Display(rows, columns, source.randint(0, rows - 1), depth)
    content: list[Line] = []
    for _ in range(12):
        first = display.painter.first_visible
        content = changed(source, content, first, columns)
        cursor = None
        if content and source.random() < 0.8:
            lowest = min(len(content) - 1, max(first, len(content) - rows))
            cursor = Cursor(source.randint(lowest, len(content) - 1), source.randint(0, columns - 1))
        if source.random() < 0.3:
            display.feed(display.painter.echo(source.choice("x \x1béあ")))
        display.show(source.randint(0, min(len(content), first)), content, cursor)
        expected = shown(content, columns)
        visible = display.rows()
        assert visible[: len(expected)] == expected
        assert not any(visible[len(expected) :])
        assert display.screen.cursor.hidden == (cursor is None)
        if cursor is not None:
            assert display.cursor() == (max(cursor.row, display.painter.first_visible), cursor.column)
        assert display.show(0, content, cursor) == b""


def test_colours_and_links_of_a_changed_part_are_right() -> None:
    display = Display(5, 40)
    display.show(0, [(Span("plain "), Span("old", "fg=1"), Span(" end", "bold"))])
    display.show(0, [(Span("plain "), Span("new", "fg=2"), Span(" end", "bold"))])
    cells = [display.screen.buffer[0][column] for column in range(14)]
    assert [cell.fg for cell in cells] == ["default"] * 6 + ["green"] * 3 + ["default"] * 5
    assert [cell.bold for cell in cells] == [False] * 9 + [True] * 4 + [False]


def test_a_typed_character_costs_few_bytes() -> None:
    display = Display(40, 120)
    rows = [line("x" * 80), line("─" * 119, "border"), line("hello"), line("─" * 119, "border"), line("footer", "dim")]
    display.show(0, rows, Cursor(2, 5))
    rows[2] = line("hello!")
    assert display.show(0, rows, Cursor(2, 6)) == b"\x1b[?2026h!\x1b[?2026l"
    rows[2] = line("hel!lo!")
    data = display.show(0, rows, Cursor(2, 4))
    assert data == b"\x1b[?2026h\b\b\b!lo!\b\b\b\x1b[?2026l"
    assert display.rows()[2] == "hel!lo!"


def test_a_typed_character_is_shown_before_the_frame_and_is_not_drawn_twice() -> None:
    display = Display(40, 120)
    rows = [line("─" * 119, "border"), line(""), line("─" * 119, "border")]
    display.show(0, rows, Cursor(1, 0))
    for typed in ("h", "hi"):
        assert display.painter.echo(typed[-1]) == f"\x1b[?2026h{typed[-1]}\x1b[?2026l".encode()
        rows[1] = line(typed)
        assert display.show(0, rows, Cursor(1, len(typed))) == b""


def test_an_echo_that_was_wrong_is_corrected_by_the_frame() -> None:
    display = Display(40, 120)
    display.show(0, [line("ab")], Cursor(0, 2))
    display.feed(display.painter.echo("c"))
    display.show(0, [line("abX")], Cursor(0, 1))
    assert display.rows()[0] == "abX" and display.cursor() == (0, 1)


@pytest.mark.parametrize(
    "row, column, character",
    [
        (line("hello"), 3, "x"),  # not at the end
        (line("hello", "accent"), 5, "x"),
        (line("héllo"), 5, "x"),
        (line("hello"), 5, "é"),
        (line("hello"), 5, "\x1b"),
        (line("x" * 38), 38, "y"),  # the last column
    ],
)
def test_only_plain_characters_at_the_end_of_plain_text_are_echoed(row: Line, column: int, character: str) -> None:
    display = Display(5, 40)
    display.show(0, [row], Cursor(0, column))
    assert display.painter.echo(character) == b""


def test_a_counter_in_a_long_rule_costs_few_bytes() -> None:
    display = Display(40, 120)

    def rule(text: str) -> Line:
        return (Span("── ", "border"), Span(text, "accent"), Span(" " + "─" * (115 - len(text)), "border"))

    display.show(0, [rule("⠋ Working 1s"), line("hello")], Cursor(1, 5))
    data = display.show(0, [rule("⠙ Working 2s"), line("hello")], Cursor(1, 5))
    assert len(data) < 80
    assert display.rows()[0].startswith("── ⠙ Working 2s ──")


def test_a_shorter_frame_erases_the_rest() -> None:
    display = Display(5, 20)
    display.show(0, [line(str(number)) for number in range(4)], Cursor(3, 1))
    display.show(0, [line("0")], Cursor(0, 1))
    assert display.rows() == ["0", "", "", "", ""]
    display.show(0, [line("0"), line("1")], Cursor(1, 0))
    assert display.rows() == ["0", "1", "", "", ""]
    assert len(display.screen.history.top) == 0


def test_rows_that_have_scrolled_off_are_not_drawn_again() -> None:
    display = Display(3, 20)
    rows = [line(f"row {number}") for number in range(10)]
    display.show(0, rows)
    assert display.painter.first_visible == 7
    assert display.show(0, [line("changed")] * 7 + rows[7:]) == b""
    assert display.rows() == [f"row {number}" for number in range(10)]


def test_rows_above_the_top_of_the_frame_stay() -> None:
    display = Display(6, 20)
    display.show(0, [line("a"), line("b"), line("c")])
    display.painter.paint(Frame(2, (line("C"),)))
    display = Display(6, 20)
    display.show(0, [line("a"), line("b"), line("c")])
    display.feed(display.painter.paint(Frame(2, (line("C"), line("d")))))
    assert display.rows()[:4] == ["a", "b", "C", "d"]


def test_the_first_frame_erases_keys_that_were_echoed() -> None:
    display = Display(5, 20, shell_rows=1)
    display.feed(b"typed")
    display.show(0, [line("> ")], Cursor(0, 2))
    assert display.rows()[0] == ">"


def test_a_row_is_always_narrower_than_the_screen() -> None:
    display = Display(4, 10)
    display.show(0, [line("x" * 30), line("日本語日本語")], Cursor(0, 30))
    assert display.rows()[:2] == ["x" * 9, "日本語日"]
    assert display.cursor() == (0, 9)


def test_a_control_character_in_a_span_is_not_written() -> None:
    display = Display(4, 40)
    evil = "a\x1b[2Jb\x07\x9b3Jc\r\n\x00d\u202ee"
    data = display.show(0, [line(evil), (Span("x", evil, "http://a\x1b[2J"),)])
    assert b"\x1b[2J" not in data and b"\x07" not in data and b"\r\nd" not in data
    assert display.rows()[:2] == ["a[2Jb3Jcde", "x"]


def test_another_palette_draws_the_screen_again() -> None:
    display = Display(4, 40)
    rows = [line("one", "accent"), line("two")]
    display.show(0, rows)
    display.painter.palette = Palette(depth="none")
    display.painter.forget()
    data = display.show(0, rows)
    assert b"one" in data and b"two" in data
    assert display.screen.buffer[0][0].fg == "default"
    assert display.rows()[:2] == ["one", "two"]


def test_without_synchronized_updates_the_cursor_is_hidden_meanwhile() -> None:
    painter = Painter(5, 20, Palette(), synchronized=False)
    assert painter.paint(Frame(0, (line("a"),), Cursor(0, 1))) == b"\x1b[?25l\r\x1b[Ja\x1b[?25h"
    assert painter.paint(Frame(0, (line("a"),), Cursor(0, 1))) == b""
    assert painter.paint(Frame(0, (line("b"),))) == b"\bb\x1b[?25l"


def test_leaving_erases_the_box_and_frees_a_line() -> None:
    display = Display(4, 20)
    display.show(0, [line(f"row {number}") for number in range(6)], None)
    display.feed(display.painter.leave(4))
    assert display.rows() == ["row 0", "row 1", "row 2", "row 3", "", ""]
    assert display.cursor() == (4, 0)
    assert not display.screen.cursor.hidden


def test_leaving_without_a_box_goes_to_a_new_line() -> None:
    display = Display(2, 20)
    display.show(0, [line("a"), line("b")], None)
    display.feed(display.painter.leave(2))
    assert display.rows() == ["a", "b", ""]
    assert display.cursor() == (2, 0)


def test_after_another_program_the_frame_is_drawn_below_its_output() -> None:
    display = Display(6, 20)
    display.show(0, [line("a"), line("box")], Cursor(1, 0))
    display.feed(display.painter.leave(1))
    display.feed(b"editor was here\r\n")
    display.painter.restart(1)
    display.feed(display.painter.paint(Frame(0, (line("a"), line("box"), line("more")), Cursor(2, 0))))
    assert display.rows()[:4] == ["a", "editor was here", "box", "more"]
    assert display.cursor() == (3, 0)


def live_frame(settled: int, text: str, size: tuple[int, int]) -> Frame:
    """A box of at most three rows below `settled` rows; the cursor is in the middle."""
    rows, columns = size
    rule, body = line("─" * max(1, columns - 1)), line(text[: max(1, columns - 1)])
    box = (rule, body, rule) if rows > 2 else (body,)
    return Frame(settled, box, Cursor(settled + box.index(body), min(len(text), columns - 1)))


@pytest.mark.parametrize("size", [(10, 40), (10, 15), (4, 40), (4, 15), (20, 80), (3, 40), (2, 10), (1, 1), (1, 40)])
def test_after_a_resize_there_is_one_box(size: tuple[int, int]) -> None:
    """A terminal that cuts rows. Settled rows stay; the frame begins at the box."""
    display = Display(8, 40, shell_rows=2)
    settled = [line(f"word {number}") for number in range(20)]
    frame = live_frame(20, "hi", (8, 40))
    display.show(0, [*settled, *frame.rows], frame.cursor)
    rows, columns = size
    display.screen.resize(rows, columns)
    display.feed(display.painter.resize(rows, columns, reflows=False, live_top=20))
    assert display.painter.first_visible == 20
    frame = live_frame(20, "hi", size)
    display.feed(display.painter.paint(frame))
    seen = display.rows()
    boxes = [row for row in seen if row.startswith("─")]
    # The upper rule has left a very low screen for the history.
    assert len(boxes) == 2 if rows > 2 else len(boxes) <= 1
    assert [row for row in seen if row.startswith("w")] == [
        f"word {number}"[:40] for number in range(20)
    ] or columns < 7


def test_after_a_storm_of_sizes_the_screen_is_as_a_fresh_one() -> None:
    source = random.Random(21)
    display = Display(24, 80)
    settled = 5
    display.show(0, [*[line("old")] * settled, *live_frame(settled, "hi", (24, 80)).rows], Cursor(settled + 1, 2))
    for _ in range(200):
        rows, columns = source.randint(1, 60), source.randint(1, 200)
        display.screen.resize(rows, columns)
        display.painter.resize(rows, columns, reflows=False, live_top=settled)
        display.feed(display.painter.paint(live_frame(settled, "hi", (rows, columns))))
    display.screen.resize(24, 80)
    display.painter.resize(24, 80, reflows=False, live_top=settled)
    frame = live_frame(settled, "hi", (24, 80))
    display.feed(display.painter.paint(frame))
    top = display.screen.cursor.y - 1
    assert [row.rstrip() for row in display.screen.display[top : top + 4]] == [
        plain_text(row) for row in frame.rows
    ] + [""]
    assert not any(row.strip() for row in display.screen.display[top + 3 :])


STEPS = ["add", "forget", "other_program", "resize", "paint"]


class Session:
    """A transcript whose rows are settled once they are added, and a box of random height below it."""

    def __init__(self, source: random.Random) -> None:
        self.source = source
        self.size = (source.randint(6, 20), source.randint(12, 60))
        self.display = Display(*self.size, shell_rows=source.randint(0, 5))
        self.rows: list[Line] = []
        self.live_top = 0
        self.paint()

    def paint(self) -> None:
        columns = self.size[1]
        box = [line("─" * (columns - 1)), *[line("box")] * self.source.randint(1, self.size[0] - 3), line("foot")]
        painter = self.display.painter
        top = painter.first_visible
        self.live_top = len(self.rows)
        row = self.source.randint(self.live_top + 1, self.live_top + len(box) - 1)
        cursor = Cursor(row, self.source.randint(0, 3)) if self.source.random() < 0.8 else None
        self.display.feed(painter.paint(Frame(top, (*self.rows[top:], *box), cursor)))

    def add(self) -> None:
        self.rows += [line(f"row {len(self.rows) + index}") for index in range(self.source.randint(0, 30))]
        self.paint()

    def forget(self) -> None:
        self.display.painter.forget()
        self.paint()

    def other_program(self) -> None:
        painter = self.display.painter
        self.display.feed(painter.leave(self.live_top) + b"other\r\n" * self.source.randint(0, 3))
        painter.restart(self.live_top)
        self.paint()

    def resize(self) -> None:
        self.size = (self.source.randint(6, 20), self.source.randint(12, 60))
        self.display.screen.resize(*self.size)
        self.display.painter.resize(*self.size, reflows=False, live_top=self.live_top)
        self.paint()


@pytest.mark.promise("T13")
@given(st.randoms(use_true_random=False), st.lists(st.sampled_from(STEPS), max_size=10))
def test_every_row_is_shown_once_whatever_happens(source: random.Random, steps: list[str]) -> None:
    session = Session(source)
    for step in steps:
        getattr(session, step)()
    session.display.feed(session.display.painter.leave(session.live_top))
    seen = session.display.rows()
    assert [row for row in seen if row.startswith("row")] == [plain_text(row) for row in session.rows]
    assert not session.display.screen.cursor.hidden


def test_a_terminal_that_reflows_has_split_the_rows() -> None:
    """40 columns become 15: a row of 39 cells takes three, so the box began four rows above the cursor's."""
    display = Display(10, 40)
    frame = live_frame(0, "x" * 20, (10, 40))
    display.show(0, list(frame.rows), frame.cursor)
    display.painter.resize(10, 15, reflows=True)
    data = display.painter.paint(live_frame(0, "x" * 14, (10, 15)))
    assert data.startswith(b"\x1b[?2026h\x1b[4A\r\x1b[J")


def test_after_a_resize_rows_in_the_history_are_drawn_again_rather_than_lost() -> None:
    """The eight rows take 32 on the narrow screen, of which four above the cursor's are on the screen."""
    display = Display(10, 40)
    display.show(0, [line("y" * 39)] * 8, Cursor(7, 3))
    display.painter.resize(5, 10, reflows=True)
    data = display.painter.paint(Frame(0, tuple(line(f"row {number}") for number in range(8)), Cursor(7, 3)))
    assert data.startswith(b"\x1b[?2026h\x1b[4A\r\x1b[J")
    assert all(b"row %d" % number in data for number in range(8))
    assert display.painter.first_visible == 3


def test_rows_above_the_box_that_a_narrower_screen_has_no_room_for_are_left_to_its_history() -> None:
    """Each of the eight rows takes four: of 32 rows, with the box, only the last five are on the screen."""
    display = Display(10, 40)
    display.show(0, [*[line("y" * 39)] * 6, line("box"), line("box")], Cursor(7, 3))
    display.painter.resize(5, 10, reflows=True, box_top=6)
    assert display.painter.first_visible == 6
    data = display.painter.paint(Frame(6, (line("new box"), line("new box")), Cursor(7, 3)))
    assert data.startswith(b"\x1b[?2026h\x1b[A\r\x1b[J")


def test_what_a_misplaced_frame_wrote_is_drawn_again() -> None:
    """Rows that are complete are usually left to the terminal."""
    rows = [line(f"row {number}") for number in range(4)]
    for misplaced, first in ((False, 4), (True, 2)):
        display = Display(10, 40)
        display.show(0, [*rows[:2], line("box")], Cursor(2, 0))
        display.show(0, [*rows, line("box")], Cursor(4, 0))
        display.painter.resize(8, 30, reflows=True, live_top=4, box_top=4, misplaced=misplaced)
        assert display.painter.first_visible == first


def test_the_emulator_of_the_tests_records_modes_and_has_an_alternate_screen() -> None:
    emulator = Emulator(2, 10)
    emulator.feed(b"main\x1b[?2004h\x1b[>5u\x1b[>4;2m\x1b[?25l\x1b[22;2t\x1b[?104", lambda _: False)
    assert emulator.recorder.modes == {"2004", "kitty", "otherKeys", "25", "title"}
    emulator.feed(b"9hother", lambda _: False)
    assert emulator.screen.display[0].rstrip() == "other"
    emulator.feed(b"\x1b[?1049l\x1b[?2004l\x1b[<u\x1b[>4;0m\x1b[?25h\x1b[23;2t", lambda _: False)
    assert emulator.recorder.modes == set()
    assert emulator.screen.display[0].rstrip() == "main"

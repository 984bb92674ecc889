from __future__ import annotations

import pytest

from tau.records.dialogs import Confirm, Editor, Input, Select
from tau.records.permissions import PermissionDetails
from tau.screen.bindings import Bindings
from tau.screen.cells import line_width
from tau.screen.input_events import Key
from tau.screen.lines import plain_text
from tau.screen.panels import Answer, Panel, Status
from tau.screen.panels.choices import ChoicePanel
from tau.screen.panels.dialogs import Dialog, panel_for

pytestmark = pytest.mark.unit
FOCUSED = Status()
BINDINGS = Bindings()

OPTIONS = ["Allow once", "Allow for this session: edit of /home/me/src/a.py", "Deny"]
DETAILS = PermissionDetails(
    call_id="c1",
    tool="edit",
    arguments={"path": "a.py"},
    commands=(),
    paths=("/home/me/src/a.py",),
    cwd="/home/me/src",
    sandbox="workspace",
    asked_by="the rule ask[0] in rules.json:3",
    diff="  1 one\n- 2 two\n+ 2 zwei",
)


def permission() -> Panel:
    return panel_for(Select("1", "Allow edit?\n\n/home/me/src/a.py", OPTIONS), DETAILS)


def stops_clock(panel: Panel) -> bool:
    assert isinstance(panel, ChoicePanel)
    return panel.stops_clock


def text_of(panel: Panel, width: int = 70, rows: int = 20, status: Status = FOCUSED) -> list[str]:
    return [plain_text(row).rstrip() for row in panel.rows(width, rows, status).lines]


def press(panel: Panel, *keys: str) -> Answer | None:
    answer = None
    for name in keys:
        assert answer is None
        shown = {"space": " "}.get(name, name if len(name) == 1 else "")
        key = Key(name, shown)
        answer = panel.key(key, BINDINGS.actions(key))
    return answer


def test_a_permission_panel_shows_the_call_and_what_it_changes() -> None:
    status = Status(position="1 of 3", seconds_left=41.2)
    assert text_of(permission(), status=status) == [
        "── Allow edit? ─────────────────────────────────────── 1 of 3 · 42s ──",
        "  /home/me/src/a.py",
        "  in /home/me/src",
        "  sandbox: workspace",
        "  asked by the rule ask[0] in rules.json:3",
        "    1 one",
        "  - 2 two",
        "  + 2 zwei",
        "",
        "  1 Allow once",
        "  2 Allow for this session: edit of /home/me/src/a.py",
        "→ 3 Deny",
        "  4 Deny, and say why",
        "  ↑↓ Enter or a digit answers · Esc denies · Space stops the clock",
    ]
    styles = {span.style for row in permission().rows(70, 20, status).lines for span in row}
    assert {"toolDiffAdded", "toolDiffRemoved"} <= styles


def test_a_panel_without_the_focus_says_how_to_answer() -> None:
    assert text_of(permission(), status=Status(focused=False))[-3:] == [
        "  3 Deny",
        "  4 Deny, and say why",
        "  Tab answers",
    ]


def test_the_chosen_row_is_marked_when_keys_can_answer() -> None:
    for status, row in ((Status(), "→ 3 Deny"), (Status(ready=False), "  3 Deny")):
        assert row in text_of(permission(), status=status)
    panel = panel_for(Input("1", "Name?"))
    assert panel.rows(40, 10, Status(ready=False)).cursor is None


@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        (["enter"], Answer("Deny")),
        (["escape"], Answer("Deny")),
        (["1"], Answer("Allow once")),
        (["2"], Answer(OPTIONS[1])),
        (["3"], Answer("Deny")),
        (["up", "up", "enter"], Answer("Allow once")),
        (["down", "down", "enter"], Answer("Allow once")),
        (["4", "n", "o", "enter"], Answer("Deny", "no")),
        (["down", "enter", "space", "x", "enter"], Answer("Deny", "x")),
        (["4", "enter"], Answer("Deny")),
        (["4", "x", "escape"], None),
        (["4", "x", "escape", "escape"], Answer("Deny")),
        (["y"], None),
        (["n"], None),
        (["5"], None),
        (["0"], None),
    ],
)
def test_what_answers_a_permission_question(keys: list[str], answer: Answer | None) -> None:
    assert press(permission(), *keys) == answer


def test_a_paste_is_no_answer_and_fills_only_a_text_field() -> None:
    panel = permission()
    assert panel.paste("1\n") is False
    press(panel, "4")
    assert panel.paste("use make\ninstead") is True
    assert press(panel, "enter") == Answer("Deny", "use make instead")


def test_space_stops_the_clock_unless_the_rules_forbid_it() -> None:
    panel = permission()
    press(panel, "space")
    assert stops_clock(panel)
    assert text_of(panel, status=Status(clock_stopped=True))[0].endswith("clock stopped ──")
    fixed = PermissionDetails("c1", "bash", {}, ("make",), (), "/home/me/src", None, "ask", can_stop_clock=False)
    other = panel_for(Select("1", "Allow bash?", OPTIONS), fixed)
    assert other.wants(Key("space", " "), ()) is False
    press(other, "space")
    assert not stops_clock(other)


def test_a_long_diff_scrolls_inside_the_panel() -> None:
    diff = "\n".join(f"+{number:3} line" for number in range(1, 101))
    details = PermissionDetails("c1", "write", {}, (), ("/home/me/src/a",), "/home/me/src", None, "ask", diff)
    panel = panel_for(Select("1", "Allow write?", OPTIONS), details)
    first = text_of(panel, rows=14)
    assert len(first) == 14
    assert first[1:6] == ["  /home/me/src/a", "  in /home/me/src", "  sandbox: off", "  asked by ask", "  +  1 line"]
    assert "↓ 97 more" in first[8]
    press(panel, "pageDown")
    assert text_of(panel, rows=14)[1] == "  +  4 line"
    press(panel, *["pageDown"] * 50)
    assert text_of(panel, rows=14)[7] == "  +100 line"
    press(panel, *["pageUp"] * 50)
    assert text_of(panel, rows=14) == first


def test_an_option_that_is_too_long_for_a_row_wraps() -> None:
    assert text_of(permission(), width=30)[-6:] == [
        "  1 Allow once",
        "  2 Allow for this session:",
        "    edit of /home/me/src/a.py",
        "→ 3 Deny",
        "  4 Deny, and say why",
        "  ↑↓ Enter or a digit answers",
    ]


def test_arguments_that_are_neither_command_nor_path_are_shown() -> None:
    details = PermissionDetails(
        call_id="c1",
        tool="deploy",
        arguments={"target": "prod", "force": True, "steps": [1, 2]},
        commands=(),
        paths=(),
        cwd="/home/me",
        sandbox=None,
        asked_by="ask",
    )
    shown = text_of(panel_for(Select("1", "Allow deploy?", OPTIONS), details))
    assert shown[1:4] == ["  target: prod", "  force: true", "  steps: [1,2]"]


def test_what_is_left_out_of_a_long_text_is_said() -> None:
    diff = "\n".join(f"+{number:4} line" for number in range(1, 3001))
    long = PermissionDetails("c1", "write", {}, ("x" * 5000,), (), "/home/me", None, "ask", diff)
    panel = panel_for(Select("1", "Allow write?", OPTIONS), long)
    shown = "\n".join(text_of(panel, width=5000, rows=5000))
    assert "… 1000 more characters" in shown
    assert "… 1000 more lines" in shown
    assert "+2000 line" in shown


def test_changed_words_of_an_edit_are_marked() -> None:
    details = PermissionDetails("c1", "edit", {}, (), ("/a",), "/home/me", None, "ask", "-1 red fox\n+1 red dog")
    view = panel_for(Select("1", "Allow edit?", OPTIONS), details).rows(60, 20, FOCUSED)
    marked = [span.text for row in view.lines for span in row if "inverse" in span.style]
    assert marked == ["fox", "dog"]


def test_nothing_of_a_call_reaches_the_screen_as_a_control() -> None:
    evil = "rm \x1b[2J\x9b1A\u202e x\x07"
    details = PermissionDetails("c", "ba\x1bsh", {evil: evil}, (evil,), (evil,), evil, "s", evil, f"+ {evil}")
    panel = panel_for(Select("1", evil, [evil, evil, evil]), details)
    for row in panel.rows(80, 40, Status()).lines:
        assert plain_text(row).isprintable()
    assert any("\\x1b[2J" in text for text in text_of(panel))


DIALOGS: list[tuple[Dialog, list[str], Answer]] = [
    (Select("1", "Which?", ["a", "b", "c"]), ["enter"], Answer("a")),
    (Select("1", "Which?", ["a", "b", "c"]), ["down", "enter"], Answer("b")),
    (Select("1", "Which?", ["a", "b", "c"]), ["3"], Answer("c")),
    (Select("1", "Which?", ["a", "b", "c"]), ["escape"], Answer(None)),
    (Confirm("1", "Sure?", "Really?"), ["enter"], Answer(False)),
    (Confirm("1", "Sure?", "Really?"), ["up", "enter"], Answer(True)),
    (Confirm("1", "Sure?", "Really?"), ["1"], Answer(True)),
    (Confirm("1", "Sure?", "Really?"), ["escape"], Answer(None)),
    (Input("1", "Name?", "Ann"), ["B", "o", "b", "enter"], Answer("Bob")),
    (Input("1", "Name?", "Ann"), ["enter"], Answer("")),
    (Input("1", "Name?"), ["x", "escape"], Answer(None)),
    (Editor("1", "Text", "a\nb"), ["c", "shift+enter", "d", "enter"], Answer("a\nbc\nd")),
    (Editor("1", "Text"), ["escape"], Answer(None)),
]


@pytest.mark.parametrize(("dialog", "keys", "answer"), DIALOGS)
def test_keys_answer_the_dialogs_of_extensions(dialog: Dialog, keys: list[str], answer: Answer) -> None:
    assert press(panel_for(dialog), *keys) == answer


def test_a_select_dialog_with_many_options_scrolls_to_the_chosen_one() -> None:
    panel = panel_for(Select("1", "Which?\n\nPick one of them.", [f"option {number}" for number in range(1, 101)]))
    press(panel, "up")
    shown = text_of(panel, rows=12)
    assert len(shown) == 12
    assert any("→   option 100" in row for row in shown)
    assert press(panel, "enter") == Answer("option 100")


def test_the_cursor_is_at_the_text_of_an_input_dialog() -> None:
    panel = panel_for(Input("1", "Name?", "Ann"))
    assert panel.rows(40, 10, Status()).cursor == (1, 2)
    assert text_of(panel)[1] == "> Ann"
    press(panel, "x", "y", "left")
    view = panel.rows(40, 10, Status())
    assert plain_text(view.lines[1]) == "> xy"
    assert view.cursor == (1, 3)
    assert panel.rows(40, 10, Status(focused=False)).cursor is None


@pytest.mark.parametrize("dialog", [dialog for dialog, _, _ in DIALOGS] + [Select("1", "x", OPTIONS)])
@pytest.mark.parametrize("width", [1, 2, 5, 20, 79])
@pytest.mark.parametrize("rows", [1, 2, 3, 6, 24])
def test_a_panel_fits_into_any_space(dialog: Dialog, width: int, rows: int) -> None:
    panel = panel_for(dialog, DETAILS if len(getattr(dialog, "options", ())) == 3 else None)
    view = panel.rows(width, rows, Status(position="1 of 3", seconds_left=3))
    assert len(view.lines) <= rows
    assert all(line_width(row) <= width for row in view.lines)

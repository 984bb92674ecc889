"""The menu of settings, without a terminal."""

from __future__ import annotations

import pytest

from tau.records.base import to_builtins
from tau.records.setting_declarations import setting_declarations
from tau.records.settings import Settings
from tau.screen.input_events import Key
from tau.screen.lines import Line
from tau.screen.modals import Outcome
from tau.screen.modals.search_list import ListRow
from tau.screen.modals.settings_list import SettingsList
from tau.screen.modals.text_field import TextField

pytestmark = pytest.mark.unit
BY_PLACE = {one.place: one for one in setting_declarations()}


def text(lines: tuple[Line, ...]) -> list[str]:
    return ["".join(span.text for span in line) for line in lines]


def make(changed: list[int]) -> SettingsList:
    rows = [ListRow("theme", "dark"), ListRow("hideThinkingBlock", "off"), ListRow("retry.enabled", "on")]

    def change(at: int) -> Outcome | None:
        changed.append(at)
        return None

    return SettingsList("Settings", rows, ["The theme.", "Thinking. " * 80, "Retry."], change, lambda: "Project")


def test_every_declared_setting_has_a_sentence_and_its_default_is_one_of_its_values() -> None:
    content = to_builtins(Settings())
    for declaration in BY_PLACE.values():
        assert declaration.about, declaration.place
        value = declaration.value_in(content)
        if declaration.kind == "choice":
            assert value in declaration.choices
        assert declaration.parse(declaration.text_of(value)) == value


def test_the_kind_of_a_setting_is_that_of_its_declaration() -> None:
    assert BY_PLACE["hideThinkingBlock"].choices == (True, False)
    assert BY_PLACE["defaultThinkingLevel"].choices[:3] == (None, "off", "minimal")
    assert BY_PLACE["terminal.reflow"].choices == (True, False, "auto")
    assert BY_PLACE["doubleEscapeAction"].choices == ("tree", "fork", "none")
    assert [BY_PLACE[name].kind for name in ("retry.maxRetries", "theme", "skills")] == ["number", "text", "list"]
    assert BY_PLACE["thinkingBudgets"].kind == BY_PLACE["packages"].kind == "json"


@pytest.mark.parametrize(
    ("place", "typed", "value"),
    [
        ("hideThinkingBlock", "yes", True),
        ("hideThinkingBlock", "OFF", False),
        ("defaultThinkingLevel", "not set", None),
        ("retry.maxRetries", "7", 7),
        ("thinkingBudgets", '{"low": 2048}', {"low": 2048}),
        ("packages", '["a", {"source": "b"}]', ["a", {"source": "b"}]),
        ("skills", "a, b ,", ["a", "b"]),
        ("theme", "light/dark", "light/dark"),
    ],
)
def test_a_typed_value_is_parsed(place: str, typed: str, value: object) -> None:
    assert BY_PLACE[place].parse(typed) == value


@pytest.mark.parametrize(
    ("place", "typed"), [("retry.maxRetries", "-1"), ("doubleEscapeAction", "jump"), ("packages", "a, b")]
)
def test_a_value_of_another_kind_is_refused(place: str, typed: str) -> None:
    with pytest.raises(ValueError, match=place):
        BY_PLACE[place].parse(typed)


def test_choices_follow_one_another_in_a_circle() -> None:
    declaration = BY_PLACE["doubleEscapeAction"]
    assert [declaration.next_choice(value) for value in ("tree", "fork", "none")] == ["fork", "none", "tree"]


def test_enter_and_space_change_the_chosen_row_and_tab_switches_the_scope() -> None:
    changed: list[int] = []
    menu = make(changed)
    menu.key(Key("enter"), ["tui.select.confirm"])
    menu.key(Key("down"), ["tui.select.down"])
    menu.key(Key("space", " "), [])
    assert changed == [0, 1]
    menu.key(Key("tab"), ["tui.input.tab"])
    assert "Project" in text(menu.rows(60, 14).lines)[0]


def test_typing_searches_and_the_sentences_of_the_chosen_row_are_shown() -> None:
    menu = make([])
    for letter in "retry":
        menu.key(Key(letter, letter), [])
    shown = text(menu.rows(60, 14).lines)
    assert "→ retry.enabled  on" in shown and "  Retry." in shown


@pytest.mark.parametrize(("width", "rows"), [(79, 14), (39, 9), (39, 5), (10, 3)])
def test_the_menu_fits_every_screen(width: int, rows: int) -> None:
    menu = make([])
    menu.key(Key("down"), ["tui.select.down"])
    shown = menu.rows(width, rows)
    assert len(shown.lines) <= rows
    assert all(len(line) <= width for line in text(shown.lines))
    assert "Enter" in text(shown.lines)[-1]


def test_a_hidden_field_shows_dots_and_gives_the_text() -> None:
    field = TextField("API key", "Stored in auth.json.", hidden=True)
    field.paste("sk-secret\n")
    field.key(Key("x", "x"), [])
    shown = text(field.rows(60, 10).lines)
    assert (
        not any("secret" in line for line in shown) and "> " + "•" * 10 in shown and "  Stored in auth.json." in shown
    )
    assert field.key(Key("enter"), ["tui.input.submit"]) == Outcome("confirm", "sk-secretx")

"""The list of models to cycle through."""

from __future__ import annotations

from tau.records.models import Model
from tau.screen.bindings import Bindings
from tau.screen.input_events import Key
from tau.screen.modals import Outcome
from tau.screen.modals.scoped_models import Scope, ScopedModels

NAMES = ("lab/a", "lab/b", "other/c")


def test_disabling_one_of_all_leaves_the_others() -> None:
    assert Scope(NAMES).toggle({"lab/b"}) == Scope(NAMES, ("lab/a", "other/c"))


def test_enabling_the_last_one_means_all() -> None:
    assert Scope(NAMES, ("other/c", "lab/a")).toggle({"lab/b"}) == Scope(NAMES)


def test_models_move_within_the_scope_only() -> None:
    scope = Scope(NAMES, ("lab/a", "lab/b"))
    assert scope.move("lab/b", -1).enabled == ("lab/b", "lab/a")
    assert scope.move("lab/b", 1) == scope.move("other/c", -1) == scope
    assert Scope(NAMES).move("lab/a", 1) == Scope(NAMES)


class Shown:
    def __init__(self, *enabled: str) -> None:
        models = [Model(name.partition("/")[2], name, "x", name.partition("/")[0], "") for name in NAMES]
        self.scopes: list[tuple[str, ...] | None] = []
        self.modal = ScopedModels(
            models, enabled or None, lambda scope: self.scopes.append(scope.enabled), lambda saved: saved()
        )

    def press(self, *keys: str) -> Outcome | None:
        outcome = None
        for key in keys:
            pressed = Key(key, key if len(key) == 1 else "")
            outcome = self.modal.key(pressed, Bindings().actions(pressed))
        return outcome

    def text(self) -> str:
        return "\n".join("".join(span.text for span in line) for line in self.modal.rows(80, 12).lines)


def test_enter_switches_and_the_cursor_stays_where_it_is() -> None:
    shown = Shown()
    assert shown.press("down", "enter", "enter") is None
    assert shown.scopes == [("lab/a", "other/c"), ("lab/a",)]
    assert "1 of 3, not saved" in shown.text()


def test_ctrl_a_and_ctrl_x_change_what_the_query_matches() -> None:
    shown = Shown("other/c")
    shown.press(*"lab", "ctrl+a")
    assert shown.scopes[-1] is None
    shown.press("ctrl+x")
    assert shown.scopes[-1] == ("other/c",)


def test_ctrl_p_switches_the_models_of_the_provider() -> None:
    shown = Shown("other/c")
    shown.press("down", "ctrl+p")
    assert shown.scopes[-1] is None
    shown.press("up", "ctrl+p")
    assert shown.scopes[-1] == ("other/c",)


def test_alt_up_moves_a_model_and_the_cursor_with_it() -> None:
    shown = Shown("lab/a", "lab/b")
    shown.press("down", "alt+up", "alt+down")
    assert shown.scopes == [("lab/b", "lab/a"), ("lab/a", "lab/b")]


def test_ctrl_s_saves_and_the_list_stays_open() -> None:
    shown = Shown()
    shown.press("enter")
    assert "not saved" in shown.text()
    assert shown.press("ctrl+s") is None
    assert "not saved" not in shown.text()

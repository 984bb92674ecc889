"""The rows of the model picker."""

from __future__ import annotations

from tau.records.models import Model, Price
from tau.screen.modals.model_list import ModelChoice, price_text


def model(id: str, provider: str = "lab", **more: object) -> Model:
    return Model(id, more.pop("name", id), "openai-completions", provider, "https://lab", **more)  # type: ignore[arg-type]


ONE, TWO, THREE = model("one"), model("two", name="The Second"), model("three", "other")


def test_scoped_models_come_first_in_their_own_order() -> None:
    choice = ModelChoice([ONE, TWO, THREE], [THREE, TWO], TWO, ("lab", "one"))
    assert [row.label for row in choice.rows()] == ["other/three", "lab/two", "lab/one"]
    assert [row.mark for row in choice.rows()] == ["", "✓", ""]
    assert [("scoped" in row.detail, "default" in row.detail) for row in choice.rows()] == [
        (True, False),
        (True, False),
        (False, True),
    ]


def test_models_fit_that_contain_every_word_of_name_or_id() -> None:
    choice = ModelChoice([ONE, TWO, THREE])
    assert choice.fitting("second LAB") == [TWO]
    assert choice.fitting("lab") == [ONE, TWO]
    assert choice.fitting("zork") == []


def test_a_price_is_shown_in_dollars_or_as_a_word() -> None:
    assert price_text(model("x", cost=Price(3, 15))) == "$3 in, $15 out"
    assert price_text(model("x")) == "price unknown"
    assert price_text(model("x:free")) == "free"

from __future__ import annotations

import pytest

from tau.wire.position import line_of

TEXT = """{
  "providers": {
    "lab": {
      "models": [
        {"id": "a"},
        {
          "id": "b",
          "cost": {"input": [1, "}"],
            "output": 2}
        }
      ], "x.y": {
        "z": 1
      }, "x": {"y":
         {"w": 1}}
    }
  }
}
"""


@pytest.mark.parametrize(
    ("place", "line"),
    [
        ("", 1),
        ("providers", 2),
        ("providers.lab", 3),
        ("providers.lab.models", 4),
        ("providers.lab.models[0]", 5),
        ("providers.lab.models[0].id", 5),
        ("providers.lab.models[1]", 6),
        ("providers.lab.models[1].cost.input", 8),
        ("providers.lab.models[1].cost.input[1]", 8),
        ("providers.lab.models[1].cost.output", 9),
        ("providers.lab.x.y.z", 12),
        ("providers.lab.x", 13),
        # As far as there is a way.
        ("providers.lab.models[1].missing", 6),
        ("providers.lab.models[9].id", 4),
        ("providers.zork.models", 2),
        ("zork", 1),
    ],
)
def test_a_place_has_a_line(place: str, line: int) -> None:
    assert line_of(TEXT, place) == line


@pytest.mark.parametrize("text", ["5", "[]", "{}", ' "x"', '{"a" : [ ] , "b":{} }'])
def test_a_place_that_is_not_there_is_at_the_top(text: str) -> None:
    assert line_of(text, "b[0].c") == 1

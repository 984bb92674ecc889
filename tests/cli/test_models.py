from __future__ import annotations

from tau.cli.models import table
from tau.records.models import Model, Price


def test_models_are_a_table_for_people() -> None:
    models = [
        Model("m", "M", "a", "lab", "", True, ["text", "image"], Price(1.25, 10), 1048576, 65536),
        Model("a-longer-one", "A", "a", "lab", "", context_window=131072, max_tokens=512),
        Model("x", "X", "a", "another-lab", "", cost=Price(0.075, 0.3), context_window=1000000, max_tokens=32000),
    ]
    assert table(models) == [
        "provider     model         context  output  thinking  images   $ in  $ out",
        "lab          m               1.05M     66K  yes       yes      1.25     10",
        "lab          a-longer-one     131K     512  no        no",
        "another-lab  x                  1M     32K  no        no      0.075    0.3",
    ]

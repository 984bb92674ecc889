"""Starting fast is a feature: nothing is loaded at these moments that is not meant to be."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.loaded_modules import MOMENTS, by_origin, differences, loaded

ADVICE = (
    "If it has to be loaded then, write it down with `PYTHONPATH=tests python -m support.loaded_modules --write`;"
    " if not, import it in the function that needs it (docs/style.md, Imports; docs/performance.md says what it costs)."
)


@pytest.mark.parametrize("moment", MOMENTS)
def test_nothing_is_loaded_that_is_not_meant_to_be(moment: str, tmp_path: Path) -> None:
    new, gone = differences(moment, loaded(moment, tmp_path))
    assert not new, f"{moment} now loads {', '.join(new)}. {ADVICE}"
    assert not gone, (
        f"{moment} no longer loads {', '.join(gone)}."
        " Write that down, so that it stays so: `PYTHONPATH=tests python -m support.loaded_modules --write`"
    )


def test_modules_are_distinguished_by_where_they_come_from() -> None:
    assert by_origin(["tau.errors", "msgspec", "msgspec._core", "json.decoder", "_json", "tau"]) == {
        "tau": ["tau", "tau.errors"],
        "libraries": ["msgspec"],
        "python": ["_json", "json.decoder"],
    }

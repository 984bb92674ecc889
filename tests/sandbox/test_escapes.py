"""X01 to X11: commands in a sandbox try to get out of it, at both levels, and without one to see that they would."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.sandbox_escapes import ESCAPES, LEVELS, Place, missing, place


@pytest.fixture(scope="module", params=LEVELS)
def confined(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    if why := missing(request.param):
        pytest.skip(why)
    with place(tmp_path_factory.mktemp(request.param), request.param) as made:
        yield made


@pytest.mark.xdist_group("escapes")  # an agent in a sandbox is started once for each level
@pytest.mark.promise("X01", "X02", "X03", "X04", "X05", "X06", "X07", "X08", "X09", "X10", "X11", "S07")
@pytest.mark.parametrize("row", ESCAPES)
def test_a_command_does_not_get_out(confined: Place, row: str) -> None:
    assert ESCAPES[row](confined) == []


@pytest.mark.parametrize("row", [row for row in ESCAPES if row != "X08"])
def test_without_a_sandbox_it_would(tmp_path: Path, row: str) -> None:
    if why := missing("workspace"):
        pytest.skip(why)
    with place(tmp_path, None) as free:
        assert ESCAPES[row](free) != []

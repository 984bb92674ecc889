"""For the tests of `grep`, `find` and what they share."""

from __future__ import annotations

import pytest

from support.search_kit import BACK_ENDS, back_end


@pytest.fixture(params=BACK_ENDS)
def rg(request: pytest.FixtureRequest) -> str | None:
    """Everything holds with ripgrep and without it."""
    return back_end(request.param)

"""Other tests in this process may have left a child: it is not ours to look for."""

from __future__ import annotations

import pytest

from support import library_agent as embedded


@pytest.fixture(autouse=True)
def _others() -> None:
    embedded.OTHERS.clear()
    embedded.OTHERS.update(embedded.children())

"""Which tests of this folder run in the test process, see support/rpc_agent.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support import rpc_agent


@pytest.fixture(autouse=True)
def transport(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """In memory, unless the test is marked with `process` or `promise`: each promise is kept by a real process."""
    different: dict[str, str] = getattr(rpc_agent.IN_MEMORY, "DIFFERENT", {})
    if request.node.originalname in different:
        pytest.skip(different[request.node.originalname])
    marks = {mark.name for mark in request.node.iter_markers()}
    monkeypatch.setattr(rpc_agent, "in_memory", not marks & {"process", "promise"})
    monkeypatch.setenv("HOME", str(tmp_path / "home"))  # for `~`, which is not passed in
    yield

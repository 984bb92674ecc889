"""A connection survives mutated messages of a server; tests/long.fuzz_mcp.py does more of the same."""

from __future__ import annotations

import asyncio

import pytest

from long.fuzz_mcp import fuzz


@pytest.mark.promise("M12")
def test_mutated_messages_of_servers_do_no_harm() -> None:
    assert asyncio.run(fuzz(4000, seed=7)) > 100

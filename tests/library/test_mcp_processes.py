"""MCP servers of the library: when the last agent that uses one is closed, no process is left."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest

from support.library_agent import calls, children_left, opened, play, says
from support.mcp_server import server_entry


@pytest.mark.parametrize("with_bash", [False, True], ids=["server alone", "server and command"])
def test_closing_an_agent_ends_the_supervisor_of_its_servers(tmp_path: Path, with_bash: bool) -> None:
    async def story() -> list[str]:
        script = [calls("mcp__lab__echo", text="a"), says("ok")]
        async with opened(tmp_path, *script, mcp_servers={"lab": server_entry(tools=["echo"])}) as agent:
            if with_bash:
                await agent.bash("true")
            assert (await agent.prompt("go")).text == "ok"
        return children_left()  # before a garbage collection, which would end it as well

    gc.disable()
    try:
        assert play(story()) == []
    finally:
        gc.enable()


def test_a_server_that_two_agents_share_lives_as_long_as_the_second(tmp_path: Path) -> None:
    servers: dict[str, Any] = {"lab": server_entry(tools=["echo"])}

    async def story() -> tuple[str, list[str]]:
        first = await opened(tmp_path, calls("mcp__lab__echo", text="a"), says("one"), mcp_servers=servers)
        async with opened(tmp_path, calls("mcp__lab__echo", text="b"), says("two"), mcp_servers=servers) as second:
            await first.prompt("go")
            await first.close()
            text = (await second.prompt("go")).text
        return text, children_left()

    assert play(story()) == ("two", [])

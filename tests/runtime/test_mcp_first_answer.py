"""How long the first model call waits for servers that nobody has listed yet, and how late tools are found."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from support.mcp_memory import MemoryEnvironment, configured, greeting, tool
from support.mcp_server import server_entry
from support.mcp_session import script
from support.rpc_process import Agent, of
from support.virtual_clock import leapt
from tau.mcp.config import Source
from tau.records.base import replace
from tau.records.events import McpServerUpdate, Outcome
from tau.records.messages import Text
from tau.runtime.mcp.server import McpServer
from tau.runtime.mcp.session_servers import SessionServers
from tau.tools import ToolContext


class Port:
    """Implements SessionPort."""

    machine: Any = None
    dialogs = None

    def __init__(self, *, is_single_run: bool = False) -> None:
        self.is_single_run = is_single_run
        self.section = ""

    def emit(self, event: McpServerUpdate) -> None:
        return

    def loaded_tools(self) -> list[str]:
        return []

    async def save_loaded(self, names: Any) -> None:
        return

    def set_prompt_section(self, text: str) -> None:
        self.section = text

    def revoke_permission(self, tool: str) -> None:
        return

    def context_window(self) -> int:
        return 200_000


def add(servers: SessionServers, name: str, ready_at: float, *, given: bool = False, **fields: Any) -> None:
    """A server that is ready at this time of the loop, from mcp.json or given by the calling program."""

    class Slow(MemoryEnvironment):
        async def prepare(self, config: Any) -> None:
            await asyncio.sleep(ready_at)

        def changed(self, server: McpServer) -> None:
            servers.changed(server)

    def answer(method: str, params: Mapping[str, Any]) -> Any:
        return greeting(method) or {"tools": [tool(f"look_{name}")]}

    config = configured(name, startup_timeout=90, **fields)
    if given:
        config = replace(config, source=Source("mcp_servers", "given"))
    servers.add([McpServer(config, Slow(answer), None)])


@pytest.mark.parametrize(
    ("fields", "is_single_run", "seconds"),
    [
        ({}, False, 1),
        ({"exposure": "direct"}, False, 5),
        ({"tool_exposure": (("look_*", "direct"),)}, False, 5),
        ({"exposure": "deferred"}, False, 0),
        ({}, True, 5),
        ({"exposure": "deferred"}, True, 0),
    ],
)
def test_the_first_model_call_waits_as_long_as_tools_must_be_there(
    fields: dict[str, Any], is_single_run: bool, seconds: float
) -> None:
    async def waited() -> float:
        servers = SessionServers(Port(is_single_run=is_single_run))
        for at in range(10):
            add(servers, f"s{at}", 60, **fields)
        return await first_call(servers)

    assert leapt(waited()) == seconds


def test_servers_of_the_calling_program_or_editor_are_waited_for() -> None:
    async def waited(ready_at: float) -> float:
        servers = SessionServers(Port())
        add(servers, "s", ready_at, given=True)
        add(servers, "auto", 60)
        return await first_call(servers)

    assert leapt(waited(60)) == 5
    assert leapt(waited(3)) == 3


async def first_call(servers: SessionServers) -> float:
    loop = asyncio.get_running_loop()
    servers.prompt_accepted()
    began = loop.time()
    await servers.before_model_call()
    waited = loop.time() - began
    await servers.before_model_call()
    assert loop.time() - began == waited  # later calls do not wait
    await servers.close()
    return waited


def test_a_late_server_is_named_and_its_tools_are_found_by_a_search() -> None:
    async def searched() -> None:
        port, context = Port(), cast(ToolContext, None)  # a search needs none
        servers = SessionServers(port)
        add(servers, "early", 0.5)
        add(servers, "late", 3)
        add(servers, "hidden", 3, exposure="hidden")
        servers.prompt_accepted()
        await servers.before_model_call()
        assert list(servers.offered) == ["mcp__early__look_early", "tool_search"]
        assert port.section.endswith("Servers and their number of tools: late (it is starting)")
        found = await servers.offered["tool_search"].run({"query": "look"}, context)
        assert found == Outcome([Text("These tools can be called from now on:\n- mcp__late__look_late: d")])
        assert list(servers.offered) == ["mcp__early__look_early", "mcp__late__look_late", "tool_search"]
        servers.prompt_accepted()
        assert "it is starting" not in port.section
        await servers.close()

    leapt(searched())


@pytest.mark.parametrize("searches", [True, False])
def test_a_tool_of_a_late_server_can_be_called_in_the_first_run(tmp_path: Path, searches: bool) -> None:
    (tmp_path / "agent").mkdir()
    entry = server_entry(startSeconds=2)
    (tmp_path / "agent" / "mcp.json").write_text(json.dumps({"mcpServers": {"s": entry}}))
    search = [("tool_search", {"query": "select:mcp__s__echo"})] if searches else []
    with Agent(tmp_path, *script(*search, ("mcp__s__echo", {"text": "hi"}))) as agent:
        ends = of("tool_execution_end", agent.prompt("go"))
    texts = [end["result"]["content"][0]["text"] for end in ends]
    assert texts[-1] == "hi"
    assert not searches or "mcp__s__echo" in texts[0]

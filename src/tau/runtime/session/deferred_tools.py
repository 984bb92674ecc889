"""Tool search over the deferred tools of clients, and over those of MCP servers if there are any."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from tau.mcp.search import SearchableTool
from tau.records.base import replace
from tau.runtime.mcp.tools import search_tool
from tau.tools import Tool

if TYPE_CHECKING:
    from tau.runtime.session.mcp_access import McpAccess


class DeferredTools:
    """`tools` are the deferred tools of clients, `load` offers one of them to the model."""

    def __init__(
        self, tools: Callable[[], Mapping[str, Tool]], load: Callable[[str], None], mcp: McpAccess | None
    ) -> None:
        self._tools = tools
        self._load = load
        self._mcp = mcp

    async def settle(self) -> None:
        if self._mcp is not None:
            await self._mcp.settle()

    def deferred(self) -> list[SearchableTool]:
        servers = None if self._mcp is None else self._mcp.loaded
        own = [SearchableTool(name, tool.description, "", tool.parameters) for name, tool in self._tools().items()]
        return own if servers is None else [*own, *servers.deferred()]

    async def load(self, names: list[str]) -> None:
        own = self._tools()
        for name in names:
            if name in own:
                self._load(name)
        if self._mcp is not None and (others := [name for name in names if name not in own]):
            await (await self._mcp.servers()).load(others)

    def search_tool(self) -> Tool:
        return replace(
            search_tool(self),
            description=(
                "Search for further tools, by words about what they do. The tools that are found can be called "
                "afterwards. `select:name,name` loads tools by their exact names."
            ),
            snippet="Search for further tools",
        )

"""Tools of servers for the model: calls, tool search, and resources."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import Any, Protocol

from tau.core.checks.schema import without_patterns
from tau.errors import ToolError
from tau.mcp.definitions import ToolDefinition, safe_text, shown, shown_address
from tau.mcp.exposure import OfferedTool
from tau.mcp.messages import McpError, progress_text
from tau.mcp.results import CallResult, Part, TextPart, content_parts, parse_call_result
from tau.mcp.search import MAX_RESULTS, SearchableTool, find_tools
from tau.records.base import encode, replace
from tau.records.events import Outcome
from tau.records.messages import Text
from tau.runtime.mcp.connection import Asker, RequestOptions
from tau.runtime.mcp.outcomes import ResultWriter, progress_outcome
from tau.runtime.mcp.server import McpServer
from tau.tools import Tool, ToolContext

PROGRESS_INTERVAL_S = 0.25
MAX_LISTED_CHARACTERS = 50 * 1024  # of resources in one result
LIST_TIMEOUT_S = 60.0
SEARCH_NAME = "tool_search"
STARTED_AGAIN = "[The MCP server {} did not answer any more and was started again: what it held in memory is lost.]"
RESOURCE_NAMES = ("list_mcp_resources", "list_mcp_resource_templates", "read_mcp_resource")


class Searchable(Protocol):
    """Tools that the model has to search for."""

    async def settle(self) -> None:
        """Wait for servers that are starting, but not for long."""

    def deferred(self) -> list[SearchableTool]:
        """The tools that can be searched for."""

    async def load(self, names: list[str]) -> None:
        """Offer these deferred tools from the next model call on."""


class Servers(Searchable, Protocol):
    """The servers of a session, as their tools see them."""

    def asker(self, server: str) -> Asker | None:
        """What answers questions of a server during a call; None if no user can be asked."""

    def server(self, name: str) -> McpServer:
        """Raises ToolError for a name that is not configured."""

    def with_resources(self) -> list[McpServer]: ...

    async def used(self, name: str) -> None:
        """A tool is called: if it was deferred, it is offered from now on."""


def server_tool(servers: Servers, server: McpServer, offered: OfferedTool) -> Tool:
    """A tool of a server. Arguments are checked before the call, unless the schema cannot be read."""
    definition = offered.definition

    async def run(arguments: dict[str, Any], context: ToolContext) -> Outcome:
        await servers.used(offered.name)
        result = await call_tool(servers, server, offered, arguments, context)
        writer = ResultWriter(context.machine, resize=context.resize)
        return await writer.outcome(result)

    return Tool(
        name=offered.name,
        description=definition.description or definition.title or f"Tool {shown(definition.name)} of {server.name}.",
        snippet="",
        parameters=definition.input_schema,
        run=run,
        schema_for=lambda arguments: checked_schema(definition),
        converts=True,
    )


def checked_schema(definition: ToolDefinition) -> dict[str, Any]:
    """What arguments are checked against. The server checks patterns itself."""
    schema: dict[str, Any] = {} if definition.unchecked else without_patterns(definition.input_schema)
    return schema


async def call_tool(
    servers: Servers, server: McpServer, offered: OfferedTool, arguments: dict[str, Any], context: ToolContext
) -> CallResult:
    """Call a tool once. Raises ToolError."""
    definition, config = offered.definition, server.config
    options = RequestOptions(
        config.timeout,
        config.max_timeout,
        _ProgressLimit(lambda text: context.progress(progress_outcome(text))).received,
        servers.asker(server.name),
        definition.input_schema,
    )
    try:
        await server.start()
        listing = server.listing
        if listing is not None and all(tool.name != definition.name for tool in listing.tools):
            raise ToolError(f"The MCP server {server.name} no longer has a tool {shown(definition.name)}.")
        params = {"name": definition.name, "arguments": arguments}
        result = await server.call("tools/call", params, options)
    except McpError as error:
        raise ToolError(_with_server(server.name, error)) from None
    parsed = parse_call_result(result, server.name, definition.name, definition.output_schema)
    if server.was_ended:
        server.was_ended = False
        parsed = replace(parsed, parts=[TextPart(STARTED_AGAIN.format(server.name)), *parsed.parts])
    return parsed


def _with_server(server: str, error: McpError) -> str:
    text = str(error)
    return text if error.code is not None or server in text else f"The MCP server {server}: {text}"


class _ProgressLimit:
    """Passes on at most one progress text per PROGRESS_INTERVAL_S."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._last = float("-inf")

    def received(self, params: Mapping[str, Any]) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._last >= PROGRESS_INTERVAL_S:
            self._last = now
            self._report(progress_text(params))


# Tool search.


def search_tool(tools: Searchable) -> Tool:
    async def run(arguments: dict[str, Any], context: ToolContext) -> Outcome:
        await tools.settle()
        found = find_tools(arguments["query"], tools.deferred(), int(arguments.get("limit") or 5))
        if not found:
            return Outcome([Text("No tool fits. Try other words.")])
        await tools.load([tool.name for tool in found])
        lines = [f"- {tool.name}: {tool.description.strip().partition(chr(10))[0][:200]}" for tool in found]
        return Outcome([Text("\n".join(["These tools can be called from now on:", *lines]))])

    return Tool(
        name=SEARCH_NAME,
        description=(
            "Search for further tools of MCP servers, by words about what they do. The tools that are found can be "
            "called afterwards. `select:name,name` loads tools by their exact names."
        ),
        snippet="Search for further tools of MCP servers",
        parameters={
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "words to search for, or select:name,name"},
                "limit": {"type": "integer", "minimum": 1, "maximum": MAX_RESULTS, "description": "results (5)"},
            },
            "required": ["query"],
        },
        run=run,
    )


# Resources.


def resource_tools(servers: Servers) -> list[Tool]:
    """The tools for resources, if a server has some."""
    server = {"type": "string", "description": "name of the MCP server"}
    cursor = {"type": "string", "description": "cursor of the next page, from the previous result"}

    async def list_resources(arguments: dict[str, Any], context: ToolContext) -> Outcome:
        return await _list(servers, arguments, "resources/list", "resources", "uri")

    async def list_templates(arguments: dict[str, Any], context: ToolContext) -> Outcome:
        return await _list(servers, arguments, "resources/templates/list", "resourceTemplates", "uriTemplate")

    async def read(arguments: dict[str, Any], context: ToolContext) -> Outcome:
        parts = await read_resource(_resource_server(servers, arguments["server"]), arguments["uri"])
        blocks, file = await ResultWriter(context.machine, resize=context.resize).blocks(parts)
        details = {"server": arguments["server"], "uri": arguments["uri"], **({"file": file} if file else {})}
        return Outcome(blocks or [Text("(empty)")], {"mcp": details})

    listing = {"type": "object", "properties": {"server": server, "cursor": cursor}}
    one = {"server": server, "uri": {"type": "string", "description": "address of the resource"}}
    reading = {"type": "object", "properties": one, "required": ["server", "uri"]}
    texts = (
        "List resources (data) that MCP servers offer: of all servers, or of one.",
        "List address templates of resources that MCP servers offer.",
        "Read a resource of an MCP server by its address.",
    )
    runs = (list_resources, list_templates, read)
    schemas = (listing, listing, reading)
    return [
        Tool(name=name, description=text, snippet=text, parameters=schema, run=run)
        for name, text, schema, run in zip(RESOURCE_NAMES, texts, schemas, runs, strict=True)
    ]


async def _list(servers: Servers, arguments: dict[str, Any], method: str, member: str, address: str) -> Outcome:
    named, cursor = arguments.get("server"), arguments.get("cursor")
    if cursor and not named:
        raise ToolError("A cursor needs the server that it belongs to.")
    asked = [_resource_server(servers, named)] if named else servers.with_resources()
    lines: list[str] = []
    cursors: list[str] = []
    for server in asked:
        try:
            page = await server.read(method, {"cursor": cursor} if cursor else {}, LIST_TIMEOUT_S)
        except McpError as error:
            if named:
                raise ToolError(_with_server(server.name, error)) from None
            lines.append(f"{server.name}: {error}")
            continue
        items = page.get(member) if isinstance(page, Mapping) else None
        lines += [_resource_line(server.name, item, address) for item in (items if isinstance(items, list) else [])]
        following = page.get("nextCursor") if isinstance(page, Mapping) else None
        if isinstance(following, str) and following:
            cursors.append(f"{server.name}: there are more; cursor {encode(following).decode()}")
    lines = [line for line in lines if line]
    ends = accumulate(len(line) + 1 for line in lines)
    fitting = sum(end <= MAX_LISTED_CHARACTERS for end in ends)
    if fitting < len(lines):
        lines = [*lines[:fitting], f"[{len(lines) - fitting} more were left out]"]
    return Outcome([Text("\n".join([*lines, *cursors]) or "There are none.")])


def _resource_server(servers: Servers, name: str) -> McpServer:
    """A server that may have resources. Others are not asked: a question about resources did not name them."""
    server = servers.server(name)
    if server.listing is not None and not server.listing.resources:
        raise ToolError(f"The MCP server {server.name} has no resources.")
    return server


def _resource_line(server: str, item: Any, address: str) -> str:
    uri = item.get(address) if isinstance(item, Mapping) else None
    if not isinstance(uri, str) or uri.startswith("ui://"):
        return ""
    name, about = (safe_text(item.get(field), 200) for field in ("name", "description"))
    return f"{server}: {shown_address(uri)}" + (f" ({name})" if name else "") + (f": {about}" if about else "")


async def read_resource(server: McpServer, uri: str) -> list[Part]:
    """The contents of a resource. Raises ToolError."""
    try:
        result = await server.read("resources/read", {"uri": uri}, server.config.timeout)
    except McpError as error:
        raise ToolError(_with_server(server.name, error)) from None
    contents = result.get("contents") if isinstance(result, Mapping) else None
    items = [{"type": "resource", "resource": item} for item in (contents if isinstance(contents, list) else [])]
    return content_parts(items) or [TextPart("(empty)")]

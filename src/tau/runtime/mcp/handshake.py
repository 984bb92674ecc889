"""Connect to a server: find out its era, greet it, and fetch its lists."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from tau.concurrency.threads import run_in_thread
from tau.mcp.definitions import Era, Listing, parse_prompts, parse_tools
from tau.mcp.messages import (
    MODERN_ERRORS,
    ClientProfile,
    McpError,
    ServerProfile,
    initialize_params,
    parse_discovered,
    parse_initialized,
)
from tau.records.base import encode
from tau.runtime.mcp.connection import Connection, RequestOptions
from tau.runtime.mcp.http import HttpTransport, SseTransport, legacy_version_header
from tau.runtime.mcp.stdio import StdioTransport

DISCOVER_TIMEOUT_S = 3.0
MAX_PAGES = 100
MAX_ENTRIES = 10_000
MAX_LIST_BYTES = 16 * 1024 * 1024  # of all pages together
MANY = 500  # entries of a list
MAX_TTL_MS = 365 * 86_400_000
NO_OLD_TRANSPORT = (400, 404, 405)  # answers to `initialize` after which the transport of 2024-11-05 is tried

# Makes a connection that is not started: over stdio or HTTP, or with the transport of 2024-11-05.
MakeConnection = Callable[[bool], Connection]


class Connected:
    def __init__(self, connection: Connection, profile: ServerProfile) -> None:
        self.connection = connection
        self.profile = profile


async def connect(make: MakeConnection, client: ClientProfile, known: Era | None, startup_s: float) -> Connected:
    """Connect. `known` is the era of an earlier connection. Raises McpError; then nothing is left running."""
    connection = make(False)
    try:
        await connection.start()
        if known == "legacy" or isinstance(connection.transport, SseTransport):
            return await _greet(connection, make, client, startup_s)
        if isinstance(connection.transport, HttpTransport):
            profile = await _discover_http(connection, startup_s)
        else:
            profile = await _discover_stdio(connection, client, startup_s)
        if profile is not None:
            return Connected(connection, profile)
        if connection.error is not None:  # some servers exit at an unknown request
            connection.kill()
            connection = make(False)
            await connection.start()
        return await _greet(connection, make, client, startup_s)
    except BaseException:
        connection.kill()
        raise


async def _discover_http(connection: Connection, startup_s: float) -> ServerProfile | None:
    """The profile of a modern server; None for a legacy one."""
    _set_era(connection, "modern")
    try:
        profile = parse_discovered(await connection.request("server/discover", {}, RequestOptions(startup_s)))
    except McpError as error:
        if error.login or error.code in MODERN_ERRORS:
            raise
        profile = None  # some legacy servers answer in strange ways; one that is not reachable fails again below
    if profile is None:
        _set_era(connection, "legacy")
    return profile


async def _discover_stdio(connection: Connection, client: ClientProfile, startup_s: float) -> ServerProfile | None:
    """The profile of a modern server, or of a legacy one that is slow to answer; None for another legacy one.

    A slow server may be of either era: after DISCOVER_TIMEOUT_S it is greeted too, and the first good answer counts.
    """
    connection.era = "modern"
    options = RequestOptions(startup_s, cancellable=False)
    discovering = asyncio.ensure_future(connection.request("server/discover", {}, options))
    greeting: asyncio.Future[Any] | None = None
    try:
        await asyncio.wait({discovering}, timeout=min(DISCOVER_TIMEOUT_S, startup_s))
        if not discovering.done():
            connection.era = "legacy"
            greeting = asyncio.ensure_future(connection.request("initialize", initialize_params(client), options))
            await asyncio.wait({discovering, greeting}, return_when=asyncio.FIRST_COMPLETED)
            if not discovering.done() and greeting.exception() is not None:
                await asyncio.wait({discovering}, timeout=startup_s)
        profile = _discovered(discovering)
        if profile is not None:
            connection.era = "modern"
            return profile
        connection.era = "legacy"
        return None if greeting is None else await _initialized(connection, await greeting)
    finally:
        for request in (discovering, greeting):
            if request is not None:
                request.cancel()
                request.add_done_callback(_retrieve)


def _discovered(answer: asyncio.Future[Any]) -> ServerProfile | None:
    """Raises McpError if a modern server refuses tau."""
    if not answer.done():
        return None
    error = answer.exception()
    if error is None:
        return parse_discovered(answer.result())
    if isinstance(error, McpError) and error.code not in MODERN_ERRORS:
        return None
    raise error


def _retrieve(request: asyncio.Future[Any]) -> None:
    if not request.cancelled():
        request.exception()


async def _greet(connection: Connection, make: MakeConnection, client: ClientProfile, startup_s: float) -> Connected:
    """The handshake of the legacy era; over HTTP also with the transport of 2024-11-05."""
    options = RequestOptions(startup_s, cancellable=False)
    try:
        result = await connection.request("initialize", initialize_params(client), options)
    except McpError as error:
        if not isinstance(connection.transport, HttpTransport) or error.status not in NO_OLD_TRANSPORT:
            raise
        await connection.close(0)
        connection = make(True)
        try:
            await connection.start()
            result = await connection.request("initialize", initialize_params(client), options)
        except BaseException:
            connection.kill()
            raise
    return Connected(connection, await _initialized(connection, result))


async def _initialized(connection: Connection, result: Any) -> ServerProfile:
    profile = parse_initialized(result)
    if isinstance(connection.transport, HttpTransport):
        connection.transport.version = legacy_version_header(profile.version)
    await connection.notify("notifications/initialized")
    if isinstance(connection.transport, HttpTransport):
        connection.transport.listen(profile.tells_changes("tools") or profile.tells_changes("prompts"))
    return profile


def _set_era(connection: Connection, era: Era) -> None:
    connection.era = era
    if isinstance(connection.transport, HttpTransport):
        connection.transport.modern = era == "modern"


async def fetch_listing(connected: Connected, timeout_s: float, now: float) -> Listing:
    """All lists of a server. Raises McpError."""
    connection, profile = connected.connection, connected.profile
    notes: list[str] = []
    ttl = 0

    async def listed(method: str, member: str) -> list[Any]:
        nonlocal ttl
        items, told, page_ttl = await fetch_pages(connection, method, member, timeout_s)
        notes.extend(told)
        ttl = max(ttl, page_ttl)
        return items

    items = await listed("tools/list", "tools") if profile.has("tools") else []
    # Very many definitions take seconds, in which nothing else would happen.
    read = parse_tools(items) if len(items) <= MANY else await run_in_thread(lambda: parse_tools(items), "mcp tools")
    tools, tool_notes = read
    prompts = parse_prompts(await listed("prompts/list", "prompts") if profile.has("prompts") else [])
    return Listing(
        era=profile.era,
        version=profile.version,
        server=profile.name,
        server_version=profile.server_version,
        instructions=profile.instructions,
        tools=tools,
        prompts=prompts,
        resources=profile.has("resources"),
        notes=(notes + tool_notes)[:100],
        listed_at=now,
        ttl_ms=ttl,
    )


async def fetch_pages(
    connection: Connection, method: str, member: str, timeout_s: float, params: Mapping[str, Any] | None = None
) -> tuple[list[Any], list[str], int]:
    """All pages of a list, notes about it, and for how many milliseconds it stays valid. Raises McpError."""
    items: list[Any] = []
    seen: set[str] = set()
    notes: list[str] = []
    given, ttl, size = dict(params or {}), 0, 0
    for _ in range(MAX_PAGES):
        result = await connection.request(method, given, RequestOptions(timeout_s))
        page = result.get(member) if isinstance(result, Mapping) else None
        if not isinstance(page, list):
            notes.append(f"The answer to {method} has no list of {member}.")
            break
        size += len(encode(page))
        if size > MAX_LIST_BYTES:
            notes.append(f"Only the first {MAX_LIST_BYTES >> 20} MiB of {method} are used.")
            break
        items += page[: MAX_ENTRIES - len(items)]
        if isinstance(result.get("ttlMs"), int):
            ttl = min(max(0, result["ttlMs"]), MAX_TTL_MS)
        cursor = result.get("nextCursor")
        if not isinstance(cursor, str) or not cursor:
            break
        if cursor in seen:
            notes.append(f"A page of {method} was named twice; the list ends there.")
            break
        if len(items) >= MAX_ENTRIES:
            notes.append(f"Only the first {MAX_ENTRIES} entries of {method} are used.")
            break
        seen.add(cursor)
        given["cursor"] = cursor
        await asyncio.sleep(0)
    else:
        notes.append(f"Only the first {MAX_PAGES} pages of {method} are used.")
    return items, notes, ttl


def stderr_of(connection: Connection) -> str:
    """What the process of a server has written to stderr last; empty for other transports."""
    return connection.transport.stderr if isinstance(connection.transport, StdioTransport) else ""

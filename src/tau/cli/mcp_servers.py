"""`tau mcp list`, `doctor` and `call`: look at the configured servers, try them, call a tool."""

from __future__ import annotations

import asyncio
import os
import time
from argparse import Namespace
from collections.abc import Iterable
from typing import Any

from tau.core.checks.schema import check_arguments
from tau.core.conversation.tokens import CHARS_PER_TOKEN
from tau.errors import UsageError
from tau.mcp.config import ServerConfig
from tau.mcp.definitions import Listing, changed_tools, definition_size
from tau.mcp.messages import McpError
from tau.mcp.names import tool_names
from tau.records.base import BadRecord, encode, parse
from tau.runtime.app.mcp_program import McpProgram
from tau.runtime.mcp.connection import RequestOptions
from tau.runtime.mcp.leftovers import leftover_processes
from tau.runtime.mcp.server import STOP_GRACE_S
from tau.runtime.mcp.tools import checked_schema
from tau.runtime.terminal import complain, emit, say
from tau.store.paths import agent_dir, working_folder

SHOWN_STDERR_LINES = 20


def open_program() -> McpProgram:
    """The configured servers; problems of the configuration are printed."""
    program = McpProgram(agent_dir(), working_folder(), os.environ)
    for problem in (*program.warnings, *program.loaded.problems):
        complain(f"Warning: {problem}")
    return program


def run_list(arguments: Namespace) -> int:
    program = open_program()
    rows = [_row(program, config) for config in program.loaded.configs.values()]
    if arguments.json:
        emit(encode({"servers": rows, "problems": program.loaded.problems}).decode())
    else:
        for row in rows:
            tools = "" if row["tools"] is None else f", {row['tools']} tools"
            say(f"{row['name']}  {row['transport']}  {row['state']}{tools}  ({row['source']})")
            say(f"    {row['target']}")
        if not rows:
            say("No MCP server is configured. `tau mcp add NAME -- COMMAND` adds one.")
    return 1 if program.loaded.problems else 0


def _row(program: McpProgram, config: ServerConfig) -> dict[str, Any]:
    """Without values of variables and headers, which may be secrets."""
    listing = program.listing(config)
    state = "disabled" if not config.enabled else "not cached" if listing is None else "cached"
    return {
        "name": config.name,
        "transport": config.transport,
        "target": program.target(config),
        "source": config.source.path,
        "state": state,
        "era": None if listing is None else listing.era,
        "version": None if listing is None else listing.server_version,
        "tools": None if listing is None else len(listing.tools),
        "login": program.tokens.entry(config) is not None,
    }


def run_doctor(arguments: Namespace) -> int:
    program = open_program()
    configs = [program.config(name) for name in arguments.names] or list(program.loaded.configs.values())
    chosen = [config for config in configs if config.enabled or arguments.names]
    if arguments.refresh:
        for config in chosen:
            program.cache.remove(config, program.tokens.account(config))
    reports = asyncio.run(_examine_all(program, chosen))
    if arguments.json:
        emit(encode({"servers": reports, "problems": program.loaded.problems}).decode())
    else:
        for report in reports:
            _print_report(report)
        if not reports:
            say("No MCP server is configured.")
    failed = any(report["state"] != "ready" for report in reports)
    return 1 if failed or program.loaded.problems else 0


async def _examine_all(program: McpProgram, configs: Iterable[ServerConfig]) -> list[dict[str, Any]]:
    return list(await asyncio.gather(*(_examine(program, config) for config in configs)))


async def _examine(program: McpProgram, config: ServerConfig) -> dict[str, Any]:
    before = program.listing(config)
    server = program.server(config)
    report: dict[str, Any] = {"name": config.name, "source": config.source.path}
    if leftover := leftover_processes(config):
        report["orphans"] = leftover
    began = time.monotonic()
    try:
        await server.start()
    except McpError as error:
        report["error"] = str(error)
        if server.stderr:
            report["stderr"] = server.stderr.splitlines()[-SHOWN_STDERR_LINES:]
    report |= {"state": server.state, "seconds": round(time.monotonic() - began, 3)}
    if server.listing is not None and server.state == "ready":
        report |= _described(config, server.listing, before)
    await server.close(STOP_GRACE_S)
    return report


def _described(config: ServerConfig, listing: Listing, before: Listing | None) -> dict[str, Any]:
    names = tool_names(config.name, [tool.name for tool in listing.tools])
    size = sum(definition_size(names[tool.name], tool) for tool in listing.tools)
    changed, others = changed_tools(before.tools, listing.tools) if before is not None else ([], [])
    return {
        "era": listing.era,
        "protocol": listing.version,
        "version": f"{listing.server} {listing.server_version}".strip(),
        "tools": [tool.name for tool in listing.tools],
        "prompts": [prompt.name for prompt in listing.prompts],
        "resources": listing.resources,
        "definitionTokens": -(-size // CHARS_PER_TOKEN),
        "changed": changed,
        "addedOrRemoved": others,
        "notes": listing.notes,
    }


def _print_report(report: dict[str, Any]) -> None:
    say(f"{report['name']}: {report['state']} after {report['seconds']:.2f} s")
    if "error" in report:
        say(f"    {report['error']}")
    if "orphans" in report:
        say(f"    left by an earlier agent: process {', '.join(map(str, report['orphans']))}")
    for line in report.get("stderr", ()):
        say(f"    stderr: {line}")
    if "era" in report:
        say(f"    {report['version']}, {report['era']} protocol {report['protocol']}")
        say(f"    {len(report['tools'])} tools, about {report['definitionTokens']} tokens; ", end="")
        say(f"{len(report['prompts'])} prompts, {'with' if report['resources'] else 'no'} resources")
        if report["changed"]:
            say(f"    definitions that changed since they were cached: {', '.join(report['changed'])}")
        if report["addedOrRemoved"]:
            say(f"    tools that were added or removed: {', '.join(report['addedOrRemoved'])}")
        for note in report["notes"]:
            say(f"    note: {note}")


def run_call(arguments: Namespace) -> int:
    try:
        given = parse(arguments.arguments.encode())
    except BadRecord as error:
        raise UsageError(f"The arguments are not JSON: {error}") from None
    if not isinstance(given, dict):
        raise UsageError("The arguments must be a JSON object.")
    program = open_program()
    config = program.config(arguments.server)
    result = asyncio.run(_call(program, config, arguments.tool, given))
    emit(encode(result).decode())
    return 1 if isinstance(result, dict) and result.get("isError") is True else 0


async def _call(program: McpProgram, config: ServerConfig, tool: str, arguments: dict[str, Any]) -> Any:
    server = program.server(config)
    try:
        await server.start()
        tools = server.listing.tools if server.listing is not None else []
        definition = next((one for one in tools if one.name == tool), None)
        if definition is None:
            raise McpError(f"There is no tool {tool}. It has: {', '.join(one.name for one in tools)}")
        checked, problems = check_arguments(checked_schema(definition), arguments, convert=True)
        if problems:
            raise UsageError(f"{config.name}: the arguments do not fit {tool}: {'; '.join(problems)}")
        options = RequestOptions(config.timeout, config.max_timeout, schema=definition.input_schema)
        return await server.call("tools/call", {"name": tool, "arguments": checked}, options)
    except McpError as error:
        raise McpError(f"{config.name}: {error}") from None
    finally:
        await server.close(STOP_GRACE_S)

"""What the MCP servers of a project start and connect to, for a person who decides about trust. Blocks.

The words of the file are shown, not the values of variables: those may be secrets, and may be others at the next start.
Every entry is shown, also one that a later file replaces or turns off.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tau.core.text.terminal_text import escape_hidden
from tau.mcp.config import BadEntry, Source, is_overlay, parse_entry, transport_of
from tau.runtime.mcp.loading import McpSources, read_project_files
from tau.store.mcp import McpFile
from tau.store.settings import SettingsFile

TITLE = "Its MCP servers start these programs and connect to these addresses:"
NOT_COVERED = "A script of the project that a server runs may change later: trust does not cover it."


def describe_servers(project: Path, bound: Mapping[str, str], environment: Mapping[str, str]) -> list[str]:
    """Lines to show; none without servers. `bound` is the content that the decision is about: nothing else is read."""
    settings = SettingsFile(project / ".pi" / "settings.json", bound)
    if os.path.realpath(settings.path) in bound:
        settings.read()
    servers = settings.content.get("mcpServers")
    sources = McpSources(
        agent_dir=project,
        cwd=project,
        trusted=True,
        bound=bound,
        project_settings=(str(settings.path), servers if isinstance(servers, dict) else {}),
    )
    problems: list[str] = []
    files = read_project_files(sources, problems)
    lines = [line for file in files for line in _servers(file, project, environment)]
    shown = [f"  {escape_hidden(line)}" for line in (*lines, *problems)]
    return [TITLE, *shown, NOT_COVERED] if shown else []


def _servers(file: McpFile, project: Path, environment: Mapping[str, str]) -> Iterator[str]:
    where, home = os.path.relpath(file.path, project), environment.get("HOME") or os.path.expanduser("~")
    for name, entry in file.servers.items():
        if is_overlay(entry):
            continue
        skipped = ""
        try:
            parse_entry(name, entry, Source(file.path, file.scope), environment, home)
        except BadEntry as error:
            skipped = f"; skipped: {f'{error.field}: ' if error.field else ''}{error}"
        target, commands = _words(entry)
        yield f"{name}: {f'{target}  ' if target else ''}({where}{skipped})"
        yield from (f"  {name}: {field} runs: {command}" for field, command in commands)


def _words(entry: Any) -> tuple[str, list[tuple[str, str]]]:
    """The command line or the address, and the values that are commands, each with its place."""
    try:
        transport = transport_of(entry if isinstance(entry, Mapping) else {})
    except BadEntry:
        return "", []
    fields: tuple[str, ...]
    if transport == "stdio":
        args = entry.get("args", [])
        words, fields = [entry.get("command", ""), *(args if isinstance(args, list) else [])], ("env",)
    else:
        words, fields = [entry.get("url", "")], ("headers", "oauth")
    commands = [
        (f"{field}.{name}", text[1:])
        for field in fields
        if isinstance(values := entry.get(field), Mapping)
        for name, text in values.items()
        if isinstance(text, str) and text[:1] == "!"
    ]
    return " ".join(str(word) for word in words), commands

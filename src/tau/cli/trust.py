"""`tau trust [DIR]`, `tau trust --remove [DIR]`: trust a project in its current state, or revoke trust."""

from __future__ import annotations

import os
from pathlib import Path

from tau.cli.flags import ParsedArguments
from tau.core.text.terminal_text import escape_hidden
from tau.errors import UsageError
from tau.records.base import BadRecord
from tau.runtime.terminal import complain, say
from tau.store.mcp import project_files, read_mcp_file
from tau.store.paths import agent_dir, working_folder
from tau.store.trust import TrustFile, Untrustable, fingerprint


def main(arguments: ParsedArguments) -> int:
    if len(arguments.words) > 2:
        raise UsageError("usage: tau trust [--remove] [DIR]")
    project = Path(os.path.realpath(os.path.join(working_folder(), *arguments.words[1:])))
    file = TrustFile(agent_dir() / "trust.json")
    try:
        return _revoke(file, project) if "remove" in arguments.flags else _trust(file, project)
    except (Untrustable, BadRecord, OSError) as error:
        where = f"{file.path}: " if isinstance(error, BadRecord) else ""
        complain(f"Error: {where}{error}")
        return 1


def _trust(file: TrustFile, project: Path) -> int:
    if not project.is_dir():
        raise UsageError(f"{project} is not a folder")
    if Path(os.path.realpath(file.path)).is_relative_to(project):
        raise UsageError(f"{file.path} is inside this project, so it cannot be used to trust it. Use --approve.")
    found = fingerprint(project)
    file.trust(project, found.digest)
    say(f"{escape_hidden(str(project))} is trusted until any of this changes:")
    for name in found.files or ["(there are no files that need trust)"]:
        say(f"  {escape_hidden(name)}")
    _list_servers(project)
    return 0


def _list_servers(project: Path) -> None:
    """Show what the MCP servers of the project start and where they connect to."""
    files = [file for path in project_files(project) if (file := read_mcp_file(path, "project")[0]) is not None]
    shown = [(file.path, name, entry) for file in files for name, entry in file.servers.items()]
    if not shown:
        return
    say("Its MCP servers start these programs and connect to these addresses:")
    for path, name, entry in shown:
        fields = entry if isinstance(entry, dict) else {}
        words = [fields.get("command"), *(fields.get("args") or ())] if "command" in fields else [fields.get("url")]
        target = " ".join(str(word) for word in words)
        say(f"  {escape_hidden(f'{name}: {target}')}  ({escape_hidden(os.path.relpath(path, project))})")
    say("A script of the project that a server runs may change later: trust does not cover it.")


def _revoke(file: TrustFile, project: Path) -> int:
    name = escape_hidden(str(project))
    say(f"{name} is no longer trusted." if file.forget(project) else f"{name} was not trusted.")
    return 0

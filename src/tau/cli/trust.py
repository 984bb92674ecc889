"""`tau trust [DIR]`, `tau trust --remove [DIR]`: trust a project in its current state, or revoke trust."""

from __future__ import annotations

import os
from pathlib import Path

from tau.cli.flags import ParsedArguments
from tau.core.text.terminal_text import escape_hidden
from tau.errors import UsageError
from tau.records.base import BadRecord
from tau.runtime.mcp.project_listing import describe_servers
from tau.runtime.terminal import complain, say
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
    if not os.path.isdir(project):
        raise UsageError(f"{project} is not a folder")
    if Path(os.path.realpath(file.path)).is_relative_to(project):
        raise UsageError(f"{file.path} is inside this project, so it cannot be used to trust it. Use --approve.")
    found = fingerprint(project)
    # What the person must judge is read and shown before the decision is stored.
    servers = describe_servers(project, found.content, os.environ)
    name = escape_hidden(str(project))
    say(f"Trust in {name} covers:")
    for file_name in found.files or ["(there are no files that need trust)"]:
        say(f"  {escape_hidden(file_name)}")
    for line in servers:
        say(line)
    file.trust(project, found.digest)
    say(f"{name} is trusted until any of this changes. `tau trust --remove` revokes it.")
    return 0


def _revoke(file: TrustFile, project: Path) -> int:
    name = escape_hidden(str(project))
    say(f"{name} is no longer trusted." if file.forget(project) else f"{name} was not trusted.")
    return 0

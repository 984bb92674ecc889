"""`tau mcp add` and `remove`: change the user's mcp.json, or that of the project with -l."""

from __future__ import annotations

import os
import re
import tomllib
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tau.cli.mcp import standard_input
from tau.errors import UsageError
from tau.mcp.config import BadEntry, Source, parse_entry
from tau.mcp.imports import NoServers, import_servers
from tau.records.base import BadRecord, parse
from tau.runtime.terminal import complain, say
from tau.store.files import read_small
from tau.store.mcp import remove_server, set_server
from tau.store.paths import agent_dir, working_folder
from tau.wire.comments import strip_comments

FOR_COMMANDS = ("--env", "--cwd")
FOR_ADDRESSES = ("--header", "--bearer-token-env-var", "--oauth-client-id")
FOR_ANY = ("--exposure", "--description")


def run_add(arguments: Namespace) -> int:
    path = _file(arguments)
    entries = _imported(arguments) if arguments.source else {_name(arguments): _entry(arguments)}
    for name, entry in entries.items():
        _check(name, entry, path)
    for name, entry in entries.items():
        set_server(path, name, entry)
        say(f"{name} is in {path}.")
        if not arguments.local and (relative := _relative_file(entry)):
            complain(
                f"Warning: {relative} is relative to this folder, so {name} starts only here. "
                "Give the whole path, or add the server to this project with -l."
            )
    if arguments.local:
        say("The servers of a project start when it is trusted: `tau trust`.")
    return 0


def run_remove(arguments: Namespace) -> int:
    path = _file(arguments)
    if not remove_server(path, arguments.name):
        complain(f"There is no {arguments.name} in {path}.")
        return 1
    say(f"{arguments.name} was removed from {path}.")
    return 0


def _file(arguments: Namespace) -> Path:
    return Path(working_folder()) / ".pi" / "mcp.json" if arguments.local else agent_dir() / "mcp.json"


def _name(arguments: Namespace) -> str:
    if len(arguments.names) != 1:
        raise UsageError("usage: tau mcp add NAME -- COMMAND ARGS..., or tau mcp add NAME --url URL")
    return str(arguments.names[0])


def _entry(arguments: Namespace) -> dict[str, Any]:
    if bool(arguments.command) == bool(arguments.url):
        raise UsageError("A server has either a command, after --, or --url.")
    if wrong := _given(arguments, FOR_ADDRESSES if arguments.command else FOR_COMMANDS):
        raise UsageError(f"{wrong[0]} is for a server with {'--url' if arguments.command else 'a command, after --'}.")
    entry: dict[str, Any] = {}
    if arguments.command:
        program, *words = arguments.command
        entry = {"command": program, **({"args": words} if words else {})}
        if arguments.env:
            entry["env"] = _pairs("--env", arguments.env)
        if arguments.cwd:
            entry["cwd"] = arguments.cwd
    else:
        entry = {"url": arguments.url}
        headers = _pairs("--header", arguments.header)
        if arguments.bearer_token_env_var:
            headers["Authorization"] = f"Bearer ${{{arguments.bearer_token_env_var}}}"
        if headers:
            entry["headers"] = headers
        if arguments.oauth_client_id:
            entry["oauth"] = {"clientId": arguments.oauth_client_id}
    for flag in _given(arguments, FOR_ANY):
        entry[flag[2:]] = getattr(arguments, flag[2:])
    return entry


def _given(arguments: Namespace, flags: tuple[str, ...]) -> list[str]:
    return [flag for flag in flags if getattr(arguments, flag[2:].replace("-", "_"))]


def _relative_file(entry: Mapping[str, Any]) -> str | None:
    """A file in the command line of a server that is found only in the working folder."""
    program: str = entry.get("command", "")
    words: list[str] = list(entry.get("args", ()))
    if os.path.isabs(os.path.expanduser(entry.get("cwd", ""))):
        return None
    candidates = [*([program] if "/" in program else []), *words]
    here = (word for word in candidates if not os.path.isabs(word) and not word.startswith("~/"))
    return next((word for word in here if os.path.isfile(os.path.join(working_folder(), word))), None)


def _pairs(flag: str, given: list[str]) -> dict[str, str]:
    """The values by name. A header may be given as programs show it, `Name: value`."""
    forms = r"([\w-]+): *(.*)|([^=]+)=(.*)" if flag == "--header" else r"()()([^=]+)=(.*)"
    pairs = [re.fullmatch(forms, text, re.DOTALL) for text in given]
    if None in pairs:
        raise UsageError(f"{flag} needs NAME=VALUE" + (' or "Name: value"' if flag == "--header" else ""))
    return {pair[1] or pair[3]: pair[2] or pair[4] or "" for pair in pairs if pair is not None}


def _check(name: str, entry: Mapping[str, Any], path: Path) -> None:
    """Raise UsageError for an entry that could not be used. Variables need not be set yet."""
    try:
        parse_entry(name, entry, Source(str(path), "user"), _AnyVariable(), os.path.expanduser("~"))
    except BadEntry as error:
        raise UsageError(f"{name}{'.' + error.field if error.field else ''}: {error}") from None


class _AnyVariable(dict[str, str]):
    """Every variable is set."""

    def get(self, name: str, default: Any = None) -> str:
        return os.environ.get(name, "http://localhost")


def _imported(arguments: Namespace) -> dict[str, dict[str, Any]]:
    wrong = _given(arguments, ("--url", *FOR_COMMANDS, *FOR_ADDRESSES, *FOR_ANY))
    if wrong or arguments.command:
        given = wrong[0] if wrong else "a command"
        raise UsageError(f"With --from, servers are copied as they are: name them or not, and leave out {given}.")
    path = Path(os.path.expanduser(arguments.source))
    data = read_small(path, 64 * 1024 * 1024)
    try:
        content = (
            tomllib.loads(data.decode()) if path.suffix == ".toml" else parse(strip_comments(data.decode()).encode())
        )
        servers = import_servers(content if isinstance(content, dict) else {}, _ask_variable)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, BadRecord, NoServers) as error:
        raise UsageError(f"{path}: {error}") from None
    if missing := [name for name in arguments.names if name not in servers]:
        raise UsageError(f"{path} has no server {missing[0]}. It has: {', '.join(servers)}")
    return {name: servers[name] for name in arguments.names} if arguments.names else servers


def _ask_variable(asked: str) -> str:
    """The variable that replaces an input of VS Code."""
    proposed = "".join(sign if sign.isalnum() else "_" for sign in asked).upper()
    say(f"The value of {asked} will be read from an environment variable [{proposed}]: ", end="")
    answer = standard_input()
    say()
    return answer or proposed

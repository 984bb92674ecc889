"""`tau serve status`: whether a host is running, since when, which version, and its sessions as a table."""

from __future__ import annotations

import time
from typing import Any

from tau.cli.flags import ParsedArguments
from tau.client.host_socket import HostSocket
from tau.core.checks.exit_codes import ANSWERED, FAILED
from tau.errors import CommandError, UsageError
from tau.runtime.terminal import complain, say
from tau.store.host_files import HostInfo, running_host
from tau.store.paths import agent_dir

ID_LENGTH = 13
NAME_LENGTH = 40


def main(arguments: ParsedArguments) -> int:
    if len(arguments.words) > 2:
        raise UsageError("usage: tau serve status")
    info = running_host(agent_dir())
    if info is None:
        say("no host is running: tau serve starts one")
        return FAILED
    try:
        with HostSocket(info.socket, "tau-status") as client:
            rows = client.ask("list_sessions", live=True, all=True)["sessions"]
    except CommandError as error:
        complain(f"Error: {error}")
        return FAILED
    say(f"{describe(info)}, {len(rows)} sessions open")
    say(f"socket {info.socket}" + ("" if info.url is None else f", {info.url}"))
    for row in rows:
        say(_row(row))
    return ANSWERED


def describe(info: HostInfo) -> str:
    started = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(info.started / 1000))
    return f"tau {info.version} is running (process {info.pid}) since {started}"


def _row(row: dict[str, Any]) -> str:
    state = "asks" if row["attention"] else "runs" if row["streaming"] else "idle"
    name = (row.get("name") or row["firstMessage"]).replace("\n", " ")[:NAME_LENGTH]
    return f"  {row['id'][:ID_LENGTH]}  {state:<4}  {row['clients']:>2} clients  {row['cwd']}  {name}"

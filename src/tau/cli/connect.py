"""Flags for sessions of a host: `--connect`, and those of `tau attach`."""

from __future__ import annotations

import os
from pathlib import Path

from tau.cli.flags import ParsedArguments
from tau.client.addresses import find_address
from tau.client.opening import Target
from tau.errors import UsageError
from tau.store.paths import working_folder
from tau.wire import dialects

# Flags that set a field of a session that is opened.
FIELDS = {"model": "model", "thinking": "thinking", "name": "name", "sandbox": "sandbox"}
# Flags that can be given with --connect; all others belong to the host.
KNOWN = {*FIELDS, "mode", "connect", "open", "session", "token-file", "abort-at-end", "dialect", "tools", "no-session"}
# Flags that clients pass and that change nothing here.
WITHOUT_EFFECT = {"provider", "offline", "verbose", "theme", "no-themes", "use-theme", "tui-mode"}


def target_of(arguments: ParsedArguments) -> Target:
    """The session that the flags name. Raises UsageError."""
    flags = arguments.flags
    if flags.get("mode") != "rpc":
        raise UsageError("--connect is for --mode rpc. At a terminal, use `tau attach`.")
    others = sorted((flags.keys() | arguments.lists.keys()) - KNOWN - WITHOUT_EFFECT)
    if others or arguments.unknown:
        wrong = arguments.unknown[0] if arguments.unknown else f"--{others[0]}"
        raise UsageError(f"{wrong} cannot be used with --connect: give it to `tau serve`.")
    session = flags.get("session")
    if session is not None and "open" in flags:
        raise UsageError("Give --session to use a session of the host, or --open to open one, but not both.")
    opened: dict[str, object] | None = None
    if session is None:
        opened = open_fields(flags)
    elif "/" in session:  # a file, which the host knows by its id only when it is open
        session, opened = None, {"session": session}
    return Target(
        find_address(flags.get("connect", "unix:"), read_token(flags.get("token-file"))),
        session,
        opened,
        dialects.find(flags.get("dialect") or os.environ.get("PI_DIALECT")),
        "abort-at-end" in flags,
    )


def open_fields(flags: dict[str, str]) -> dict[str, object]:
    fields: dict[str, object] = {FIELDS[name]: value for name, value in flags.items() if name in FIELDS}
    if "provider" in flags and "model" in flags and "/" not in flags["model"]:
        fields["model"] = f"{flags['provider']}/{flags['model']}"
    if "tools" in flags:
        fields["tools"] = [name.strip() for name in flags["tools"].split(",") if name.strip()]
    if "no-session" in flags:
        fields["memory"] = True
    return {"cwd": working_folder(), **fields}


def read_token(file: str | None) -> str | None:
    if file is None:
        return None
    try:
        return Path(file).expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The token cannot be read from {file}: {getattr(error, 'strerror', None) or error}") from None

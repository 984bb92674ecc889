"""`tau mcp serve`: tau as an MCP server, on stdin and stdout."""

from __future__ import annotations

import logging
import os
from importlib import import_module
from typing import NoReturn

from tau.cli.flags import ParsedArguments
from tau.cli.session_options import session_options
from tau.errors import UsageError
from tau.records.base import replace
from tau.runtime.app.factory import SessionFactory, load
from tau.runtime.app.options import SessionOptions, SessionTarget
from tau.runtime.terminal import complain, hide_in_log, log_to_stderr
from tau.store.paths import agent_dir, working_folder

OWN_FLAGS = ("--cwd",)
USAGE = "usage: tau mcp serve [--tools A,B] [--cwd DIR] [options]"
# Flags of sessions that make no sense for a server, which opens a session for each call.
REFUSED_FLAGS = ("continue", "resume", "session", "session-id", "fork", "output-schema", "record", "print", "mode")


def main(arguments: ParsedArguments) -> NoReturn:
    """Serve. `arguments.words` are `mcp` and `serve`, and the value of --cwd."""
    if arguments.words[1:2] != ["serve"]:
        raise UsageError(USAGE)
    log_to_stderr(logging.INFO if "verbose" in arguments.flags else logging.WARNING)
    cwd = _cwd(arguments)
    for flag in REFUSED_FLAGS:
        if flag in arguments.flags:
            raise UsageError(f"--{flag} is not for a server. {USAGE}")
    features = import_module("tau.mcp_server.features")
    named = arguments.flags.pop("tools", None)
    names = features.AGENT_TOOLS if named is None else features.checked_names(_list(named))
    options = session_options(arguments._replace(unknown=[], after={}))
    target = SessionTarget(kept=options.session.kept, folder=options.session.folder)
    serve = import_module("tau.mcp_server.stdio").serve
    serve(_load, replace(options, session=target), cwd, names)
    raise AssertionError("a front end ends the process")


def _load(options: SessionOptions, cwd: str) -> SessionFactory:
    factory = load(agent_dir(), options, os.environ, cwd)
    hide_in_log(factory.models.keys.known_secrets)
    for warning in factory.warnings:
        complain(f"Warning: {warning}")
    return factory.with_sandbox()


def _cwd(arguments: ParsedArguments) -> str:
    """The folder of --cwd, which is a flag of this command alone. Raises UsageError."""
    words = arguments.words[2:]
    given = [word for word in arguments.unknown if word.partition("=")[0] != "--cwd"]
    inline = [word.partition("=")[2] for word in arguments.unknown if word.startswith("--cwd=")]
    if given or len(words) > ("cwd" in arguments.after):
        raise UsageError(USAGE)
    if not inline and not words:
        if arguments.unknown:
            raise UsageError("--cwd needs a value: DIR")
        return working_folder()
    folder = os.path.realpath(os.path.join(working_folder(), os.path.expanduser((inline or words)[-1])))
    if not os.path.isdir(folder):
        raise UsageError(f"--cwd: there is no folder {folder}")
    return folder


def _list(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]

"""`tau mcp serve`: tau as an MCP server, on stdin and stdout."""

from __future__ import annotations

import logging
import os
from importlib import import_module
from typing import NoReturn

from tau.cli.flags import parse
from tau.cli.session_options import harden_host, hide_filtered, roots, session_options
from tau.errors import UsageError
from tau.records.base import replace
from tau.runtime.app.factory import SessionFactory, load
from tau.runtime.app.options import SessionOptions, SessionTarget
from tau.runtime.terminal import complain, hide_in_log, log_to_stderr
from tau.store.paths import agent_dir, working_folder

USAGE = "usage: tau mcp serve [--tools A,B] [--cwd DIR] [--root DIR ...] [options]"
# Flags of sessions that make no sense for a server, which opens a session for each call.
REFUSED_FLAGS = ("continue", "resume", "session", "session-id", "fork", "output-schema", "record", "print", "mode")


def main(words: list[str]) -> NoReturn:
    """Serve, with the words after `tau mcp serve`."""
    words, cwd = _split_cwd(words)
    arguments = parse(words)
    if arguments.words:
        raise UsageError(USAGE)
    if arguments.unknown:
        raise UsageError(f"Unknown option: {arguments.unknown[0]}. {USAGE}")
    for flag in REFUSED_FLAGS:
        if flag in arguments.flags:
            raise UsageError(f"--{flag} is not for a server. {USAGE}")
    log_to_stderr(logging.INFO if "verbose" in arguments.flags else logging.WARNING)
    harden_host(arguments)
    features = import_module("tau.mcp_server.features")
    named = arguments.flags.pop("tools", None)
    names = features.AGENT_TOOLS if named is None else features.checked_names(_list(named))
    options = session_options(arguments)
    options = replace(options, dialect=options.dialect or "default")  # the user's setting is for clients of pi
    target = SessionTarget(kept=options.session.kept, folder=options.session.folder)
    import_module("tau.mcp_server.stdio").serve(_load, replace(options, session=target), roots(arguments, cwd), names)
    raise AssertionError("a front end ends the process")


def _load(options: SessionOptions, cwd: str) -> SessionFactory:
    factory = load(agent_dir(), options, os.environ, cwd)
    hide_in_log(factory.models.keys.known_secrets)
    hide_filtered(factory.settings.child_environment)
    for warning in factory.warnings:
        complain(f"Warning: {warning}")
    return factory.with_sandbox()


def _split_cwd(words: list[str]) -> tuple[list[str], str]:
    """Split off --cwd, which is a flag of this command alone. Raises UsageError."""
    rest, folder = list[str](), working_folder()
    remaining = iter(words)
    for word in remaining:
        name, equals, value = word.partition("=")
        if name != "--cwd":
            rest.append(word)
            continue
        given = value if equals else next(remaining, "")
        if not given:
            raise UsageError("--cwd needs a value: DIR")
        folder = os.path.realpath(os.path.join(working_folder(), os.path.expanduser(given)))
        if not os.path.isdir(folder):
            raise UsageError(f"--cwd: there is no folder {folder}")
    return rest, folder


def _list(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]

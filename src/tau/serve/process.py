"""`tau serve`: the process of a host: flags, files, sockets, signals, and its end.

SIGTERM, INT, HUP     no new connections; runs may settle for --drain seconds and are aborted then; exit 143, 130, 129
a second signal       exit at once
"""

from __future__ import annotations

import gc
import logging
import os
import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any, NoReturn, Protocol

from tau import __version__
from tau.cli.flags import ParsedArguments
from tau.cli.session_options import harden_host, roots, session_options
from tau.core.text.install_hints import install_hint
from tau.errors import UsageError
from tau.records.base import replace
from tau.runtime.app.options import SessionTarget
from tau.runtime.app.process import StopSignal, leave, run_and_exit
from tau.runtime.clock import now
from tau.runtime.machine.allocator import share_arena
from tau.runtime.terminal import complain, say
from tau.serve import descriptors
from tau.serve.access import LOCAL_USER
from tau.serve.host import Host
from tau.serve.opening import HostConfig, SessionOpener
from tau.serve.unix_socket import UnixListener
from tau.serve.watchdog import Watchdog
from tau.store.host_files import HostFiles, HostInfo
from tau.store.paths import agent_dir, working_folder

logger = logging.getLogger(__name__)
TCP = "tau.serve.web.tcp"  # its `start` returns a TcpServer; it needs the extra `serve`
TCP_LIBRARIES = ("starlette", "uvicorn", "websockets")
NO_TCP = f"Only the Unix socket is open. For HTTP, WebSocket and the page: {install_hint('serve')}."
NOT_HERE = ("continue", "resume", "session", "session-id", "fork", "name", "export", "print", "mode", "output-schema")
# Thousands of closed connections leave cycles: many short collections, since one of all of them takes a second.
COLLECTED_AT = (5_000, 10, 1_000)
UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}


class TcpServer(Protocol):
    """The listener for HTTP and WebSocket. `url` is where it is reached; `browser_url` also logs a browser in."""

    url: str

    def browser_url(self) -> str: ...

    def stop_accepting(self) -> None: ...

    async def close(self) -> None: ...


def main(arguments: ParsedArguments) -> NoReturn:
    if "verbose" in arguments.flags:
        logging.getLogger("tau").setLevel(logging.INFO)
    config = host_config(arguments)
    SessionOpener(config).check()
    harden_host(arguments)
    descriptors.raise_limit()
    share_arena()
    files = HostFiles(config.agent_dir)
    files.take()
    run_and_exit(lambda: _serve(config, files, arguments))


def host_config(arguments: ParsedArguments) -> HostConfig:
    """The configuration that the flags ask for. Raises UsageError."""
    flags = arguments.flags
    if misplaced := [f"--{name}" for name in NOT_HERE if name in flags]:
        raise UsageError(f"{', '.join(misplaced)}: clients of a host choose sessions and prompts themselves")
    options = session_options(arguments)
    return HostConfig(
        agent_dir=agent_dir(),
        options=replace(options, strict=True, session=SessionTarget(options.session.kept, options.session.folder)),
        roots=roots(arguments, working_folder()),
        idle_s=seconds(flags, "idle", 15 * 60),
        max_live=max(1, round(seconds(flags, "max-live", 1000))),
        answer_timeout_s=seconds(flags, "answer-timeout", 60),
        drain_s=seconds(flags, "drain", 10),
    )


def seconds(flags: Mapping[str, str], name: str, default: float) -> float:
    """The value of a flag: a number, of seconds or with a unit."""
    if name not in flags:
        return default
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", flags[name])
    if match is None:
        raise UsageError(f"--{name} needs a number, or a time such as 30s, 15m or 1h; not {flags[name]!r}")
    return float(match[1]) * UNITS[match[2]]


class HostSignal(StopSignal):
    """The second signal ends the process at once."""

    def ask(self, code: int) -> None:
        if self.asked:
            leave(code)
        super().ask(code)


async def _serve(config: HostConfig, files: HostFiles, arguments: ParsedArguments) -> int:
    gc.set_threshold(*COLLECTED_AT)
    stop = HostSignal()
    host = Host(config)
    listener = UnixListener(files.socket, lambda transport: host.serve(transport, LOCAL_USER, "lines"))
    await listener.start()
    tcp = None
    try:
        tcp = await _start_tcp(host, arguments)
        url = None if tcp is None else tcp.url
        files.write(HostInfo(os.getpid(), now(), host.id, __version__, str(files.socket), url))
        say(f"listening on {files.socket}" + ("" if url is None else f" and {url}"))
        if tcp is not None and os.isatty(1):  # a code does not belong in a log
            say(f"for a browser: {tcp.browser_url()}")
        watchdog = Watchdog()
        code = await stop.wait()
        watchdog.stop()
        listener.stop_accepting()
        if tcp is not None:
            tcp.stop_accepting()
        await host.drain(config.drain_s)
        return code
    finally:
        await host.close()
        await listener.close()
        if tcp is not None:
            await tcp.close()
        files.remove()


async def _start_tcp(host: Host, arguments: ParsedArguments) -> TcpServer | None:
    """Listen on TCP, unless that is off or its libraries are missing. Raises UsageError if TCP was asked for."""
    if "no-tcp" in arguments.flags:
        return None
    try:
        module: Any = import_module(TCP)
    except ModuleNotFoundError as error:
        if error.name is None or not (error.name.startswith("tau.") or error.name.partition(".")[0] in TCP_LIBRARIES):
            raise
        if "listen" in arguments.flags or "public-url" in arguments.flags:
            raise UsageError(NO_TCP) from None
        complain(NO_TCP)
        return None
    started: TcpServer = await module.start(host, arguments)
    return started

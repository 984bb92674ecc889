"""tau.serve.app: the server as an ASGI application, to be mounted in a program of one's own."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from starlette.applications import Starlette

from tau.core.agent.budgets import NO_BUDGET
from tau.errors import UsageError
from tau.records.budgets import Budget
from tau.records.settings import SandboxLevel
from tau.runtime.app.options import SessionOptions
from tau.serve.access import Access
from tau.serve.credentials import Credentials
from tau.serve.host import Host
from tau.serve.opening import HostConfig
from tau.serve.request_checks import Allowed
from tau.serve.web.app import create_app
from tau.serve.web.site import Site
from tau.store import paths
from tau.tools import Tool

REMEDY = "If the address is yours, add it to allowed_hosts, or to allowed_origins, of tau.serve.app."
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


def app(
    host: Host | None = None,
    *,
    allowed_hosts: Sequence[str],
    allowed_origins: Sequence[str] | None = None,
    authenticate: Callable[[str], Access | None] | None = None,
    cwd: str | os.PathLike[str] = ".",
    roots: Sequence[str | os.PathLike[str]] = (),
    model: str | None = None,
    tools: Sequence[str | Tool] | None = None,
    sandbox: SandboxLevel | None = None,
    budget: Budget = NO_BUDGET,
    agent_dir: str | os.PathLike[str] | None = None,
) -> Starlette:
    """An ASGI application that serves sessions over HTTP and WebSocket.

    `allowed_hosts` are the values of the Host header under which your server is reached, with the port if it is not
    that of the scheme. `allowed_origins` are the origins of pages that may use it (default: the same hosts, with http
    on this machine and https elsewhere). `authenticate` gets the bearer token of a request and returns an `Access`,
    or None; by default the tokens of `tau serve` are valid.

    Without a `host`, one is created from the other options, and closed at the end of the application's life span. A
    mounted application does not see that end by itself: see docs/serve.md.
    """
    if not allowed_hosts or isinstance(allowed_hosts, str):
        raise UsageError('allowed_hosts: give a list such as ["127.0.0.1:8000"]')
    origins = [_origin(name) for name in allowed_hosts] if allowed_origins is None else allowed_origins
    allowed = Allowed(frozenset(name.lower() for name in allowed_hosts), frozenset(origins), remedy=REMEDY)
    owns_host = host is None
    if host is None:
        folder = paths.agent_dir() if agent_dir is None else Path(agent_dir)
        options = SessionOptions(model=model, tools=tools, sandbox=sandbox, budget=budget, strict=True)
        host = Host(HostConfig(folder, options, [os.path.realpath(root) for root in (cwd, *roots)]))
    credentials = None
    if authenticate is None:
        credentials = Credentials(host.config.agent_dir / "serve", time.time)
        credentials.prepare()
    return create_app(Site(host, allowed, authenticate, credentials), owns_host=owns_host)


def _origin(name: str) -> str:
    local = name.lower().rpartition(":")[0] in LOOPBACK or name.lower() in LOOPBACK
    return f"{'http' if local else 'https'}://{name}"

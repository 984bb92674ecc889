"""What servers get from the program: transports, variables, tokens, the cache, the log."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tau.concurrency.threads import run_in_thread
from tau.core.checks.secrets import mask_secrets, url_secrets
from tau.mcp.config import ServerConfig
from tau.mcp.definitions import Listing
from tau.mcp.messages import ClientProfile, McpError
from tau.records.base import Value
from tau.runtime.machine.child_environment import is_named_like_a_secret
from tau.runtime.machine.jobs import ProcessLauncher
from tau.runtime.mcp.cache import ListingCache
from tau.runtime.mcp.connection import Connection
from tau.runtime.mcp.http import Endpoint, HttpTransport, SseTransport
from tau.runtime.mcp.server import McpServer
from tau.runtime.mcp.server_log import ServerLog
from tau.runtime.mcp.sharing import Owner
from tau.runtime.mcp.stdio import ServerCommand, StdioTransport
from tau.runtime.mcp.tokens import Tokens
from tau.runtime.mcp.transport import Transport
from tau.store.config_values import command_output

BASIC_VARIABLES = ("PATH", "HOME", "LANG", "TMPDIR", "USER", "SHELL", "TERM")


class Place(Value):
    """Where servers run.

    `variables` returns those that a server inherits, without keys of model providers. `launcher` returns how to start
    its process: inside the sandbox of the session, or outside of it. `refused` returns why it must not be started.
    `environment` names the proxies, and has the variables for commands in the configuration.
    """

    agent_dir: Path
    cwd: str
    client: ClientProfile
    environment: Mapping[str, str]
    variables: Callable[[ServerConfig], Mapping[str, str]]
    launcher: Callable[[ServerConfig], ProcessLauncher]
    refused: Callable[[ServerConfig], str] = lambda config: ""


class ServerEnvironment:
    """Implements Environment of server.py."""

    def __init__(self, place: Place, owner: Owner) -> None:
        self.client = place.client
        self._place = place
        self._owner = owner
        self._cache = ListingCache(place.agent_dir)
        self._tokens = Tokens(place.agent_dir, place.environment)
        self._accounts: dict[str, str] = {}
        self._resolved: dict[str, dict[str, str]] = {}  # by server: values of commands in the configuration
        self._log = ServerLog(place.agent_dir)

    def cached(self, config: ServerConfig) -> Listing | None:
        """What a server listed last. Blocks."""
        account = self._accounts[config.name] = self._tokens.account(config)
        return self._cache.read(config, account, time.time())

    def connection(self, server: McpServer, *, old: bool) -> Connection:
        root = "file://" + quote(os.path.abspath(self._place.cwd))
        return Connection(self._transport(server.config, old), self.client, root, server)

    def _transport(self, config: ServerConfig, old: bool) -> Transport:
        if config.transport == "stdio":
            cwd = os.path.normpath(os.path.join(self._place.cwd, config.cwd))
            command = ServerCommand([config.command, *config.args], cwd, self._variables(config))
            return StdioTransport(command, self._place.launcher(config))
        endpoint = Endpoint(config.url, lambda: self._headers(config), self._place.environment)
        return SseTransport(endpoint) if old or config.transport == "sse" else HttpTransport(endpoint)

    def _variables(self, config: ServerConfig) -> dict[str, str]:
        inherited = self._place.variables(config)
        if not config.inherit_env:
            inherited = {name: inherited[name] for name in BASIC_VARIABLES if name in inherited}
        return {**inherited, **self._values(config, config.env)}

    async def _headers(self, config: ServerConfig) -> Mapping[str, str]:
        headers = {name.lower(): value for name, value in self._values(config, config.headers).items()}
        if "authorization" not in headers and (token := await self._tokens.access_token(config)):
            headers["authorization"] = f"Bearer {token}"
        return headers

    def _values(self, config: ServerConfig, given: tuple[tuple[str, str], ...]) -> dict[str, str]:
        return {**dict(given), **{name: value for name, value in self._commands(config).items() if name in dict(given)}}

    def _commands(self, config: ServerConfig) -> dict[str, str]:
        return self._resolved.get(config.name, {})

    async def prepare(self, config: ServerConfig) -> None:
        if reason := self._place.refused(config):
            raise McpError(reason, sent=False)
        missing = config.commands - self._commands(config).keys()
        for name in sorted(missing):
            text = dict((*config.env, *config.headers))[name]
            value = await run_in_thread(_output(text, self._place.environment), "mcp value")
            if value is None:
                raise McpError(f"The command for {name} printed nothing or failed.", sent=False)
            self._resolved.setdefault(config.name, {})[name] = value

    async def save(self, config: ServerConfig, listing: Listing) -> None:
        def write() -> None:
            self._cache.write(config, self._accounts.get(config.name) or self._tokens.account(config), listing)

        await run_in_thread(write, "mcp cache")

    async def new_token(self, config: ServerConfig) -> bool:
        return await self._tokens.refresh(config)

    def changed(self, server: McpServer) -> None:
        self._owner.changed(server)

    def names_changed(self, server: McpServer, names: list[str]) -> None:
        self._owner.names_changed(server, names)

    def hide(self, config: ServerConfig, text: str) -> str:
        """A text of a server without the secrets of its configuration."""
        values = {**self._values(config, config.env), **self._values(config, config.headers)}
        return mask_secrets(text, config_secrets(config, values, self._place.environment))

    def log(self, server: str, text: str) -> None:
        self._log.write(server, text)

    def log_message(self, config: ServerConfig, params: Mapping[str, Any]) -> None:
        self._log.message(config.name, params, lambda text: self.hide(config, text))

    def now(self) -> float:
        return time.time()


def config_secrets(config: ServerConfig, values: Mapping[str, str], environment: Mapping[str, str]) -> Iterator[str]:
    """The secrets of a server: `values` of its variables and headers, and what its command and address contain."""
    headers = dict(config.headers)
    for name, value in values.items():
        if is_named_like_a_secret(name) or name in headers or name in config.commands:
            yield from (value, value.removeprefix("Bearer "))
    yield from url_secrets(config.url)
    target = "\0".join((config.url, config.command, *config.args))
    yield from (value for name, value in environment.items() if value in target and is_named_like_a_secret(name))


def _output(text: str, environment: Mapping[str, str]) -> Callable[[], str | None]:
    return lambda: command_output(text[1:], environment)

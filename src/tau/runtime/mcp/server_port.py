"""What a server needs of its session or program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from tau.mcp.config import ServerConfig
from tau.mcp.definitions import Listing
from tau.mcp.messages import ClientProfile
from tau.runtime.mcp.connection import Connection

if TYPE_CHECKING:
    from tau.runtime.mcp.server import McpServer


class Environment(Protocol):
    """What a server needs of its session or program."""

    client: ClientProfile

    def connection(self, server: McpServer, *, old: bool) -> Connection:
        """Return a connection that is not started. `old`: with the transport of 2024-11-05. Raises McpError."""

    async def prepare(self, config: ServerConfig) -> None:
        """Resolve what blocks, such as commands in the configuration. Raises McpError."""

    async def save(self, config: ServerConfig, listing: Listing) -> None: ...

    async def new_token(self, config: ServerConfig) -> bool:
        """After a 401: refresh the login. False if that is not possible."""

    def changed(self, server: McpServer) -> None:
        """State or lists of the server have changed."""

    def definitions_changed(self, server: McpServer, tools: list[str]) -> None:
        """These tools have another definition than before."""

    def hide(self, config: ServerConfig, text: str) -> str:
        """A text without the secrets of the configuration."""

    def log(self, server: str, text: str) -> None: ...

    def log_message(self, server: str, params: Mapping[str, Any]) -> None: ...

    def now(self) -> float: ...

"""MCP servers without a session: for the commands of `tau mcp`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tau import __version__
from tau.core.checks.secrets import redact_url
from tau.errors import UsageError
from tau.mcp.config import ServerConfig
from tau.mcp.definitions import Listing
from tau.mcp.messages import ClientProfile
from tau.mcp.names import server_key
from tau.runtime.app.config import ProjectConfig
from tau.runtime.app.mcp_plan import with_settings, without_provider_keys
from tau.runtime.machine.jobs import ProcessLauncher
from tau.runtime.mcp.cache import ListingCache
from tau.runtime.mcp.environment import Place, ServerEnvironment
from tau.runtime.mcp.loading import LoadedServers, McpSources, load_servers
from tau.runtime.mcp.server import McpServer
from tau.runtime.mcp.tokens import Tokens
from tau.store.keys import Keys


class McpProgram:
    """The configured servers as this folder sees them. Blocks while it is created."""

    def __init__(self, agent_dir: Path, cwd: str, environment: Mapping[str, str]) -> None:
        config = ProjectConfig(agent_dir, Path(cwd), None)
        self.warnings = [text for text in config.trust.warnings if "mcp.json" in text]
        sources = with_settings(McpSources(agent_dir, Path(cwd), trusted=False), config)
        self.loaded: LoadedServers = load_servers(sources, environment)
        self.tokens = Tokens(agent_dir, environment)
        self.cache = ListingCache(agent_dir)
        launcher = ProcessLauncher()
        variables = without_provider_keys(environment, Keys(agent_dir / "auth.json", environment))
        place = Place(
            agent_dir=agent_dir,
            cwd=cwd,
            client=ClientProfile(__version__),
            environment=environment,
            variables=lambda config: variables,
            launcher=lambda config: launcher,
        )
        self._environment = ServerEnvironment(place, self)

    def config(self, name: str) -> ServerConfig:
        """Raises UsageError."""
        found = self.loaded.configs.get(server_key(name))
        if found is None:
            known = ", ".join(config.name for config in self.loaded.configs.values()) or "none"
            raise UsageError(f'There is no MCP server "{name}". Configured: {known}')
        return found

    def target(self, config: ServerConfig) -> str:
        """The address or the command of a server, without secrets."""
        return self._environment.hide(config, redact_url(config.url) or " ".join([config.command, *config.args]))

    def listing(self, config: ServerConfig) -> Listing | None:
        """What the server listed last. Blocks."""
        return self._environment.cached(config)

    def server(self, config: ServerConfig) -> McpServer:
        return McpServer(config, self._environment, self.listing(config))

    # Owner of the servers.

    def changed(self, server: McpServer) -> None:
        return

    def names_changed(self, server: McpServer, names: list[str]) -> None:
        return

"""MCP servers of a session: where they are configured, what they inherit, and whether they run in the sandbox."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tau import __version__
from tau.core.checks.secrets import MIN_SECRET_LENGTH
from tau.mcp.config import ServerConfig
from tau.mcp.definitions import Listing
from tau.mcp.messages import ClientProfile
from tau.records.base import replace
from tau.runtime.app.config import ProjectConfig
from tau.runtime.machine.jobs import ProcessLauncher
from tau.runtime.machine.local import LocalMachine
from tau.runtime.mcp.environment import Place, ServerEnvironment
from tau.runtime.mcp.loading import LoadedServers, McpSources, load_servers
from tau.runtime.mcp.server import McpServer
from tau.runtime.mcp.session_servers import SessionServers, ToolChoice
from tau.runtime.mcp.sharing import acquire
from tau.runtime.session.mcp_access import McpAccess
from tau.store.keys import Keys

if TYPE_CHECKING:
    from tau.runtime.app.factory import SessionFactory

logger = logging.getLogger(__name__)
LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
HTTP_REFUSED = (
    "it is a server of the project, and with a sandbox those have no network. "
    'To allow it, add its name to "allowProjectServers" in your own mcp.json.'
)


async def load_mcp(factory: SessionFactory, access: McpAccess, machine: LocalMachine) -> SessionServers:
    """Read the configuration and create the servers. Starts none."""
    options = factory.options
    sources = replace(
        McpSources(factory.config.agent_dir, Path(factory.cwd), factory.trusted),
        files=[factory.at_start(file) for file in options.mcp_files],
        given=options.mcp_servers,
        only_given=options.no_mcp,
    )
    loaded = await machine.in_thread(lambda: load_servers(with_settings(sources, factory.config), factory.environment))
    for problem in loaded.problems:
        logger.warning("%s", problem)
    names = [name for name in options.tools or () if isinstance(name, str)] if options.tools is not None else None
    servers = SessionServers(access, loaded.problems, ToolChoice(names, options.excluded_tools))
    place = _place(factory, access, machine, loaded)
    environment = ServerEnvironment(place, servers)
    enabled = [config for config in loaded.configs.values() if config.enabled]
    listings = await machine.in_thread(lambda: {config.key: environment.cached(config) for config in enabled})
    for config in loaded.configs.values():
        servers.add([_server(config, place, listings.get(config.key), servers, shared=machine.processes.shared)])
    for config in enabled:
        address = urlsplit(config.url)
        if address.scheme == "http" and address.hostname not in LOCAL_HOSTS:
            logger.warning(
                "MCP server %s: what is sent to it can be read on the way, because its address is not https",
                config.name,
            )
    if machine.sandbox is not None:
        _announce_outside(loaded)
    return servers


def _server(
    config: ServerConfig, place: Place, listing: Listing | None, servers: SessionServers, *, shared: bool
) -> McpServer:
    """A server of this session; one that another session of this process uses, if it is the same."""
    if not shared:
        return McpServer(config, ServerEnvironment(place, servers), listing)
    variables = sorted(place.variables(config).items())
    place_of_it = f"{place.cwd}\0{place.agent_dir}\0{place.client!r}\0{place.refused(config)}"
    identity = f"{config!r}\0{place_of_it}\0{variables!r}"
    key = sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()
    return acquire(key, servers, lambda owners: McpServer(config, ServerEnvironment(place, owners), listing))


def with_settings(sources: McpSources, config: ProjectConfig) -> McpSources:
    """Add what the settings of the user, and of a trusted project, say about servers. Blocks."""
    config.file.read()
    user = config.file.content.get("mcpServers")
    project_file = config.project_file
    project = None
    if config.trust.trusted:
        project_file.read()
        project = project_file.content.get("mcpServers")
    return replace(
        sources,
        trusted=config.trust.trusted,
        bound=config.trust.content,
        user_settings=(str(config.file.path), user if isinstance(user, dict) else {}),
        project_settings=(str(project_file.path), project if isinstance(project, dict) else {}),
    )


def _place(factory: SessionFactory, access: McpAccess, machine: LocalMachine, loaded: LoadedServers) -> Place:
    sandboxed = machine.sandbox is not None
    dialogs = access.dialogs

    def is_inside(config: ServerConfig) -> bool:
        of_project = config.source.scope == "project" and config.name not in loaded.allowed
        return sandboxed and (of_project or config.in_sandbox)

    def launcher(config: ServerConfig) -> ProcessLauncher:
        if is_inside(config) or (not sandboxed and not machine.processes.shared):
            return machine.processes
        if not sandboxed:
            machine.processes.hold_supervisor()  # for the next start of a server; until the session is closed
        return ProcessLauncher(shared=True)  # of this start alone, because another session may use the server longer

    def variables(config: ServerConfig) -> Mapping[str, str]:
        if machine.sandbox is not None and is_inside(config):
            return {**factory.without_secrets(), **machine.sandbox.environment}
        if factory.settings.child_environment.filter_secrets:
            return factory.without_secrets()
        return without_provider_keys(factory.environment, factory.models.keys)

    def refused(config: ServerConfig) -> str:
        return HTTP_REFUSED if is_inside(config) and config.transport != "stdio" else ""

    return Place(
        agent_dir=factory.config.agent_dir,
        cwd=factory.cwd,
        client=ClientProfile(__version__, asks=dialogs is not None and dialogs.attended),
        environment=factory.environment,
        variables=variables,
        launcher=launcher,
        refused=refused,
    )


def without_provider_keys(environment: Mapping[str, str], keys: Keys) -> dict[str, str]:
    """The variables that a server inherits: all but those that hold, or are meant for, a key of a model provider."""
    names = keys.variables()
    known = [key for key in keys.known_secrets() if len(key) >= MIN_SECRET_LENGTH]
    return {
        name: value
        for name, value in environment.items()
        if name not in names and not any(key in value for key in known)
    }


def _announce_outside(loaded: LoadedServers) -> None:
    names = [
        config.name
        for config in loaded.configs.values()
        if config.enabled and config.source.scope != "project" and not config.in_sandbox
    ]
    if names:
        logger.warning("These MCP servers run outside of the sandbox: %s", ", ".join(names))

"""Configuration of MCP servers: entries of `mcpServers`, the order of files, and variables in values.

An entry of a later file replaces the whole entry of that name. Exception: an entry with nothing but `enabled`,
`disabled`, `exposure` and `toolExposure` changes only these.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal
from urllib.parse import urlsplit

from tau.mcp.names import is_server_name, server_key
from tau.records.base import Value, replace

Scope = Literal["user", "project", "given"]
Transport = Literal["stdio", "http", "sse"]
Exposure = Literal["auto", "direct", "deferred", "hidden"]

TRANSPORTS: dict[str, Transport] = {"stdio": "stdio", "http": "http", "streamable-http": "http", "sse": "sse"}
# pi has two more modes, for models that call tools from code. They are read as the nearest one that tau has.
EXPOSURES: dict[str, Exposure] = {
    **{"auto": "auto", "direct": "direct", "deferred": "deferred", "hidden": "hidden"},
    **{"codemode": "deferred", "codemode-deferred": "deferred"},
}
OVERLAY_FIELDS = frozenset({"enabled", "disabled", "exposure", "toolExposure"})
USER_ONLY_FIELDS = ("sandbox", "trustAnnotations", "inheritEnv")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


class BadEntry(ValueError):
    """An entry that cannot be used. `field` is where, "" for the whole entry; the text is the reason."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(reason)
        self.field = field


class Source(Value):
    """Where an entry was found. `scope`: the user's own files, those of the project, or given by the caller."""

    path: str
    scope: Scope


class OAuthOptions(Value):
    client_id: str | None = None
    client_secret: str | None = None
    scope: str | None = None
    callback_port: int | None = None


class ServerConfig(Value):
    """One server. Times are in seconds. Values of `env` and `headers` may be commands (`!command`)."""

    name: str
    source: Source
    transport: Transport
    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    cwd: str = ""
    url: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    oauth: OAuthOptions = OAuthOptions()
    commands: frozenset[str] = frozenset()  # names in `env` and `headers` whose value is a command
    enabled: bool = True
    description: str = ""
    timeout: float = 60.0
    startup_timeout: float = 30.0
    max_timeout: float = 1800.0
    idle_timeout: float = 600.0
    eager: bool = False
    exposure: Exposure = "auto"
    tool_exposure: tuple[tuple[str, Exposure], ...] = ()
    in_sandbox: bool = False
    trust_annotations: bool = False
    inherit_env: bool = True

    @property
    def key(self) -> str:
        return server_key(self.name)


class Layer(Value):
    """The content of one file: its `mcpServers`."""

    source: Source
    servers: Mapping[str, Any]


class Problem(Value):
    """An entry that was skipped. `place` is its path in the file, such as `mcpServers.files.command`."""

    source: Source
    place: str
    reason: str


Expand = Callable[[str], str]


def merge_layers(
    layers: Sequence[Layer], environment: Mapping[str, str], home: str
) -> tuple[dict[str, ServerConfig], list[Problem]]:
    """The servers by key, and the entries that were skipped. A later layer wins."""
    found: dict[str, ServerConfig] = {}
    problems: list[Problem] = []
    for layer in layers:
        for name, entry in layer.servers.items():
            place = f"mcpServers.{name}"
            try:
                config = _merged(found.get(server_key(str(name))), str(name), entry, layer.source, environment, home)
                if config is not None:
                    found[config.key] = config
            except BadEntry as error:
                place = f"{place}.{error.field}" if error.field else place
                problems.append(Problem(layer.source, place, str(error)))
    return dict(sorted(found.items())), problems


def _merged(
    known: ServerConfig | None, name: str, entry: Any, source: Source, environment: Mapping[str, str], home: str
) -> ServerConfig | None:
    if is_overlay(entry):
        if known is None:  # it turns off a server that is not configured here
            return None
        return _visibility(entry, known)
    return parse_entry(name, entry, source, environment, home)


def is_overlay(entry: Any) -> bool:
    """True for an entry that only changes one of an earlier file: it configures no server."""
    return isinstance(entry, Mapping) and bool(entry) and set(entry) <= OVERLAY_FIELDS


def parse_entry(name: str, entry: Any, source: Source, environment: Mapping[str, str], home: str) -> ServerConfig:
    """Parse one entry and expand its variables. Raises BadEntry."""
    if not is_server_name(name):
        raise BadEntry("", "a server name has 1 to 32 letters, digits, _ and -")
    if not isinstance(entry, Mapping):
        raise BadEntry("", "must be an object")
    if source.scope == "project" and (refused := [field for field in USER_ONLY_FIELDS if field in entry]):
        raise BadEntry(refused[0], "only your own mcp.json can set this")

    def expand(field: str) -> Expand:
        return lambda text: expand_variables(text, environment, field)

    transport = transport_of(entry)
    if transport == "stdio":
        config = _stdio(name, entry, source, expand, home)
    else:
        config = _http(name, entry, source, expand, transport)
    config = _visibility(entry, config)
    return replace(
        config,
        description=_text(entry, "description"),
        timeout=_seconds(entry, "timeout", config.timeout),
        startup_timeout=_seconds(entry, "startupTimeout", config.startup_timeout),
        max_timeout=_seconds(entry, "maxTimeout", config.max_timeout),
        idle_timeout=_seconds(entry, "idleTimeout", config.idle_timeout),
        eager=_flag(entry, "eager"),
        in_sandbox=_choice(entry, "sandbox", ("inside", "outside"), "outside") == "inside",
        trust_annotations=_flag(entry, "trustAnnotations"),
        inherit_env=_choice(entry, "inheritEnv", ("all", "none"), "all") == "all",
    )


def transport_of(entry: Mapping[str, Any]) -> Transport:
    """How a server is reached. Raises BadEntry."""
    kind = entry.get("type")
    if kind is None:
        if "command" in entry:
            return "stdio"
        if "url" in entry:
            return "http"
        raise BadEntry("", 'needs "command" or "url"')
    if not isinstance(kind, str) or kind not in TRANSPORTS:
        raise BadEntry("type", "must be stdio, http, streamable-http or sse")
    return TRANSPORTS[kind]


def _stdio(
    name: str, entry: Mapping[str, Any], source: Source, expand: Callable[[str], Expand], home: str
) -> ServerConfig:
    command = expand("command")(_text(entry, "command", required=True))
    args = entry.get("args", [])
    if not isinstance(args, list) or not all(isinstance(item, str) for item in args):
        raise BadEntry("args", "must be a list of strings")
    env, commands = _values(entry, "env", expand("env"))
    if any("\0" in text for text in (command, *args, *(value for _, value in env), _text(entry, "cwd"))):
        raise BadEntry("", "must not contain a NUL character")
    return ServerConfig(
        name=name,
        source=source,
        transport="stdio",
        command=_with_home(command, home),
        args=tuple(_with_home(expand("args")(item), home) for item in args),
        env=env,
        commands=commands,
        cwd=_with_home(expand("cwd")(_text(entry, "cwd")), home),
    )


def _http(
    name: str, entry: Mapping[str, Any], source: Source, expand: Callable[[str], Expand], transport: Transport
) -> ServerConfig:
    url = expand("url")(_text(entry, "url", required=True))
    if not _is_web_address(url):
        raise BadEntry("url", "must be an http or https address")
    headers, commands = _values(entry, "headers", expand("headers"))
    return ServerConfig(
        name=name,
        source=source,
        transport=transport,
        url=url,
        headers=headers,
        commands=commands,
        oauth=_oauth(entry),
    )


def _is_web_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets without an address, or a port that is none
        return False


def _oauth(entry: Mapping[str, Any]) -> OAuthOptions:
    given = entry.get("oauth")
    if given is None or given is False:
        return OAuthOptions()
    if not isinstance(given, Mapping):
        raise BadEntry("oauth", "must be an object")
    port = given.get("callbackPort")
    if port is not None and (not isinstance(port, int) or not 0 < port < 65536):
        raise BadEntry("oauth.callbackPort", "must be a port")
    texts: dict[str, str | None] = {}
    for field in ("clientId", "clientSecret", "scope"):
        value = given.get(field)
        if value is not None and not isinstance(value, str):
            raise BadEntry(f"oauth.{field}", "must be a string")
        texts[field] = value
    return OAuthOptions(texts["clientId"], texts["clientSecret"], texts["scope"], port)


def _visibility(entry: Mapping[str, Any], config: ServerConfig) -> ServerConfig:
    enabled = config.enabled
    if "disabled" in entry:
        enabled = not _flag(entry, "disabled")
    if "enabled" in entry:
        enabled = _flag(entry, "enabled")
    given = entry.get("toolExposure", {})
    if not isinstance(given, Mapping):
        raise BadEntry("toolExposure", "must be an object")
    patterns = tuple((str(pattern), _exposure(f"toolExposure.{pattern}", value)) for pattern, value in given.items())
    return replace(
        config,
        enabled=enabled,
        exposure=_exposure("exposure", entry["exposure"]) if "exposure" in entry else config.exposure,
        tool_exposure=patterns if "toolExposure" in entry else config.tool_exposure,
    )


def _exposure(field: str, value: Any) -> Exposure:
    if not isinstance(value, str) or value not in EXPOSURES:
        raise BadEntry(field, "must be auto, direct, deferred or hidden")
    return EXPOSURES[value]


def _values(entry: Mapping[str, Any], field: str, expand: Expand) -> tuple[tuple[tuple[str, str], ...], frozenset[str]]:
    """Variables or headers, expanded, and the names of those whose value is a command."""
    given = entry.get(field, {})
    if not isinstance(given, Mapping):
        raise BadEntry(field, "must be an object")
    for name, value in given.items():
        if not isinstance(value, str):
            raise BadEntry(f"{field}.{name}", "must be a string")
        if not name or "=" in name or "\0" in name:
            raise BadEntry(field, f"{name!r} cannot be a name")
    commands = frozenset(name for name, value in given.items() if value.startswith("!"))
    values = tuple((name, value if name in commands else expand(_braced(value))) for name, value in given.items())
    return values, commands


def _braced(value: str) -> str:
    """`$NAME` and `Bearer $NAME`, as pi writes them, as `${NAME}`. In other values a dollar sign is a dollar sign."""
    return re.sub(r"^(Bearer )?\$([A-Za-z_]\w*)$", r"\g<1>${\2}", value)


def _text(entry: Mapping[str, Any], field: str, *, required: bool = False) -> str:
    value = entry.get(field, "")
    if not isinstance(value, str):
        raise BadEntry(field, "must be a string")
    if required and not value.strip():
        raise BadEntry(field, "must not be empty")
    return value


def _flag(entry: Mapping[str, Any], field: str) -> bool:
    value = entry.get(field, False)
    if not isinstance(value, bool):
        raise BadEntry(field, "must be true or false")
    return value


def _seconds(entry: Mapping[str, Any], field: str, default: float) -> float:
    value = entry.get(field, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 86_400:
        raise BadEntry(field, "must be a number of seconds from 0 to 86400")
    return float(value)


def _choice(entry: Mapping[str, Any], field: str, values: Sequence[str], default: str) -> str:
    value = entry.get(field, default)
    if value not in values:
        raise BadEntry(field, f"must be {' or '.join(values)}")
    return str(value)


def _with_home(text: str, home: str) -> str:
    return home + text[1:] if text.startswith("~/") else text


def expand_variables(text: str, environment: Mapping[str, str], field: str = "") -> str:
    """Replace `${NAME}` and `${NAME:-default}`. Raises BadEntry for a variable that is not set."""

    def value(match: re.Match[str]) -> str:
        name, default = match[1], match[2]
        if (found := environment.get(name)) is not None:
            return found
        if default is None:
            raise BadEntry(field, f"{name} is not set in the environment")
        return default

    return _VARIABLE.sub(value, text)


def fingerprint_fields(config: ServerConfig, hash_of: Callable[[str], str]) -> Iterator[str]:
    """What identifies a server for its cache. Values of variables and headers occur only as hashes."""
    yield from (config.name, config.transport, config.command, *config.args, "\0", config.cwd, config.url, "\0")
    for name, value in (*config.env, *config.headers):
        yield from (name, hash_of(value))

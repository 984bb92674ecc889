"""Where a host listens, from a URL: `unix:`, `unix:/path/to/socket`, `ws://…`, `wss://…`, `http://…`, `https://…`.

The token of an address on this machine is read from the agent folder, but only if the host's own file names that
address: a token is never sent to another program that listens here.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

from tau.errors import UsageError
from tau.records.base import BadRecord, parse

SCHEMES = {"ws": "ws", "http": "ws", "wss": "wss", "https": "wss"}
LOOPBACK = ("127.0.0.1", "localhost", "::1")
ENDPOINT = "/v1/ws"
FORMS = "unix:, unix:/path/to/socket, http://host:port or ws://host:port"
MAX_TOKEN_BYTES = 4096


class Address(NamedTuple):
    """A Unix socket (`path`), or a WebSocket (`url`) with the token to send."""

    path: str = ""
    url: str = ""
    token: str | None = None

    @property
    def name(self) -> str:
        """The address for messages, without the token."""
        return f"unix:{self.path}" if self.path else self.url


def serve_folder() -> Path:
    """The folder of the host's socket, token and `host.json`."""
    given = os.environ.get("PI_CODING_AGENT_DIR")
    return (Path(given).expanduser() if given else Path.home() / ".pi" / "agent") / "serve"


def find_address(url: str, token: str | None = None) -> Address:
    """Read the URL of a host. Raises UsageError."""
    scheme, colon, rest = url.partition(":")
    if scheme == "unix" and colon:
        path = rest.removeprefix("//")
        return Address(path=os.path.expanduser(path) if path else str(serve_folder() / "host.sock"))
    if scheme not in SCHEMES:
        raise UsageError(f"{url!r} is not the address of a host: expected {FORMS}.")
    parts = urlsplit(url)
    if not parts.hostname or parts.username or parts.query or parts.fragment:
        raise UsageError(f"{url!r} is not the address of a host: expected {FORMS}.")
    path = parts.path.rstrip("/")
    path = path if path.endswith(ENDPOINT) else path + ENDPOINT
    web = parts._replace(scheme=SCHEMES[scheme], path=path, query="", fragment="")
    return Address(url=web.geturl(), token=token or _own_token(parts))


def _own_token(parts: SplitResult) -> str | None:
    """The token of this user's host, if that is who listens at this address."""
    if parts.hostname not in LOOPBACK or _own_port() != parts.port:
        return None
    file = serve_folder() / "token"
    try:
        with open(os.open(file, os.O_RDONLY | os.O_NOFOLLOW), encoding="utf-8") as opened:
            mode = os.fstat(opened.fileno())
            if mode.st_uid != os.getuid() or stat.S_IMODE(mode.st_mode) & 0o077:
                raise UsageError(f"The token in {file} can be read by other users. Make it private: chmod 600 {file}")
            return opened.read(MAX_TOKEN_BYTES).strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def _own_port() -> int | None:
    try:
        found: Any = parse((serve_folder() / "host.json").read_bytes())
        port: int | None = urlsplit(found["url"]).port
        return port
    except (OSError, BadRecord, ValueError, KeyError, TypeError):
        return None

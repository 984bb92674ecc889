"""TCP of `tau serve`: which address, under which names it is reached, and the URL for a browser."""

from __future__ import annotations

import re
import time
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

from tau.cli.flags import ParsedArguments
from tau.errors import UsageError
from tau.serve.browser_url import browser_url
from tau.serve.credentials import Credentials
from tau.serve.host import Host
from tau.serve.request_checks import Allowed, allowed_names
from tau.serve.web.app import create_app
from tau.serve.web.listener import Listener, bind
from tau.serve.web.site import Site

DEFAULT_ADDRESS = "127.0.0.1:7717"
_ADDRESS = re.compile(r"(?:\[(?P<v6>[0-9a-fA-F:.]+)\]|(?P<name>[^:\[\]/]*)):(?P<port>\d{1,5})")


class Address(NamedTuple):
    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        return ip_address(self.host).is_loopback

    def url(self, port: int) -> str:
        return f"http://[{self.host}]:{port}" if ":" in self.host else f"http://{self.host}:{port}"


class TcpServer:
    """The listener, its application, and the URL of the page."""

    def __init__(self, listener: Listener, site: Site, url: str) -> None:
        self.url = url
        self._listener = listener
        self._site = site

    def browser_url(self) -> str:
        """An address that logs a browser in, once."""
        assert self._site.credentials is not None
        return browser_url(self.url, self._site.credentials)

    def stop_accepting(self) -> None:
        self._listener.stop_accepting()

    async def close(self) -> None:
        await self._listener.close()
        await self._site.close()


async def start(host: Host, arguments: ParsedArguments) -> TcpServer:
    """Listen where the flags say. Raises UsageError if an address is taken, or not allowed without further flags."""
    flags = arguments.flags
    address = parse_address(flags.get("listen", DEFAULT_ADDRESS))
    public = flags.get("public-url")
    check_address(address, public, insecure_lan="insecure-lan" in flags)
    credentials = Credentials(host.config.agent_dir / "serve", time.time)
    credentials.prepare()
    socket = bind(address.host, address.port)
    try:
        port: int = socket.getsockname()[1]
        site = Site(host, names(address, port, public), None, credentials)
        listener = Listener(create_app(site))
        site.connections = listener.connections
        await listener.start(socket)
    except BaseException:
        socket.close()
        raise
    site.start()
    return TcpServer(listener, site, public.rstrip("/") if public else address.url(port))


def parse_address(text: str) -> Address:
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found["port"]) > 65535:
        raise UsageError(f"--listen needs ADDRESS:PORT, such as {DEFAULT_ADDRESS}; not {text!r}")
    host = found["v6"] or found["name"]
    host = "127.0.0.1" if host == "localhost" else host
    try:
        ip_address(host)
    except ValueError:
        raise UsageError(f"--listen needs an IP address, such as {DEFAULT_ADDRESS}; not {text!r}") from None
    return Address(host, int(found["port"]))


def check_address(address: Address, public: str | None, *, insecure_lan: bool) -> None:
    """Tokens must not cross a network without TLS. Raises UsageError."""
    if public is not None and not _is_public_url(public):
        raise UsageError(f"--public-url needs the https URL of the reverse proxy, without a path; not {public!r}")
    if address.is_loopback or public is not None or insecure_lan:
        return
    raise UsageError(
        f"{address.host} is reachable from other machines, and tau has no TLS of its own: anyone on the way could read"
        " the token and run commands as you. Keep 127.0.0.1 and use ssh -L, or put a reverse proxy with TLS in front"
        " and name it with --public-url https://…. In a network where you trust everyone: --insecure-lan."
    )


def _is_public_url(url: str) -> bool:
    try:
        allowed_names([url])
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme == "https" and not parts.query and not parts.fragment and parts.path in ("", "/")


def names(address: Address, port: int, public: str | None) -> Allowed:
    """The names under which requests may ask for this server. They never come from a request."""
    urls = [f"http://127.0.0.1:{port}", f"http://localhost:{port}", f"http://[::1]:{port}"]
    if not ip_address(address.host).is_unspecified:
        urls.append(address.url(port))
    if public is not None:
        urls.append(public)
    return allowed_names(urls)

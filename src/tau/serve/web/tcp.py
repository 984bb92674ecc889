"""TCP of `tau serve`: which address, under which names it is reached, and the URL for a browser."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from contextlib import suppress
from ipaddress import ip_address
from socket import AF_INET, AF_INET6, SOCK_DGRAM, socket
from typing import NamedTuple
from urllib.parse import urlsplit

from tau.cli.flags import ParsedArguments
from tau.errors import UsageError
from tau.records.base import replace
from tau.serve.browser_url import browser_url
from tau.serve.credentials import Credentials
from tau.serve.host import Host
from tau.serve.request_checks import Allowed, allowed_names, base_url
from tau.serve.web.app import create_app
from tau.serve.web.listener import Listener, bind
from tau.serve.web.site import Site

DEFAULT_ADDRESS = "127.0.0.1:7717"
REMEDY = (
    "If the address is yours: --public-url of tau serve names that of a reverse proxy, which must pass Host on with its"
    " port; --listen 0.0.0.0:PORT with --insecure-lan serves all addresses of this machine."
)
_ADDRESS = re.compile(r"(?:\[(?P<v6>[0-9a-fA-F:.]+)\]|(?P<name>[^:\[\]/]*)):(?P<port>\d{1,5})")


class Address(NamedTuple):
    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        return ip_address(self.host).is_loopback

    def url(self, port: int) -> str:
        """The address for others. Without one of its own, it is that of the route to elsewhere."""
        return base_url(own_address(self.host) if ip_address(self.host).is_unspecified else self.host, port)


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
    insecure_lan = "insecure-lan" in flags
    check_address(address, public, insecure_lan=insecure_lan)
    credentials = Credentials(host.config.agent_dir / "serve", time.time)
    credentials.prepare()
    bound = bind(address.host, address.port)
    try:
        port: int = bound.getsockname()[1]
        site = Site(host, names(address, port, public, insecure_lan=insecure_lan), None, credentials)
        listener = Listener(create_app(site))
        site.connections = listener.connections
        await listener.start(bound)
    except BaseException:
        bound.close()
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
    if public is not None and not _is_public_url(public, ("https", "http") if insecure_lan else ("https",)):
        raise UsageError(
            "--public-url needs the https URL of the reverse proxy, without a path; with --insecure-lan it may be"
            f" an http URL; not {public!r}"
        )
    if address.is_loopback or public is not None or insecure_lan:
        return
    raise UsageError(
        f"{address.host} is reachable from other machines, and tau has no TLS of its own: anyone on the way could read"
        " the token and run commands as you. Keep 127.0.0.1 and use ssh -L, or put a reverse proxy with TLS in front"
        " and name it with --public-url https://…. In a network where you trust everyone: --insecure-lan."
    )


def _is_public_url(url: str, schemes: Sequence[str]) -> bool:
    try:
        allowed_names([url])
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in schemes and not parts.query and not parts.fragment and parts.path in ("", "/")


def own_address(wildcard: str) -> str:
    """The address of this machine from which others are reached. Nothing is sent."""
    family, elsewhere, here = (
        (AF_INET6, "2001:db8::1", "::1") if ":" in wildcard else (AF_INET, "192.0.2.1", "127.0.0.1")
    )
    with socket(family, SOCK_DGRAM) as probe, suppress(OSError):
        probe.connect((elsewhere, 9))
        here = probe.getsockname()[0]
    return here


def names(address: Address, port: int, public: str | None, *, insecure_lan: bool) -> Allowed:
    """The names under which requests may ask for this server. They never come from a request."""
    urls = [f"http://127.0.0.1:{port}", f"http://localhost:{port}", f"http://[::1]:{port}"]
    is_wildcard = ip_address(address.host).is_unspecified
    if not is_wildcard:
        urls.append(address.url(port))
    if public is not None:
        urls.append(public)
    return replace(allowed_names(urls), own_addresses=is_wildcard and insecure_lan, remedy=REMEDY)

"""Which proxy a request goes through, according to an environment.

A proxy speaks HTTP (http://, https://) or SOCKS5. The variables are those of curl and other programs: http_proxy,
https_proxy, all_proxy and no_proxy, in lower or upper case. If the environment has none of them, the proxies of the
system settings are used (macOS). Local servers are always reached directly.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from tau.errors import ModelError

SOCKS_SCHEMES = ("socks5", "socks5h", "socks")  # llm/socks.py implements them


def proxy_for(url: str, environment: Mapping[str, str]) -> str | None:
    """The URL of the proxy for this URL, or None. Raises ModelError for a proxy that cannot be used."""
    address = urlsplit(url)
    host = address.hostname or ""
    if host in ("localhost", "::1") or re.fullmatch(r"127(\.\d+){1,3}", host):  # not 127.0.0.1.example.com
        return None
    proxies = environment_proxies(environment)
    if not proxies:
        return _system_proxy(address.scheme, host)
    proxy = proxies.get(address.scheme) or proxies.get("all")
    if not proxy:
        return None
    port = address.port or {"http": 80}.get(address.scheme, 443)
    exceptions = re.split(r"[\s,]+", proxies.get("no", "").lower())
    if any(_matches_no_proxy(host, port, exception) for exception in exceptions):
        return None
    return _check_proxy(proxy, address.scheme)


def environment_proxies(environment: Mapping[str, str]) -> dict[str, str]:
    """The proxies that an environment names, by scheme. "all" is for every scheme, "no" has the exceptions.

    As urllib.request.getproxies_environment, which reads the environment of the process: lower case wins, also if it
    is empty. HTTP_PROXY of a CGI script is ignored, because a client can set it with the header "Proxy".
    """
    named = {name: value for name, value in environment.items() if name[-6:].lower() == "_proxy"}
    upper = {name[:-6].lower(): value for name, value in named.items() if value}
    if "REQUEST_METHOD" in environment:
        upper.pop("http", None)
    lower = {name[:-6].lower(): value for name, value in named.items() if name.endswith("_proxy")}
    return {scheme: proxy for scheme, proxy in {**upper, **lower}.items() if proxy}


def _system_proxy(scheme: str, host: str) -> str | None:
    """The proxy of the system settings."""
    if sys.platform != "darwin":
        return None
    import urllib.request

    system: Any = urllib.request  # its type stubs lack these functions
    proxies: dict[str, str] = system.getproxies_macosx_sysconf()
    proxy = proxies.get(scheme) or proxies.get("all")
    if not proxy or system.proxy_bypass_macosx_sysconf(host):
        return None
    return _check_proxy(proxy, scheme)


def _check_proxy(proxy: str, scheme: str) -> str:
    """Return the URL of a proxy. It may contain a password, so errors do not quote it."""
    address = proxy if "://" in proxy else f"http://{proxy}"
    try:
        parts = urlsplit(address)
        valid = bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise ModelError(f"The proxy address for {scheme} is invalid.", transient=False)
    if parts.scheme in SOCKS_SCHEMES:
        return parts.geturl()  # with the scheme in lower case
    if parts.scheme not in ("http", "https"):
        raise ModelError(f"tau does not support {parts.scheme} proxies.", transient=False)
    return address


def _matches_no_proxy(host: str, port: int, exception: str) -> bool:
    """True if an entry of NO_PROXY covers this host, in any of the common notations."""
    if exception == "*":
        return True
    if "/" in exception:
        return _in_network(host, exception)
    name, at = exception, ""
    if found := re.fullmatch(r"(\[.*\]|[^:]*):(\d+)", exception):
        name, at = found.groups()
    name = name.strip("[]").removeprefix("*").lstrip(".")
    return bool(name) and (host == name or host.endswith(f".{name}")) and at in ("", str(port))


def _in_network(host: str, network: str) -> bool:
    import ipaddress

    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False

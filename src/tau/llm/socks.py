"""Connections through a SOCKS5 proxy (RFC 1928), without or with a password (RFC 1929).

With `socks5://` this machine resolves the name of the server, with `socks5h://` and `socks://` the proxy does, as in
curl.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
from contextlib import suppress
from urllib.parse import SplitResult, unquote

DEFAULT_PORT = 1080
HANDSHAKE_TIMEOUT_S = 10.0  # until the proxy accepts the client; a connection to the server may take longer
REMOTE_NAMES = ("socks5h", "socks")  # schemes with which the proxy resolves names
VERSION, PASSWORD_VERSION = 5, 1
NO_AUTHENTICATION, PASSWORD = 0, 2
CONNECT = 1
IPV4, NAME, IPV6 = 1, 3, 4
REPLIES = {
    1: "general failure",
    2: "the rules of the proxy do not allow this connection",
    3: "network unreachable",
    4: "host unreachable",
    5: "connection refused",
    6: "timed out",
    7: "command not supported",
    8: "address type not supported",
}


class SocksError(ConnectionError):
    """The proxy refused the connection. `final` if a retry cannot help: a wrong password, or a rule."""

    def __init__(self, message: str, *, final: bool = False) -> None:
        super().__init__(f"the SOCKS proxy: {message}")
        self.final = final


async def open_socket(proxy: SplitResult, host: str, port: int) -> socket.socket:
    """A socket that is connected to `host` through the proxy. Raises OSError."""
    loop = asyncio.get_running_loop()
    target = host if proxy.scheme in REMOTE_NAMES else await _resolve(host, port)
    sock = await _connect(proxy.hostname or "", proxy.port or DEFAULT_PORT)
    try:
        async with asyncio.timeout(HANDSHAKE_TIMEOUT_S):
            await _negotiate(sock, proxy)
        request = bytes([VERSION, CONNECT, 0]) + _address(target) + port.to_bytes(2, "big")
        await loop.sock_sendall(sock, request)
        await _read_reply(sock, host, port)
        return sock
    except TimeoutError:
        sock.close()
        raise SocksError(f"it did not answer within {HANDSHAKE_TIMEOUT_S:g} s; it may speak another protocol") from None
    except BaseException:
        sock.close()
        raise


async def _negotiate(sock: socket.socket, proxy: SplitResult) -> None:
    """Agree on a way to authenticate, and authenticate."""
    offered = [NO_AUTHENTICATION] if proxy.username is None else [NO_AUTHENTICATION, PASSWORD]
    await asyncio.get_running_loop().sock_sendall(sock, bytes([VERSION, len(offered), *offered]))
    version, method = await _read(sock, 2)
    if version != VERSION:
        raise SocksError("it does not speak SOCKS5", final=True)
    if method == PASSWORD and proxy.username is not None:
        await _authenticate(sock, unquote(proxy.username), unquote(proxy.password or ""))
    elif method != NO_AUTHENTICATION:
        what = "it wants a password" if proxy.username is None else "it accepts no password"
        raise SocksError(what, final=True)


async def _connect(host: str, port: int) -> socket.socket:
    """Connect to the proxy: to the first of its addresses that answers."""
    loop = asyncio.get_running_loop()
    failure: OSError = OSError("unknown host")
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ConnectionError(f"cannot connect to the proxy {host}:{port}: {error.strerror or error}") from None
    for family, kind, protocol, _, address in found:
        sock = socket.socket(family, kind, protocol)
        sock.setblocking(False)
        try:
            await loop.sock_connect(sock, address)
            with suppress(OSError):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock
        except OSError as error:
            sock.close()
            failure = error
        except BaseException:
            sock.close()
            raise
    raise ConnectionError(
        f"cannot connect to the proxy {host}:{port}: {os.strerror(failure.errno) if failure.errno else failure}"
    )


async def _resolve(host: str, port: int) -> str:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ConnectionError(f"cannot connect to {host}:{port}: {error.strerror or error}") from None
    return str(found[0][4][0])


async def _authenticate(sock: socket.socket, name: str, password: str) -> None:
    parts = [name.encode(), password.encode()]
    if any(len(part) > 255 for part in parts):
        raise SocksError("the user name or password is longer than 255 bytes", final=True)
    request = bytes([PASSWORD_VERSION]) + b"".join(bytes([len(part)]) + part for part in parts)
    await asyncio.get_running_loop().sock_sendall(sock, request)
    _, status = await _read(sock, 2)
    if status != 0:
        raise SocksError("it rejected the user name or password", final=True)


def _address(host: str) -> bytes:
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        name = host.encode("ascii")
        if len(name) > 255:
            raise ValueError("the host name is longer than 255 bytes") from None
        return bytes([NAME, len(name)]) + name
    return bytes([IPV4 if address.version == 4 else IPV6]) + address.packed


async def _read_reply(sock: socket.socket, host: str, port: int) -> None:
    _, code, _, kind = await _read(sock, 4)
    if code != 0:
        raise SocksError(f"{host}:{port}: {REPLIES.get(code, f'error {code}')}", final=code == 2)
    length = (await _read(sock, 1))[0] if kind == NAME else {IPV4: 4, IPV6: 16}.get(kind, 0)
    await _read(sock, length + 2)  # the address from which the proxy connects


async def _read(sock: socket.socket, count: int) -> bytes:
    loop, data = asyncio.get_running_loop(), b""
    while len(data) < count:
        try:
            chunk = await loop.sock_recv(sock, count - len(data))
        except ConnectionError:
            chunk = b""
        if not chunk:
            raise SocksError("it closed the connection")
        data += chunk
    return data

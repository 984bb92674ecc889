"""Single small HTTP requests beside model calls, such as OAuth token requests and checks of API keys.

They use the same proxies, certificates and protocol limits as model calls. Redirects are not followed, because the
requests contain secrets. Each request has its own connection, so that a thread can send it without an event loop of
its own: `asyncio.run(fetch(...))`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from tau.core.checks.secrets import redact_url
from tau.errors import ModelError
from tau.llm.http import trusted_certificates
from tau.llm.http_pool import ConnectionPool
from tau.llm.proxies import proxy_for
from tau.records.base import BadRecord, parse

MAX_BODY_BYTES = 4 * 1024 * 1024
REQUEST_TIMEOUT_S = 20.0


class SmallResponse(NamedTuple):
    status: int
    body: bytes
    headers: Mapping[str, str] = MappingProxyType({})  # with names in lower case

    @property
    def content(self) -> dict[str, Any]:
        """The body as a JSON object; empty if it is anything else."""
        try:
            content = parse(self.body)
        except BadRecord:
            return {}
        return content if isinstance(content, dict) else {}


async def fetch(
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes = b"",
    *,
    environment: Mapping[str, str],
    timeout: float = REQUEST_TIMEOUT_S,
) -> SmallResponse:
    """Send a request and return the response, whatever its status. Raises ModelError without the secrets of the URL."""
    pool = ConnectionPool(trusted_certificates)
    sent = {"accept": "application/json", "accept-encoding": "identity", "user-agent": "tau", **headers}
    if body or method != "GET":
        sent["content-length"] = str(len(body))
    try:
        async with asyncio.timeout(timeout):
            proxy = proxy_for(url, environment)
            exchange = await pool.request(method, url, sent, [body] if body else [], proxy=proxy)
            received = b""
            while chunk := await exchange.read():
                received += chunk
                if len(received) > MAX_BODY_BYTES:
                    raise ModelError(f"{redact_url(url)} sent more than {MAX_BODY_BYTES >> 20} MiB.", transient=False)
            return SmallResponse(exchange.status, received, dict(exchange.headers))
    except TimeoutError:
        raise ModelError(f"{redact_url(url)} did not answer within {timeout:g} s.", transient=True) from None
    except OSError as error:
        final = getattr(error, "final", False)  # such as a proxy that rejected the password
        raise ModelError(f"{redact_url(url)}: {error or type(error).__name__}", transient=not final) from None
    except ValueError as error:
        raise ModelError(f"Bad address or header for {redact_url(url)!r}: {error}", transient=False) from None
    finally:
        await pool.close()

"""Site: what the routes share: the host, the checks of requests, and the credentials."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from tau.errors import UsageError
from tau.serve.credentials import Credentials
from tau.serve.host import Host
from tau.serve.metrics import LAG_BUCKETS_S, Histogram
from tau.serve.request_checks import Allowed
from tau.serve.request_gate import Authenticate, RequestGate
from tau.serve.web.connections import ConnectionTable

logger = logging.getLogger(__name__)
REVOCATION_INTERVAL_S = 0.5
EXPIRY_INTERVAL_S = 30.0


class Site:
    """Without `credentials`, the program that mounts the application authenticates, and ends channels itself."""

    def __init__(
        self, host: Host, allowed: Allowed, authenticate: Authenticate | None, credentials: Credentials | None
    ) -> None:
        check = credentials.authenticate if authenticate is None and credentials is not None else authenticate
        if check is None:
            raise ValueError("an application needs `authenticate` or credentials")
        self.host = host
        self.credentials = credentials
        self.gate = RequestGate(allowed, check)
        self.loop_lag = Histogram(LAG_BUCKETS_S)
        self.connections: ConnectionTable | None = None  # of our own listener
        self._watching: asyncio.Task[None] | None = None
        self._problem = ""

    def start(self) -> None:
        """Watch for revoked credentials, and how late the event loop is. May be called often."""
        if self._watching is None:
            self._watching = asyncio.get_running_loop().create_task(self._watch())

    async def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait({self._watching})
            self._watching = None

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        next_check = 0.0
        while True:
            due = loop.time() + REVOCATION_INTERVAL_S
            await asyncio.sleep(REVOCATION_INTERVAL_S)
            self.loop_lag.add(loop.time() - due)
            if (credentials := self.credentials) is None:
                continue
            changed = False
            try:
                changed = credentials.reload()
                self._problem = ""
            except (UsageError, OSError) as error:  # what was known stays valid
                if str(error) != self._problem:
                    logger.error("the credentials cannot be read: %s", error)
                self._problem = str(error)
            if changed or due >= next_check:  # logins expire
                next_check = due + EXPIRY_INTERVAL_S
                self.end_revoked(credentials.valid)

    def end_revoked(self, valid: Callable[[str], bool]) -> None:
        """End the channels of credentials that are not valid any more."""
        used = {channel.credential for channel in self.host.channels}
        for credential in used:
            if credential is not None and not valid(credential):
                self.host.revoke(credential)

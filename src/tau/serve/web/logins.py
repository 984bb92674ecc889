"""`POST /v1/login` and `/v1/logout`: a browser exchanges a one-time code for a credential of its own. No cookies."""

from __future__ import annotations

import asyncio
import logging

from starlette.requests import Request
from starlette.responses import Response

from tau.errors import UsageError
from tau.serve.credentials import LOGIN_LIFETIME_S, MAX_NAME
from tau.serve.web.gate import address_of
from tau.serve.web.replies import access_of, error_reply, json_reply, read_object
from tau.serve.web.site import Site

logger = logging.getLogger(__name__)
MAX_LOGIN_BODY = 4096
NO_FILES = "The logins cannot be read or written now. The log of the server says why."
NO_LOGINS = "This server has no logins: its program checks the credentials."


class Logins:
    def __init__(self, site: Site) -> None:
        self._site = site

    async def login(self, request: Request) -> Response:
        body = await read_object(request, MAX_LOGIN_BODY)
        credentials = self._site.credentials
        if credentials is None:
            return error_reply(404, NO_LOGINS)
        code, name = body.get("code"), body.get("name")
        if not isinstance(code, str) or not (name is None or isinstance(name, str)):
            return error_reply(400, "code: expected a string")
        shown = "".join(sign for sign in name or "browser" if sign.isprintable())[:MAX_NAME]
        try:
            token = await asyncio.to_thread(credentials.redeem_code, code, shown)
        except (UsageError, OSError) as error:  # also a lock that another program holds
            logger.error("a login failed: %s", error)
            return error_reply(503, NO_FILES)
        access = None if token is None else credentials.authenticate(token)
        if token is None or access is None:
            refusal = self._site.gate.failed(address_of(request.scope), asyncio.get_running_loop().time())
            self._site.gate.refused["credential"] += 1
            return error_reply(refusal.status, "The code is wrong, used or too old. Get a new one: tau serve url")
        return json_reply(
            {"token": token, "name": access.name, "scope": access.scope, "days": LOGIN_LIFETIME_S / 86400}
        )

    async def logout(self, request: Request) -> Response:
        """Revoke the login that this request uses, and end its channels."""
        credentials, credential = self._site.credentials, access_of(request).credential
        if credentials is None:
            return error_reply(404, NO_LOGINS)
        if credential is None or not credential.startswith("login:"):
            return error_reply(409, "This is a token, not a login: tau serve token revoke NAME")
        try:
            await asyncio.to_thread(credentials.remove_login, credential)
        except (UsageError, OSError) as error:
            logger.error("a logout failed: %s", error)
            return error_reply(503, NO_FILES)
        self._site.end_revoked(credentials.valid)
        return Response(status_code=204)

"""Sessions over HTTP: list, open, snapshot, close and export."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from tau.errors import CommandError
from tau.records.base import Raw, encode, parse
from tau.runtime.history.html_export import session_page
from tau.runtime.history.session_log import SessionLog
from tau.serve.snapshot import newest_entries, snapshot_line
from tau.serve.web.calls import Answer, Call, ask
from tau.serve.web.replies import access_of, failure_reply, flag, json_reply, number, read_object
from tau.serve.web.site import Site
from tau.store.sessions import open_session

MAX_PAGE = 200
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]")  # the id of a session file can be any text
MAX_FILES_READ = 2  # at once: a session file may be large, and others need a thread too


class Sessions:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._reading = asyncio.Semaphore(MAX_FILES_READ)

    async def list(self, request: Request) -> Response:
        answer = await ask(
            self._site.host,
            access_of(request),
            "list_sessions",
            {
                "all": flag(request, "all") or None,
                "live": flag(request, "live") or None,
                "cursor": request.query_params.get("cursor"),
                "limit": number(request, "limit", MAX_PAGE, MAX_PAGE),
            },
        )
        return json_reply(bytes(answer.data)) if answer.success else failure_reply(answer)

    async def host(self, request: Request) -> Response:
        """What a channel says after `hello`: the version, the host, and the scope of the credential."""
        call = Call(self._site.host, access_of(request), "http")
        try:
            greeting = await call.hello()
        finally:
            await call.close()
        return json_reply(bytes(greeting.data)) if greeting.success else failure_reply(greeting)

    async def open(self, request: Request) -> Response:
        wanted = await read_object(request)
        wanted.pop("id", None)
        answer = await ask(self._site.host, access_of(request), "open_session", {**wanted, "attach": False})
        if not answer.success:
            return failure_reply(answer)
        opened = parse(bytes(answer.data))
        place = f"{request.scope.get('root_path', '')}/v1/sessions/{quote(opened['session'], safe='')}"
        return json_reply(bytes(answer.data), 201, location=place)

    async def snapshot(self, request: Request) -> Response:
        entry = request.query_params.get("entry")
        live = self._site.host.live(request.path_params["id"])
        if live is not None:
            return json_reply(b'%b,"live":true}' % snapshot_line(live, "new", entry)[:-1])
        try:
            async with self._reading:
                return json_reply(await asyncio.to_thread(self._stored, request.path_params["id"], entry))
        except CommandError as error:
            return failure_reply(Answer("response", False, error=str(error)))

    def _stored(self, id: str, entry: str | None) -> bytes:
        """What a session file says. Nothing is opened."""
        log = self._read(id)
        entries, more = newest_entries(log.tree, len(log.tree), entry)
        return encode(
            {
                "session": log.header.id,
                "live": False,
                "leafId": log.tree.leaf_id,
                "name": log.tree.name,
                "entries": [Raw(line) for line in entries],
                "more": more,
            }
        )

    async def close(self, request: Request) -> Response:
        answer = await ask(
            self._site.host,
            access_of(request),
            "close_session",
            {"session": request.path_params["id"], "abort": flag(request, "abort") or None},
        )
        return Response(status_code=204) if answer.success else failure_reply(answer)

    async def export(self, request: Request) -> Response:
        try:
            log = await self.log(request.path_params["id"])
        except CommandError as error:
            return failure_reply(Answer("response", False, error=str(error)))
        name = f'attachment; filename="{_NOT_IN_NAMES.sub("_", log.header.id)[:100]}.html"'
        page: Iterator[bytes] = session_page(log)
        return StreamingResponse(page, media_type="text/html; charset=utf-8", headers={"content-disposition": name})

    async def log(self, id: str) -> SessionLog:
        """The conversation of a session, live or from its file. Raises CommandError."""
        if (live := self._site.host.live(id)) is not None:
            return live.handle.log
        async with self._reading:
            return await asyncio.to_thread(self._read, id)

    def _read(self, id: str) -> SessionLog:
        path: Path = self._site.host.opener.find(id)
        found = open_session(path)
        return SessionLog(found.header, None, _ignore, found.tree)


def _ignore(error: OSError) -> None:
    """A log that was only read has nothing to write."""

"""What the page asks for besides the stream: cards, branches, files for `@`, and the figures of a session."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from tau.concurrency.threads import run_in_thread
from tau.core.conversation.stats import session_counts
from tau.errors import CommandError
from tau.export.branch import part_cards
from tau.records.base import to_builtins
from tau.runtime.history.session_log import SessionLog
from tau.serve.live_session import LiveSession
from tau.serve.transcript import branch_part, outline_rows
from tau.serve.web.calls import Answer
from tau.serve.web.replies import access_of, error_reply, failure_reply, json_reply, number
from tau.serve.web.site import Site
from tau.tui.file_index import FileIndex

MAX_CARDS = 1000
CARDS = 200
MAX_FILES = 50
MAX_INDEXES = 16
LIST_TIMEOUT_S = 5.0
NO_ENTRY = "There is no such entry on this branch."

ReadLog = Callable[[str], Awaitable[SessionLog]]


class Transcript:
    """`read_log` returns the conversation of a session, live or from its file. It raises CommandError."""

    def __init__(self, site: Site, read_log: ReadLog) -> None:
        self._site = site
        self._read_log = read_log
        self._indexes: dict[str, FileIndex] = {}  # by folder, the one used last at the end

    async def cards(self, request: Request) -> Response:
        """Finished entries of the branch as inert HTML: those after, or before, an entry; else the newest."""
        query = request.query_params
        limit = number(request, "limit", CARDS, MAX_CARDS)
        try:
            log = await self._read_log(request.path_params["id"])
        except CommandError as error:
            return failure_reply(Answer("response", False, error=str(error)))
        leaf = log.tree.leaf_id
        try:
            part, more = branch_part(
                log.tree, log.header.cwd, after=query.get("after"), before=query.get("before"), limit=limit
            )
        except KeyError:
            return error_reply(404, NO_ENTRY)
        cards, cut = await asyncio.to_thread(part_cards, part, limit)
        rows = [{"id": card.id, "html": card.html, "calls": card.calls} for card in cards]
        return json_reply({"session": log.header.id, "leafId": leaf, "cards": rows, "more": more or cut})

    async def outline(self, request: Request) -> Response:
        """The prompts and ends of all branches."""
        try:
            log = await self._read_log(request.path_params["id"])
        except CommandError as error:
            return failure_reply(Answer("response", False, error=str(error)))

        leaf = log.tree.leaf_id  # a session that is live gets more entries meanwhile

        def rows() -> list[dict[str, Any]]:
            return list(outline_rows(list(log.tree.entries()), leaf, log.header.cwd))

        return json_reply({"session": log.header.id, "rows": await asyncio.to_thread(rows)})

    async def overview(self, request: Request) -> Response:
        """Folder, totals and budget of a session. The totals are those of all branches."""
        live = self._site.host.live(request.path_params["id"])
        try:
            log = await self._read_log(request.path_params["id"])
        except CommandError as error:
            return failure_reply(Answer("response", False, error=str(error)))
        if live is None:
            stats = await asyncio.to_thread(lambda: session_counts(log.tree).update(log.tree).stats(log.header.id))
            return json_reply({"session": log.header.id, "cwd": log.header.cwd, "stats": to_builtins(stats)})
        return json_reply({"session": live.id, "cwd": live.cwd, **_figures(live)})

    async def files(self, request: Request) -> Response:
        """Files of the project folder that match `query`, the best first. Folders end with a slash."""
        if not access_of(request).allows("drive"):
            return error_reply(403, "This credential does not allow it.")
        live = self._site.host.live(request.path_params["id"])
        try:
            log = await self._read_log(request.path_params["id"])
        except CommandError as error:
            return failure_reply(Answer("response", False, error=str(error)))
        if live is None:
            try:  # it may have been deleted
                cwd = await asyncio.to_thread(
                    self._site.host.opener.folder, log.header.cwd or self._site.host.config.cwd
                )
            except CommandError as error:
                return error_reply(403, str(error))
        else:
            cwd = live.cwd
        index = self._index(cwd)
        wanted = request.query_params.get("query", "")
        found = await run_in_thread(lambda: _search(index, wanted), "file completion")
        return json_reply({"files": found})

    def _index(self, cwd: str) -> FileIndex:
        index = self._indexes.pop(cwd, None) or FileIndex(cwd)
        self._indexes[cwd] = index
        while len(self._indexes) > MAX_INDEXES:
            del self._indexes[next(iter(self._indexes))]
        return index


def _figures(live: LiveSession) -> dict[str, Any]:
    budget, spent = live.handle.budget, live.handle.spent
    used = {"turns": spent.turns, "tokens": spent.tokens, "cost": spent.cost, "costUnknown": spent.cost_unknown}
    return {"stats": to_builtins(live.handle.stats()), "budget": to_builtins(budget), "spent": used}


def _search(index: FileIndex, wanted: str) -> list[str]:
    """The best matches of a list that is complete, or as far as it came. Blocks."""
    index.refresh()
    index.wait(LIST_TIMEOUT_S)
    found: list[str] = index.top_level(MAX_FILES) if not wanted else []
    if wanted:
        for better in index.search(wanted, MAX_FILES):
            found = better
    with suppress(UnicodeEncodeError):
        "".join(found).encode()
        return found
    return [path for path in found if path.isprintable()]

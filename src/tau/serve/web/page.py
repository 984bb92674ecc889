"""`GET /` and `/static/…`: the page. Its files are in `tau/serve/page`; without them, a page that says so."""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
import os
import pkgutil
from functools import lru_cache
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from tau.serve.web.replies import error_reply

FOLDER = Path(__file__).parent.parent / "page"
INDEX = "index.html"
STYLE = "style.css"
TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".html": "text/html"}
NO_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>tau</title>
<h1>tau is running</h1>
<p>This version has no page for browsers. Programs use <code>/v1</code>: see docs/serve.md.</p>
</html>
"""


class Page:
    """Serves the files directly in one folder: no subfolders, no links to elsewhere."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder

    async def index(self, request: Request) -> Response:
        path = self._folder / INDEX
        if os.path.isfile(path):
            return _reply(request, path.read_bytes(), "text/html; charset=utf-8")
        return Response(NO_PAGE, media_type="text/html; charset=utf-8")

    async def static(self, request: Request) -> Response:
        name = request.path_params["name"]
        path = self._folder / name
        known = "/" not in name and "\\" not in name and not name.startswith(".") and name in self._names()
        if not known or not os.path.isfile(path) or os.path.islink(path):
            return error_reply(404, "There is no such file.")
        kind = TYPES.get(path.suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"
        content = path.read_bytes()
        if name == STYLE:  # one request for the style of the cards and that of the page around them
            content = (pkgutil.get_data("tau.export", "cards.css") or b"") + content
        return _reply(request, content, kind)

    def _names(self) -> list[str]:
        try:
            return os.listdir(self._folder)
        except OSError:
            return []

    async def icon(self, request: Request) -> Response:
        return Response(status_code=204)


def _reply(request: Request, content: bytes, kind: str) -> Response:
    """A file that browsers keep, but ask about each time: it changes with the version of tau."""
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = {"cache-control": "no-cache", "etag": tag, "vary": "accept-encoding"}
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(_compressed(content), headers={**headers, "content-encoding": "gzip"}, media_type=kind)
    return Response(content, headers=headers, media_type=kind)


@lru_cache(maxsize=32)
def _compressed(content: bytes) -> bytes:
    return gzip.compress(content, 6, mtime=0)

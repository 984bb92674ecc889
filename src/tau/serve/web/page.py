"""`GET /` and `/static/…`: the page. Its files are in `tau/serve/page`; without them, a page that says so."""

from __future__ import annotations

import mimetypes
import os
from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, Response

from tau.serve.web.replies import error_reply

FOLDER = Path(__file__).parent.parent / "page"
INDEX = "index.html"
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
        if path.is_file():
            return FileResponse(path, media_type="text/html; charset=utf-8", headers={"cache-control": "no-cache"})
        return Response(NO_PAGE, media_type="text/html; charset=utf-8")

    async def static(self, request: Request) -> Response:
        name = request.path_params["name"]
        path = self._folder / name
        known = "/" not in name and "\\" not in name and not name.startswith(".") and name in self._names()
        if not known or not path.is_file() or path.is_symlink():
            return error_reply(404, "There is no such file.")
        kind = TYPES.get(path.suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"
        return FileResponse(path, media_type=kind, headers={"cache-control": "no-cache"})

    def _names(self) -> list[str]:
        try:
            return os.listdir(self._folder)
        except OSError:
            return []

    async def icon(self, request: Request) -> Response:
        return Response(status_code=204)

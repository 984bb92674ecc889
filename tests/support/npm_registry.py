"""A registry of npm on loopback, with small packages that tests make."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import os
import shutil
import tarfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest


def npm_or_skip() -> str:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not on this machine: packages of npm were NOT installed")
    return npm


def tarball(manifest: Mapping[str, Any], files: Mapping[str, str], hostile: Mapping[str, str] | None = None) -> bytes:
    """A package as npm packs it. `hostile` has members with any name; one that is "-> X" is a link to X."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, text in {"package.json": json.dumps(manifest), **files}.items():
            member = tarfile.TarInfo(f"package/{name}")
            member.size, member.mtime, member.mode = len(text.encode()), 1_700_000_000, 0o644
            archive.addfile(member, io.BytesIO(text.encode()))
        for name, text in (hostile or {}).items():
            member = tarfile.TarInfo(name)
            if text.startswith("-> "):
                member.type, member.linkname = tarfile.SYMTYPE, text.removeprefix("-> ")
            member.size = 0 if member.issym() else len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return gzip.compress(packed.getvalue(), mtime=0)


class Registry:
    def __init__(self) -> None:
        self.requests: list[str] = []
        self._packages: dict[str, dict[str, dict[str, Any]]] = {}
        self._tarballs: dict[str, bytes] = {}
        self._tags: dict[str, str] = {}
        self.url = ""

    def publish(
        self,
        name: str,
        version: str,
        files: Mapping[str, str] | None = None,
        *,
        hostile: Mapping[str, str] | None = None,
        **manifest: Any,
    ) -> None:
        content = {"name": name, "version": version, **manifest}
        data = tarball(content, files or {}, hostile)
        path = f"/{name}/-/{name.rpartition('/')[2]}-{version}.tgz"
        self._tarballs[path] = data
        digest = base64.b64encode(hashlib.sha512(data).digest()).decode()
        scripts = manifest.get("scripts", {})
        entry = {
            **content,
            "dist": {
                "tarball": f"{self.url}{path}",
                "integrity": f"sha512-{digest}",
                "shasum": hashlib.sha1(data).hexdigest(),
            },
            **({"hasInstallScript": True} if {"preinstall", "install", "postinstall"} & set(scripts) else {}),
        }
        self._packages.setdefault(name, {})[version] = entry
        self._tags[name] = version

    def tamper(self, name: str, version: str) -> None:
        """Serve another tarball than the one that was published."""
        path = f"/{name}/-/{name.rpartition('/')[2]}-{version}.tgz"
        self._tarballs[path] = tarball({"name": name, "version": version}, {"index.js": "// another one"})

    def dist(self, name: str, version: str) -> dict[str, Any]:
        """The part of the metadata with the digests, to be changed."""
        found: dict[str, Any] = self._packages[name][version]["dist"]
        return found

    def answer(self, path: str) -> tuple[int, bytes]:
        self.requests.append(path)
        if path in self._tarballs:
            return 200, self._tarballs[path]
        name = path.strip("/")
        if name not in self._packages:
            return 404, b'{"error":"not found"}'
        versions = self._packages[name]
        return 200, json.dumps({"name": name, "dist-tags": {"latest": self._tags[name]}, "versions": versions}).encode()


@contextmanager
def serve_registry() -> Iterator[Registry]:
    registry = Registry()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            status, data = registry.answer(unquote(self.path.partition("?")[0]))
            self.send_response(status)
            self.send_header(
                "Content-Type", "application/octet-stream" if self.path.endswith(".tgz") else "application/json"
            )
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    registry.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def npm_variables(place: Path, url: str) -> dict[str, str]:
    """The environment of npm: this registry, a cache of its own, and no configuration of the machine."""
    (place / "npmrc").write_text("")
    kept = {name: value for name, value in os.environ.items() if not name.lower().startswith(("npm_config_", "pi_"))}
    return {
        **kept,
        "HOME": str(place),
        "NPM_CONFIG_REGISTRY": url,
        "NPM_CONFIG_CACHE": str(place / "npm-cache"),
        "NPM_CONFIG_USERCONFIG": str(place / "npmrc"),
        "NPM_CONFIG_FETCH_RETRIES": "0",
        "NPM_CONFIG_PREFIX": str(place / "npm-global"),
    }

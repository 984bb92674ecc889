"""A real nginx in front of a host, with the lines that docs/serve-http.md has for it."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs" / "serve-http.md"
UPSTREAM = "127.0.0.1:7717"  # in the lines of the documentation
WITHIN = 60.0
CONFIG = """
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
worker_rlimit_nofile {connections};
events {{ worker_connections {connections}; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        {lines}
    }}
}}
"""


def program() -> str | None:
    return shutil.which("nginx", path="/usr/local/sbin:/usr/sbin:/usr/local/bin:/usr/bin:/opt/homebrew/bin")


def documented() -> str:
    """The lines as they stand."""
    (found,) = re.findall(r"^```text\n(location / \{\n.*?^\})\n```$", DOCS.read_text(), re.MULTILINE | re.DOTALL)
    assert UPSTREAM in found
    return str(found)


def free_port() -> int:
    """nginx has to be told its port, and the host that of nginx."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port


@contextmanager
def nginx(folder: Path, port: int, upstream: int, connections: int = 1000) -> Iterator[None]:
    """nginx on a port, in front of the host on another one. Only the address of that is put into the lines."""
    name = program()
    assert name is not None
    folder.mkdir()
    lines = documented().replace(UPSTREAM, f"127.0.0.1:{upstream}")
    (folder / "nginx.conf").write_text(CONFIG.format(folder=folder, port=port, lines=lines, connections=connections))
    process = subprocess.Popen(
        [name, "-p", str(folder), "-e", str(folder / "error.log"), "-c", str(folder / "nginx.conf")],
        stdin=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + WITHIN
        while not _listens(port):
            assert process.poll() is None, (folder / "error.log").read_text()
            assert time.monotonic() < deadline, "nginx does not listen"
        yield
    finally:
        process.kill()
        process.wait()


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False

"""Real proxy programs of Debian for tests: microsocks and tinyproxy. A test skips if the program is missing."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def program(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@contextmanager
def running(command: list[str], port: int) -> Iterator[str]:
    """A program that listens at this port; yields its address."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert process.poll() is None and time.monotonic() < deadline, "the proxy did not start"
                time.sleep(0.02)
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


@contextmanager
def microsocks(*flags: str) -> Iterator[str]:
    port = free_port()
    with running([program("microsocks"), "-i", "127.0.0.1", "-p", str(port), *flags], port) as address:
        yield address


@contextmanager
def tinyproxy(folder: Path, *lines: str) -> Iterator[str]:
    port, file = free_port(), folder / "tinyproxy.conf"
    settings = [f"Port {port}", "Listen 127.0.0.1", "Allow 127.0.0.1", "Timeout 60", *lines]
    file.write_text("\n".join([*settings, ""]))
    with running([program("tinyproxy"), "-d", "-c", str(file)], port) as address:
        yield address


def signed_by_itself(folder: Path, host: str) -> Path:
    """A file with the key and the certificate of a TLS server at the IP address `host`."""
    openssl = program("openssl")
    made = folder / "both.pem"
    options = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=tau"]
    names = ["-addext", f"subjectAltName=IP:{host}"]
    output = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    subprocess.run([openssl, "req", "-x509", *options, *names, *output], check=True, capture_output=True)
    made.write_text((folder / "key.pem").read_text() + (folder / "cert.pem").read_text())
    return made

"""A model on this machine that answers at once and costs next to nothing.

It runs in a process of its own. What it sends was made before, request bodies
are read and thrown away, and which answer is due is told by the path alone:
http://127.0.0.1:PORT/STREAM/KEY, where KEY stands for one conversation.
"""

from __future__ import annotations

import itertools
import multiprocessing
import socket
import threading
import time
import urllib.request
from collections import Counter
from multiprocessing.connection import Connection
from typing import Self

from benchmarks.streams import Answer, answers, pause_between

PORTION = 1 << 20


class Mock:
    """The server, as the one who measures sees it."""

    def __enter__(self) -> Self:
        mine, its = multiprocessing.Pipe()
        self._process = multiprocessing.get_context("spawn").Process(target=_serve, args=(its,), daemon=True)
        self._process.start()
        its.close()  # or the next line would wait for ever for a process that could not start
        self._port: int = mine.recv()
        self._keys = itertools.count()
        return self

    def __exit__(self, *error: object) -> None:
        self._process.terminate()
        self._process.join()

    def cpu(self) -> float:
        """Seconds of processor time that it had."""
        assert self._process.pid is not None
        return time.clock_gettime((~self._process.pid << 3) | 2)

    def url(self, stream: str) -> str:
        """Where a new conversation gets that stream. It is rendered when this returns."""
        url = f"http://127.0.0.1:{self._port}/{stream}/{next(self._keys)}"
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/{stream}") as reply:
            reply.read()
        return url


class _Server:
    def __init__(self) -> None:
        self._streams: dict[str, list[Answer]] = {}
        self._served: Counter[str] = Counter()
        self._lock = threading.Lock()

    def serve(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        buffer = memoryview(bytearray(PORTION))
        with connection:
            try:
                while request := read_request(connection, buffer):
                    first, *rest = self._answer(request)
                    pause = pause_between(request.split("/")[1])
                    connection.sendall(first)
                    for part in rest:
                        time.sleep(pause)
                        connection.sendall(part)
            except OSError:
                return  # the other side has gone, which is its right

    def _answer(self, path: str) -> Answer:
        stream, _, conversation = path.strip("/").partition("/")
        with self._lock:
            if stream not in self._streams:
                self._streams[stream] = answers(stream)
            turns = self._streams[stream]
            if not conversation:
                return [b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n"]
            number = self._served[path]
            self._served[path] += 1
        return turns[min(number, len(turns) - 1)]


def read_request(connection: socket.socket, buffer: memoryview) -> str:
    """The path of the next request, whose body has been read; empty when there is none."""
    head = b""
    while (end := head.find(b"\r\n\r\n")) < 0:
        portion = connection.recv(65_536)
        if not portion:
            return ""
        head += portion
    body = head[end + 4 :]
    first, *lines = head[:end].decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if "chunked" in headers.get("transfer-encoding", ""):
        last = body
        while not last.endswith(b"0\r\n\r\n"):
            count = connection.recv_into(buffer)
            last = (last + bytes(buffer[max(0, count - 8) : count]))[-8:]
    else:
        left = int(headers.get("content-length", "0")) - len(body)
        while left > 0:
            count = connection.recv_into(buffer)
            if not count:
                return ""
            left -= count
    return first.split()[1]


def _serve(parent: Connection) -> None:
    server = _Server()
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listening:
        parent.send(listening.getsockname()[1])
        while True:
            connection, _ = listening.accept()
            threading.Thread(target=server.serve, args=(connection,), daemon=True).start()

"""Warm starts under measure: the server of tau, and stand-ins that answer a launcher at once.

A stand-in takes the place of server and worker. So a launcher can be counted alone, also under valgrind, where the
real server would refuse it: its process differs from the server's.
"""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from benchmarks.peers import TAU
from tau.cli.warm.launcher import EXITED, READY

ANSWER = b'{"id":"q","type":"response","command":"get_state","success":true}\n'


@contextmanager
def server(folder: Path, env: Mapping[str, str]) -> Iterator[int]:
    """The warm-start server of tau, for starts with this environment. Yields its process id."""
    command = str(Path(TAU).with_name("tau"))
    subprocess.run([command, "warm", "start"], env=env, check=True, stdout=subprocess.DEVNULL)
    try:
        yield int((folder / "lock").read_text())
    finally:
        subprocess.run([command, "warm", "stop"], env=env, check=True, stdout=subprocess.DEVNULL)


@contextmanager
def stand_in(folder: Path, talk: Callable[[socket.socket], None]) -> Iterator[Path]:
    """A socket at which `talk` answers every launcher, in a thread. Yields its path."""
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / "socket"
    with suppress(FileNotFoundError):
        path.unlink()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        thread = threading.Thread(target=_accept, args=(listener, talk), daemon=True)
        thread.start()
        yield path
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def _accept(listener: socket.socket, talk: Callable[[socket.socket], None]) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection, suppress(OSError):
            talk(connection)


def worker_of_tau(connection: socket.socket) -> None:
    """Accept the job of tau's launcher, answer its first command, and end it."""
    data, folder, _, _ = socket.recv_fds(connection, 1 << 16, 1)
    missing = int.from_bytes(data[:4], "big") + 4 - len(data)
    while missing > 0:
        missing -= len(connection.recv(missing))
    connection.sendall(READY + os.getpid().to_bytes(4, "big"))
    _, descriptors, _, _ = socket.recv_fds(connection, 1, 253)
    _answer(descriptors[:2])
    connection.sendall(bytes([EXITED, 0]))
    for number in (*folder, *descriptors):
        os.close(number)


def worker_of_floor(connection: socket.socket) -> None:
    """The same for the launcher in floors/launcher.py."""
    _, descriptors, _, _ = socket.recv_fds(connection, 16, 3)
    _answer(descriptors[:2])
    connection.sendall(b"\0")
    for number in descriptors:
        os.close(number)


def _answer(descriptors: list[int]) -> None:
    """Read a command, answer it, and read to the end."""
    stdin, stdout = descriptors
    os.read(stdin, 1 << 16)
    with suppress(BrokenPipeError):
        os.write(stdout, ANSWER)
    while os.read(stdin, 1 << 16):
        pass

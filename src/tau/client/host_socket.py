"""A short conversation with the host of this machine over its socket, for commands of the program. Blocks."""

from __future__ import annotations

import socket
from types import TracebackType
from typing import Any, Self

from tau.errors import CommandError
from tau.records.base import BadRecord, encode, parse
from tau.records.host_commands import PROTOCOL_VERSION

TIMEOUT_S = 10.0


class HostSocket:
    """Sends commands of the host and returns the data of their responses. Raises CommandError."""

    def __init__(self, path: str, client: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(TIMEOUT_S)
        try:
            self._socket.connect(path)
        except OSError as error:
            self._socket.close()
            raise CommandError(f"The host does not answer on {path}: {error.strerror or error}") from None
        self._input = self._socket.makefile("rb")
        self.hello = self.ask("hello", version=PROTOCOL_VERSION, client=client)

    def ask(self, type: str, **fields: Any) -> Any:
        try:
            self._socket.sendall(encode({"id": type, "type": type, **fields}) + b"\n")
            while line := self._input.readline():
                record = parse(line)
                if record.get("type") == "response":
                    if not record["success"]:
                        raise CommandError(record["error"])
                    return record.get("data")
        except (OSError, BadRecord) as error:
            raise CommandError(f"The host does not answer: {error}") from None
        raise CommandError("The host has closed the connection.")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._input.close()
        self._socket.close()

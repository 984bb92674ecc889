"""A model whose pieces come alone: the next one is sent when the update of the last one was seen.

So nothing is joined, however slow the program or busy the machine, and no clock is needed.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Self

from benchmarks.jobs.commands import PROMPT
from benchmarks.measure import QUIET, Failed, Program, is_event
from benchmarks.mock import PORTION, read_request
from benchmarks.streams import answers, numbered
from benchmarks.terminal import TerminalProgram

PIECE = b'"text_delta"'


class Stepped:
    def __init__(self, pieces: int, stream: str = "paced") -> None:
        self._pieces = pieces
        self._answers = answers(f"{stream}-{pieces}")
        self._seen = threading.Semaphore(0)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)  # or accept would go on waiting
        self._listening.close()

    def two_prompts(self, program: Program) -> None:
        """The first has a short answer. Then the next piece follows each update, and all must be seen alone."""
        program.say(PROMPT)
        program.answered()
        program.say(PROMPT)
        updates = 0
        while not is_event("agent_end")(head := program.head()):
            if PIECE in head:
                updates += 1
                self._seen.release()
        if updates != self._pieces:
            raise Failed(f"{self._pieces} pieces came in {updates} updates")

    def on_screen(self, program: TerminalProgram) -> None:
        """The same at a terminal, with the stream `numbered`: the next piece follows when the last one is drawn."""
        program.until(b"done", program.send())
        program.until_idle(QUIET)
        before = program.send()
        for at in range(self._pieces):
            program.until(numbered(at).encode(), before)
            before = program.written - len(numbered(at))
            self._seen.release()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return  # closed
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        buffer = memoryview(bytearray(PORTION))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection, suppress(OSError):  # the program may go when it likes
            while read_request(connection, buffer):
                for part in self._answers.pop(0):
                    connection.sendall(part)
                    if PIECE in part and self._answers == []:
                        self._seen.acquire()

"""Streams the output of a user bash command as `bash_update` events.

The client may read more slowly than the command writes. Output is then buffered and sent in larger pieces. Beyond
MAX_HELD_CHARACTERS the oldest output is dropped from the updates, and a line reports how much. The response to the
command, and its output file, contain the whole output.
"""

from __future__ import annotations

import asyncio
import codecs
from collections import deque
from collections.abc import Awaitable, Callable

from tau.core.text.terminal_text import Cleaner

MAX_HELD_CHARACTERS = 1024 * 1024


class BashUpdates:
    def __init__(self, say: Callable[[str], Awaitable[None] | None]) -> None:
        self._say = say
        self._readers: dict[str, tuple[codecs.IncrementalDecoder, Cleaner]] = {}
        self._held: deque[str] = deque()
        self._size = 0
        self._left_out = 0
        self._saying: asyncio.Future[None] | None = None

    def add(self, stream: str, data: bytes) -> None:
        if stream not in self._readers:
            self._readers[stream] = codecs.getincrementaldecoder("utf-8")("replace"), Cleaner()
        decoder, cleaner = self._readers[stream]
        text = cleaner.feed(decoder.decode(data))
        if text:
            self._held.append(text)
            self._size += len(text)
            while self._size > MAX_HELD_CHARACTERS and len(self._held) > 1:
                gone = len(self._held.popleft())
                self._size -= gone
                self._left_out += gone
            self._send_next()

    async def drain(self) -> None:
        """Wait until all buffered output is sent."""
        while self._saying is not None:
            await asyncio.wait({self._saying})

    def _send_next(self, _: object = None) -> None:
        if self._saying is not None and not self._saying.done():
            return
        self._saying = None
        if not self._held:
            return
        text = "".join(self._held)
        if self._left_out:
            text = f"[{self._left_out} characters left out]\n{text}"
        self._held.clear()
        self._size = self._left_out = 0
        if (waiting := self._say(text)) is not None:
            self._saying = asyncio.ensure_future(waiting)
            self._saying.add_done_callback(self._send_next)

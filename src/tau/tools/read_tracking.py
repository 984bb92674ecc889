"""Read tracking: remembers the contents of files as the model last read or wrote them.

With the setting `edit.requireFresh`, tools refuse to change a file whose contents differ from that, so that changes
made by other programs are not lost. Contents are remembered as digests, and only if the setting is on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from tau.errors import ToolError

if TYPE_CHECKING:
    from hashlib import blake2b


class Seen:
    """The files known to the model of one session, by real path. `path` is the name the model uses, for errors."""

    def __init__(self, *, required: bool = False) -> None:
        self.required = required
        self._digests: dict[str, bytes] = {}

    def watched(self, real: str, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Pass the chunks of a file through. The file counts as known once it was read to its end, however little of
        it was shown to the model.
        """
        if not self.required:
            yield from chunks
            return
        digest = _digest()
        for chunk in chunks:
            digest.update(chunk)
            yield chunk
        self._digests[real] = digest.digest()

    def note(self, real: str, data: bytes) -> None:
        """Record what the model wrote to a file."""
        if self.required:
            self._digests[real] = _digest(data).digest()

    def check(self, path: str, real: str, chunks: Iterable[bytes]) -> None:
        """Raise ToolError if the contents of a file are not those that the model knows."""
        if not self.required:
            return
        known = self._digests.get(real)
        if known is None:
            raise ToolError(f"{path} has not been read in this session, or is too large to check. Read it first.")
        digest = _digest()
        for chunk in chunks:
            digest.update(chunk)
        if digest.digest() != known:
            raise ToolError(f"{path} has changed since it was last read. Read it again before you change it.")


def _digest(data: bytes = b"") -> blake2b:
    from hashlib import blake2b  # rarely needed

    return blake2b(data)

"""What the model knows of the files it works on: the content of each, as it last read or wrote it.

With the setting `edit.requireFresh` a file that has another content by now is
not changed, so that what somebody else did to it in the meantime is not lost.
Contents are remembered as digests, and only if the setting asks for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from tau.errors import ToolError

if TYPE_CHECKING:
    from hashlib import blake2b


class Seen:
    """One for each session. Files go by their real paths; `path` is what the model calls them."""

    def __init__(self, *, required: bool = False) -> None:
        self.required = required
        self._digests: dict[str, bytes] = {}

    def watched(self, real: str, portions: Iterable[bytes]) -> Iterator[bytes]:
        """A file on its way to the model. It is known when it was read to its end, however little of it was shown."""
        if not self.required:
            yield from portions
            return
        digest = _digest()
        for portion in portions:
            digest.update(portion)
            yield portion
        self._digests[real] = digest.digest()

    def note(self, real: str, data: bytes) -> None:
        """The model wrote this."""
        if self.required:
            self._digests[real] = _digest(data).digest()

    def check(self, path: str, real: str, portions: Iterable[bytes]) -> None:
        """Refuse to change a file that is not as the model knows it."""
        if not self.required:
            return
        known = self._digests.get(real)
        if known is None:
            raise ToolError(f"{path} has not been read in this session, or is too large to check. Read it first.")
        digest = _digest()
        for portion in portions:
            digest.update(portion)
        if digest.digest() != known:
            raise ToolError(f"{path} has changed since it was last read. Read it again before you change it.")


def _digest(data: bytes = b"") -> blake2b:
    from hashlib import blake2b  # seldom needed

    return blake2b(data)

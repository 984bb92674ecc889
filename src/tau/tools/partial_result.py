"""A cancelled tool cannot return, but what it had so far is worth keeping."""

from __future__ import annotations

import asyncio


class StoppedWith(asyncio.CancelledError):
    """The cancellation of a tool, with the text that should stand as its result.

    asyncio.timeout() looks for CancelledError itself and not for its children:
    whoever stops a tool catches this one inside, keeps the text and raises a
    plain CancelledError in its place.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

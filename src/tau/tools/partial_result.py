"""The partial result of a cancelled tool, which cannot return it."""

from __future__ import annotations

import asyncio


class StoppedWith(asyncio.CancelledError):
    """The cancellation of a tool, with the text that becomes its result.

    asyncio.timeout() recognises only CancelledError itself, not its subclasses. Code that cancels a tool therefore
    catches this exception, keeps the text and raises a plain CancelledError instead.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

"""Results of tools that cannot return them: the partial result of a cancelled tool, the blocks of a failed one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tau.errors import ToolError
from tau.records.messages import Image, Text


class ErrorResult(ToolError):
    """A failed call whose result is more than a text. `details` are for clients, None if there are none."""

    def __init__(self, content: Sequence[Text | Image], details: object = None) -> None:
        super().__init__("\n".join(block.text for block in content if isinstance(block, Text)))
        self.content = list(content)
        self.details = details


class CancelledWithResult(asyncio.CancelledError):
    """The cancellation of a tool, with the text that becomes its result.

    asyncio.timeout() recognises only CancelledError itself, not its subclasses. Code that cancels a tool therefore
    catches this exception, keeps the text and raises a plain CancelledError instead.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

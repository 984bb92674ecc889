"""The state of automatic retries: the number made for a prompt, and the delay before the next one."""

from __future__ import annotations

import asyncio

from tau.core.agent.retry import Retry
from tau.records.messages import AnyMessage, Assistant
from tau.runtime.abort import AbortSignal


class RetryState:
    def __init__(self) -> None:
        self.made = 0
        self.due: Retry | None = None
        self.waiting = False
        self._cancelled = False
        self._over = asyncio.Event()  # set when the delay ends early

    def ended_by(self, message: AnyMessage) -> bool:
        """True if the message is the good answer to a retry."""
        return self.made > 0 and isinstance(message, Assistant) and not message.failed

    def reset(self) -> int:
        """Forget the retries made, and return how many there were."""
        made, self.made = self.made, 0
        return made

    def cancel(self) -> bool:
        """Cancel the delay. True if one was running."""
        self._cancelled = True
        self._over.set()
        return self.waiting

    def skip(self) -> None:
        """End the delay now: the retry begins."""
        self._over.set()

    async def wait(self, seconds: float, signal: AbortSignal) -> bool:
        """Wait before the due retry. True when the time is over, False if the wait was cancelled or aborted."""
        assert self.due is not None
        self.made, self.due = self.due.attempt, None
        self._cancelled = False
        self._over.clear()
        signal.on_abort(self.skip)
        self.waiting = True
        try:
            async with asyncio.timeout(0 if signal.aborted else seconds):
                await self._over.wait()
        except TimeoutError:
            pass
        finally:
            self.waiting = False
        return not (signal.aborted or self._cancelled)

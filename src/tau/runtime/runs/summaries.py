"""The model calls that make summaries, with their retries: for compactions and for branches that are left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from tau.core.agent.draft import Draft, MessageDone, MessageFailed
from tau.core.agent.retry import next_retry
from tau.core.conversation.summaries import SummaryRequest, summary_text
from tau.errors import Aborted, ModelError
from tau.records.messages import Usage
from tau.records.models import Model
from tau.records.settings import Settings
from tau.runtime.abort import AbortSignal, until_aborted
from tau.runtime.clock import now
from tau.runtime.runs.driver import ABORT_GRACE_S
from tau.wire.unfinished import PartialJson

if TYPE_CHECKING:

    class SummaryModel(Protocol):
        settings: Settings

        def stream_summary(self, request: SummaryRequest, draft: Draft) -> AsyncIterator[Sequence[Any]]:
            """Call the model of the draft as usual, but without tools and with the limits of the request."""
            ...


async def summarize(
    owner: SummaryModel, request: SummaryRequest, model: Model, signal: AbortSignal
) -> tuple[str, Usage]:
    """Return the answer to one request and its usage; failures are retried as the retry policy says.

    Raises ModelError or Aborted.
    """
    retries = 0
    while True:
        draft = Draft(model, now(), PartialJson, provider_details=owner.settings.compat.provider_details)
        end = await until_aborted(asyncio.create_task(_ask(owner, request, draft)), signal, ABORT_GRACE_S)
        if signal.aborted:
            raise Aborted
        if isinstance(end, MessageDone):
            try:
                return summary_text(end.message), end.message.usage
            except ModelError as error:
                raise ModelError(f"{request.title} failed: {error}", transient=False) from None
        retry = next_retry(end, owner.settings.retry, retries)
        if retry is None:
            raise ModelError(f"{request.title} failed: {end.message.error_message}", transient=False)
        if await signal.wait(retry.delay_ms / 1000):
            raise Aborted
        retries = retry.attempt


async def _ask(owner: SummaryModel, request: SummaryRequest, draft: Draft) -> MessageDone | MessageFailed:
    last: Any = None
    try:
        async for facts in owner.stream_summary(request, draft):
            last = facts[-1] if facts else last
    except ModelError as error:
        return draft.fail("error", str(error), transient=error.transient, retry_after_ms=error.retry_after_ms)
    if isinstance(last, MessageDone):
        return last
    return draft.fail("error", "The stream ended before the answer was complete.", transient=True)

"""Models: from a conversation to the pieces of an answer.

Each API is one pure module with `request` and `Reader`; models that need no
network have `answer` instead. Only http.py touches the world: what else is
needed of it (a pause) is handed in.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing

from tau.core.draft import Done, Draft
from tau.errors import ModelError
from tau.llm import apis
from tau.llm.calls import Context, Fact, Options, Pause, World
from tau.records.models import Model
from tau.wire.sse import SSEDecoder


async def stream(
    model: Model, context: Context, options: Options, draft: Draft, world: World
) -> AsyncIterator[Sequence[Fact]]:
    """Ask `model` and yield what comes, in portions as the network has them.

    Ends with a Done, or raises ModelError; what had come until then is in the draft.
    """
    api = apis.api(model.api)
    yield [draft.begin()]
    if hasattr(api, "answer"):
        for step in api.answer(model, context, draft, world):
            if isinstance(step, Pause):
                await world.pause(step.ms / 1000)
            else:
                yield step
        return

    sse, reader = SSEDecoder(), api.Reader(draft)
    try:
        async with aclosing(world.transport.post(api.request(model, context, options))) as portions:
            async for portion in portions:
                facts = [fact for event, data in sse.feed(portion) for fact in reader.read(event, data)]
                if facts:
                    yield facts
                    if isinstance(facts[-1], Done):
                        return  # what may follow the end of the answer is not waited for
        yield reader.end()
    except ModelError as error:
        raise _without_key(error, options.key) from None


def _without_key(error: ModelError, key: str | None) -> ModelError:
    """Some servers repeat our key in what they say."""
    if key is None or len(key) < 8 or key not in str(error):
        return error
    told = str(error).replace(key, "***")
    return ModelError(told, status=error.status, transient=error.transient, retry_after_ms=error.retry_after_ms)

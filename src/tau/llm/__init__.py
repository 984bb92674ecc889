"""Models: from a conversation to the pieces of an answer.

Each API is one pure module with `request` and `Reader`; models that need no
network have `answer` instead, and those that somebody else asks `pieces`. Only http.py touches the world: what else is
needed of it (a pause) is handed in.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing

from tau.core.agent.draft import Done, Draft, Heard
from tau.core.checks.secrets import masked, of_address, of_headers
from tau.errors import ModelError, shortened
from tau.llm import apis
from tau.llm.types import Context, Decoder, Fact, Options, Pause, Reader, Request, World
from tau.records.base import replace
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
    secrets = [options.secret, *(options.environment.get(name) for name in SECRETS), *of_address(model.base_url)]
    secrets += of_headers(model.headers or {}, whatever_their_name=True)
    for name in PROXIES:
        secrets += of_address(options.environment.get(name) or options.environment.get(name.lower()) or "")
    try:
        if hasattr(api, "pieces"):
            async with aclosing(api.pieces(model, context, options, draft, world)) as portions:
                async for facts in portions:
                    yield facts
            return
        request: Request = api.request(model, context, options)
        if world.watchers is not None:
            request = await world.watchers.outgoing(request)
        if hasattr(api, "sign"):
            request = api.sign(request, model, options)
        if world.watchers is not None:
            request = replace(request, heard=world.watchers.incoming)
        secrets += [*of_headers(request.headers), *of_address(request.url)]
        heard = False
        decoder, reader = getattr(api, "Decoder", SSEDecoder)(), api.Reader(draft)
        async with aclosing(world.transport.post(request)) as portions:
            async for portion in portions:
                facts, trouble = _read(portion, decoder, reader)
                if not heard:
                    heard = True
                    yield [Heard()]
                if facts:
                    yield facts
                    if isinstance(facts[-1], Done):
                        return  # what may follow the end of the answer is not waited for
                if trouble is not None:
                    raise trouble
        yield reader.end()
    except ModelError as error:
        raise _fit_to_read(error, secrets) from None


def _read(portion: bytes, decoder: Decoder, reader: Reader) -> tuple[list[Fact], ModelError | None]:
    """What `portion` says until the answer is whole, or until what cannot be read."""
    facts: list[Fact] = []
    try:
        for event, data in decoder.feed(portion):
            facts += reader.read(event, data)
            if facts and isinstance(facts[-1], Done):
                break
    except ModelError as error:
        return facts, error
    return facts, None


# What the environment may hold that nobody should read in an error.
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
SECRETS = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_BEARER_TOKEN_BEDROCK", "GOOGLE_OAUTH_ACCESS_TOKEN")


def _fit_to_read(error: ModelError, secrets: Sequence[str | None]) -> ModelError:
    """Short, and without our credentials, which some servers repeat in what they say."""
    said = shortened(masked(str(error), secrets))
    return ModelError(said, status=error.status, transient=error.transient, retry_after_ms=error.retry_after_ms)

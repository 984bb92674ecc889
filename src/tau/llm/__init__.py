"""Model calls: from a conversation to a stream of results.

Each API is one pure module with an `API`: an HttpApi, an OfflineApi for models without a network, or an ExtensionApi
for models that an extension calls. Only http.py does I/O; other effects (a pause) are passed in.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

from tau.core.agent.draft import Draft, MessageDone, ResponseStarted
from tau.core.checks.secrets import header_secrets, mask_secrets, url_secrets
from tau.core.models.failures import classify
from tau.errors import ModelError, error_text, shortened
from tau.llm import apis
from tau.llm.types import CallEnvironment, CallOptions, ExtensionApi, ModelContext, ModelResult, OfflineApi, Pause
from tau.records.base import replace
from tau.records.models import Model

if TYPE_CHECKING:
    from tau.llm.types import Decoder, Reader, Relay

MAX_QUOTED_BYTES = 4096


async def stream(
    model: Model, context: ModelContext, options: CallOptions, draft: Draft, environment: CallEnvironment
) -> AsyncIterator[Sequence[ModelResult]]:
    """Call `model` and yield results, in chunks as the network delivers them.

    Ends with a MessageDone, or raises ModelError; the draft contains what arrived before.
    """
    api = apis.load_api(model.api)
    yield [draft.begin()]
    if isinstance(api, OfflineApi):
        for step in api.answer(model, context, draft, environment):
            if isinstance(step, Pause):
                await environment.pause(step.ms / 1000)
            else:
                yield step
        return
    secrets = [options.secret, *(options.environment.get(name) for name in SECRETS), *url_secrets(model.base_url)]
    secrets += header_secrets(model.headers or {}, all_names=True)
    for name in PROXIES:
        secrets += url_secrets(options.environment.get(name) or options.environment.get(name.lower()) or "")
    try:
        if isinstance(api, ExtensionApi):
            async with aclosing(api.stream(model, context, options, draft, environment)) as answer:
                async for part in answer:
                    yield part
            return
        request = api.request(model, context, options)
        if environment.watchers is not None:
            request = await environment.watchers.outgoing(request)
        if api.sign is not None:
            request = api.sign(request, model, options)
        if environment.watchers is not None:
            request = replace(request, on_response=environment.watchers.incoming)
        secrets += [*header_secrets(request.headers), *url_secrets(request.url)]
        beginning: bytes | None = None
        decoder, reader = api.decoder(), api.reader(draft)
        left: list[tuple[list[ModelResult], Exception | None]] = []  # by `consume`
        if (relay := environment.relay) is not None:
            request = replace(request, consume=lambda chunk: _relayed(chunk, decoder, reader, relay, left))
        async with aclosing(environment.transport.post(request)) as chunks:
            async for chunk in chunks:
                results, problem = left.pop() if left else _read(chunk, decoder, reader)
                if beginning is None:
                    beginning = chunk[:MAX_QUOTED_BYTES]
                    yield [ResponseStarted()]
                if results:
                    yield results
                    if type(results[-1]) is MessageDone:
                        return  # do not wait for data after the end of the answer
                if problem is not None:
                    raise problem
        if (beginning or b"").lstrip().startswith(b"{"):
            raise _not_a_stream(beginning or b"")
        yield reader.end()
    except ModelError as error:
        raise _classified(error, secrets) from None


def _not_a_stream(body: bytes) -> ModelError:
    """The error for a JSON body with the status 200: usually an error of a proxy, whose words decide about a retry."""
    text = body.decode("utf-8", "replace").strip()
    transient = None if '"error"' in text else True
    return ModelError(f"The model server answered with JSON instead of an event stream: {text}", transient=transient)


def _relayed(
    chunk: bytes,
    decoder: Decoder,
    reader: Reader,
    relay: Relay,
    left: list[tuple[list[ModelResult], Exception | None]],
) -> bool:
    """Pass the results of `chunk` to `relay`. Returns False if it does not take them; then they are in `left`."""
    results: list[ModelResult] = []
    try:
        results, problem = _read(chunk, decoder, reader)
        if problem is None and (not results or relay(results)):
            return True
    except Exception as error:  # the stream raises it
        problem = error
    left.append((results, problem))
    return False


def _read(chunk: bytes, decoder: Decoder, reader: Reader) -> tuple[list[ModelResult], Exception | None]:
    """Decode `chunk` up to the end of the answer or the first error. Return the results and the error."""
    results: list[ModelResult] = []
    try:
        for event, data in decoder.feed(chunk):
            results += reader.read(event, data)
            if results and type(results[-1]) is MessageDone:  # isinstance takes three times as long for a struct
                break
    except ModelError as error:
        return results, error
    return results, None


# Environment variables with secrets that must not appear in error messages.
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
SECRETS = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_BEARER_TOKEN_BEDROCK", "GOOGLE_OAUTH_ACCESS_TOKEN")


def _classified(error: ModelError, secrets: Sequence[str | None]) -> ModelError:
    """The error with its class, shortened, and without credentials, which some servers repeat in their messages.

    What a person can do about it follows on a line of its own.
    """
    text = shortened(mask_secrets(str(error), secrets))
    if error.transient is not None:
        return ModelError(text, status=error.status, transient=error.transient, retry_after_ms=error.retry_after_ms)
    failure = classify(text, error.status, error.retry_after_ms)
    text = error_text(text, failure.advice)
    return ModelError(text, status=error.status, transient=failure.is_transient, retry_after_ms=failure.wait_ms)

"""Actions of extensions on models: which there are, their keys, and calls outside the conversation."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from tau.core.agent.draft import Draft, MessageDone, Update
from tau.core.models.thinking import clamp
from tau.errors import ModelError
from tau.llm.types import ModelContext
from tau.records.base import Record, Value, parse, to_builtins
from tau.records.models import Model, ThinkingLevel
from tau.runtime.clock import now
from tau.runtime.extensions.hook_answers import read_one_message
from tau.runtime.extensions.registry import current_pieces
from tau.runtime.history.ids import session_id
from tau.runtime.runs.model_client import ModelCall
from tau.runtime.session.session import Session
from tau.wire.unfinished import PartialJson

logger = logging.getLogger(__name__)


class GetModels(Record):
    all: bool = False


async def get_models(session: Session, wanted: GetModels) -> Any:
    models = session.models
    if not wanted.all:
        return to_builtins(models.available)
    known = [model for provider in models.catalog.providers for model in models.catalog.models_of(provider)]
    return to_builtins([*known, *(model for model in models.available if model not in known)])


class OfProvider(Record):
    provider: str


async def get_provider_auth(session: Session, wanted: OfProvider) -> dict[str, Any]:
    """Whether there are credentials for a provider, and of which kind; not the credentials."""
    keys = session.models.keys
    source = keys.source(wanted.provider)
    return {
        "configured": keys.has(wanted.provider),
        "oauth": keys.login(wanted.provider) is not None,
        **({} if source is None else {"source": source}),
    }


async def get_api_key(session: Session, wanted: OfProvider) -> dict[str, Any]:
    """The key and headers of a provider. An extension is the user's own code, with the keys in its environment."""
    models = session.models
    of_provider = models.catalog.models_of(wanted.provider) if wanted.provider in models.catalog.providers else []
    if models.current is not None and models.current.provider == wanted.provider:
        of_provider = [models.current, *of_provider]
    if not of_provider:
        return {"ok": False, "error": f"Unknown provider: {wanted.provider}"}
    logger.info("an extension asked for the API key of %s", wanted.provider)
    try:
        access = await session.services.machine.in_thread(lambda: models.asked(of_provider[0]))
    except ModelError as error:
        return {"ok": False, "error": str(error)}
    headers = dict(access.model.headers or {})
    token = headers.get("authorization", "").removeprefix("Bearer ")
    key = access.key or token or None
    if key is None and not models.usable(of_provider[0]):
        return {"ok": False, "error": f'No API key found for "{wanted.provider}"'}
    return {"ok": True, **({} if key is None else {"apiKey": key}), **({"headers": headers} if headers else {})}


class CompleteTool(Value):
    """A tool that the model may call; the caller executes it."""

    name: str
    description: str
    parameters: dict[str, Any]


class CompleteContext(Record):
    messages: list[Any]
    system_prompt: str = ""
    tools: list[dict[str, Any]] = []


class CompleteOptions(Record):
    api_key: str | None = None
    max_tokens: int | None = None
    reasoning: ThinkingLevel | None = None


class Complete(Record):
    model: Model
    context: CompleteContext
    options: CompleteOptions = CompleteOptions()
    stream: bool = False


async def complete(session: Session, wanted: Complete) -> Any:
    """Call a model outside the conversation. Returns its message, which has the error if the call fails."""
    given, options = wanted.context, wanted.options
    messages = [read_one_message(message, f"messages[{at}]") for at, message in enumerate(given.messages)]
    tools = [CompleteTool(tool["name"], tool.get("description", ""), tool["parameters"]) for tool in given.tools]
    context = ModelContext(given.system_prompt, messages, tools)  # type: ignore[arg-type]
    level = clamp(options.reasoning or "off", wanted.model)
    call = ModelCall(context, level, session_id(), options.max_tokens, 0)
    draft = Draft(wanted.model, now(), PartialJson)
    send = current_pieces.get() if wanted.stream else None
    try:
        async for facts in session.model_client.stream_call(draft, call, options.api_key):
            for fact in facts:
                if isinstance(fact, MessageDone):
                    return to_builtins(fact.message)
                if send is not None and isinstance(fact, Update):
                    send(parse(fact.wire_json())["assistantMessageEvent"])
    except ModelError as error:
        return to_builtins(draft.fail("error", str(error)).message)
    return to_builtins(draft.fail("error", "The answer was not complete").message)


MODEL_ACTIONS: dict[str, tuple[type[Record], Callable[[Session, Any], Awaitable[Any]]]] = {
    "get_models": (GetModels, get_models),
    "get_provider_auth": (OfProvider, get_provider_auth),
    "get_api_key": (OfProvider, get_api_key),
    "complete": (Complete, complete),
}

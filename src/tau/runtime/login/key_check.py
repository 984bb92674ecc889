"""Checks an API key with one request that costs nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from tau.core.checks.secrets import mask_secrets
from tau.errors import ModelError, shortened
from tau.llm.http_request import fetch
from tau.llm.types import CallOptions, base_url
from tau.records.models import Model

# Providers whose list of models needs a valid key. Elsewhere it may be public, so that success proves nothing.
CHECKED_BY_LIST = frozenset(
    ("anthropic", "openai", "google", "mistral", "groq", "deepseek", "xai", "moonshotai", "moonshotai-cn", "cerebras")
)
# The list of models, by API, and what checks a key where the list is public.
LIST_PATHS = {
    "anthropic-messages": "/v1/models",
    "google-generative-ai": "/models?pageSize=1",
    "mistral-conversations": "/v1/models",
    "openai-completions": "/models",
    "openai-responses": "/models",
}
CHECK_PATHS = {("openrouter", "openai-completions"): "/key"}
CHECK_TIMEOUT_S = 10.0


class KeyCheck(NamedTuple):
    """`unknown`: the provider has no free request, or it could not be sent. `why` is a sentence."""

    outcome: Literal["accepted", "rejected", "unknown"]
    why: str = ""


async def check_key(model: Model, key: str, environment: Mapping[str, str], *, configured: bool) -> KeyCheck:
    """Check a key with the server of a model. `configured`: the user has defined the server in models.json."""
    provider = model.provider
    path = CHECK_PATHS.get((provider, model.api))
    provable = provider in CHECKED_BY_LIST or path is not None
    path = path or LIST_PATHS.get(model.api)
    if path is None or not (provable or configured):
        return KeyCheck("unknown", f"{provider} has no request that checks a key without a cost.")
    url = base_url(model, CallOptions(environment=environment)) + path
    try:
        response = await fetch("GET", url, _headers(model.api, key), environment=environment, timeout=CHECK_TIMEOUT_S)
    except ModelError as error:
        return KeyCheck("unknown", mask_secrets(str(error), [key]))
    if response.status in (401, 403) or (response.status == 400 and b"API_KEY_INVALID" in response.body):
        return KeyCheck("rejected", f"{provider} rejected the key ({response.status} {_reason(response.content, key)})")
    if response.status == 200:
        proof = "" if provable else f"{provider} answered, which may not prove that the key is right."
        return KeyCheck("accepted" if provable else "unknown", proof)
    return KeyCheck("unknown", f"{provider} answered with status {response.status}.")


def _headers(api: str, key: str) -> dict[str, str]:
    if api == "anthropic-messages":
        return {"x-api-key": key, "anthropic-version": "2023-06-01"}
    if api == "google-generative-ai":
        return {"x-goog-api-key": key}
    return {"authorization": f"Bearer {key}"}


def _reason(content: Mapping[str, object], key: str) -> str:
    error = content.get("error")
    message = error.get("message") if isinstance(error, dict) else error
    return mask_secrets(shortened(str(message or "no reason given"), 200), [key])

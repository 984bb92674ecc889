"""Which module speaks which API. Loaded when first asked for: `pi --help` pays for none of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from tau.errors import ModelError

APIS = {
    "anthropic-messages": "tau.llm.anthropic",
    "openai-completions": "tau.llm.openai_chat",
    "openai-responses": "tau.llm.openai_responses",
    "azure-openai-responses": "tau.llm.openai_responses",
    "google-generative-ai": "tau.llm.google",
    "google-vertex": "tau.llm.google",
    "bedrock-converse-stream": "tau.llm.bedrock",
    "bedrock-anthropic-messages": "tau.llm.bedrock",
    "mistral-conversations": "tau.llm.openai_chat",
    "scripted": "tau.llm.scripted",
    "demo": "tau.llm.demo",
    "extension-stream": "tau.llm.extension_stream",
}
# Who finds the credentials of an API that are more than a key.
CREDENTIALS = {
    "google-vertex": "tau.llm.gcp",
    "bedrock-converse-stream": "tau.llm.aws",
    "bedrock-anthropic-messages": "tau.llm.aws",
}


def api(name: str) -> Any:
    """The module for `name`; it has `request` and `Reader`, or `answer`, or `pieces` (see llm/__init__.py)."""
    if name not in APIS:
        raise ModelError(f'The API "{name}" is not supported. Supported: {", ".join(APIS)}.', transient=False)
    return import_module(APIS[name])


def credentials(name: str) -> Callable[[Mapping[str, str]], Mapping[str, str]] | None:
    """What puts the credentials for `name` into an environment. It may take its time, and waits in its own thread."""
    if name not in CREDENTIALS:
        return None
    found: Callable[[Mapping[str, str]], Mapping[str, str]] = import_module(CREDENTIALS[name]).found
    return found


def forget(name: str) -> bool:
    """Find the credentials for `name` anew the next time. False if there are none that were found."""
    return name in CREDENTIALS and bool(import_module(CREDENTIALS[name]).forget())

"""Registry of model APIs: the module for each. Loaded on first use, so that `tau --help` loads none.

A module has its API as `API`; one module can serve several names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

from tau.errors import ModelError
from tau.llm.types import Api

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
# Modules that find credentials for APIs that need more than a key.
CREDENTIALS = {
    "google-vertex": "tau.llm.gcp",
    "bedrock-converse-stream": "tau.llm.aws",
    "bedrock-anthropic-messages": "tau.llm.aws",
}


def load_api(name: str) -> Api:
    """The API with this name. Raises ModelError if there is none."""
    if name not in APIS:
        raise ModelError(f'The API "{name}" is not supported. Supported: {", ".join(APIS)}.', transient=False)
    api: Api = import_module(APIS[name]).API
    return api


def credential_finder(name: str) -> Callable[[Mapping[str, str]], Mapping[str, str]] | None:
    """The function that adds credentials for `name` to an environment. It may block: call it in a thread."""
    if name not in CREDENTIALS:
        return None
    find: Callable[[Mapping[str, str]], Mapping[str, str]] = import_module(CREDENTIALS[name]).find_credentials
    return find


def forget_credentials(name: str) -> bool:
    """Discard cached credentials for `name`. False if there were none."""
    return name in CREDENTIALS and bool(import_module(CREDENTIALS[name]).forget())

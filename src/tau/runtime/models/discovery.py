"""Discovery of model servers on this machine, and of the models they serve.

Used only to list models and by diagnostics. All servers are queried concurrently with a short timeout, so that a
server that is not running does not delay the caller.
"""

from __future__ import annotations

import http.client
import threading
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tau.core.checks.secrets import redact_url
from tau.llm.catalog import LOCAL_PROVIDERS, Catalog
from tau.records.base import BadRecord, parse, replace
from tau.records.models import Model
from tau.store.keys import Keys

PATIENCE = 0.5
SIZE_LIMIT = 4 * 1024 * 1024
# Fields in which servers report the context window: vLLM, LM Studio, others.
WINDOWS = ("max_model_len", "max_context_length", "context_length", "context_window")


class LocalServer(NamedTuple):
    """Result for one server: its models, or the reason why there are none. Secrets in `base_url` are redacted."""

    base_url: str
    models: list[Model]
    trouble: str | None


def discover(catalog: Catalog, keys: Keys, patience: float = PATIENCE) -> dict[str, LocalServer]:
    """Query every known server on this machine for its models."""
    heard: dict[str, LocalServer] = {}
    servers = {name: model for name in sorted(LOCAL_PROVIDERS) if (model := catalog.custom_model(name, "")) is not None}

    def ask(name: str, like: Model) -> None:
        try:
            ids = _models(like.base_url, keys.get(name), patience)
        except (OSError, http.client.HTTPException, BadRecord, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            heard[name] = LocalServer(redact_url(like.base_url), [], why or type(error).__name__)
        else:
            heard[name] = LocalServer(redact_url(like.base_url), [_sized(like, entry) for entry in ids], None)

    threads = [threading.Thread(target=ask, args=one, daemon=True) for one in servers.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(patience)
    why = f"no answer within {patience:g} s"
    return {name: heard.get(name) or LocalServer(redact_url(like.base_url), [], why) for name, like in servers.items()}


def _models(base_url: str, key: str | None, patience: float) -> list[Mapping[str, Any]]:
    """Return the entries of GET /models. Proxy settings are ignored: these servers are the user's own."""
    address = urlsplit(base_url)
    kind = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
    connection = kind(address.hostname or "", address.port, timeout=patience)
    try:
        headers = {"authorization": f"Bearer {key}"} if key else {}
        connection.request("GET", f"{address.path.rstrip('/')}/models", headers=headers)
        response = connection.getresponse()
        if response.status != 200:
            raise ValueError(f"answers with status {response.status}")
        content = parse(response.read(SIZE_LIMIT))
    finally:
        connection.close()
    entries = content.get("data") if isinstance(content, dict) else None
    if not isinstance(entries, list):
        raise ValueError("answers, but not with a list of models")
    return [entry for entry in entries if isinstance(entry, dict) and isinstance(entry.get("id"), str)]


def _sized(like: Model, entry: Mapping[str, Any]) -> Model:
    meta = entry.get("meta")
    trained = meta.get("n_ctx_train") if isinstance(meta, dict) else None  # llama.cpp
    sizes = [size for size in (*(entry.get(name) for name in WINDOWS), trained) if type(size) is int and size > 0]
    window = sizes[0] if sizes else like.context_window
    return replace(like, id=entry["id"], name=entry["id"], context_window=window)

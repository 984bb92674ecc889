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

TIMEOUT_S = 0.5
MAX_RESPONSE_BYTES = 4 * 1024 * 1024
# Fields in which servers report the context window: vLLM, LM Studio, others.
CONTEXT_WINDOW_FIELDS = ("max_model_len", "max_context_length", "context_length", "context_window")


class LocalServer(NamedTuple):
    """Result for one server: its models, or the reason why there are none. Secrets in `base_url` are redacted."""

    base_url: str
    models: list[Model]
    trouble: str | None


def discover(catalog: Catalog, keys: Keys, timeout: float = TIMEOUT_S) -> dict[str, LocalServer]:
    """Query every known server on this machine for its models."""
    servers_by_name: dict[str, LocalServer] = {}
    servers = {name: model for name in sorted(LOCAL_PROVIDERS) if (model := catalog.custom_model(name, "")) is not None}

    def ask(name: str, template: Model) -> None:
        try:
            ids = _models(template.base_url, keys.get(name), timeout)
        except (OSError, http.client.HTTPException, BadRecord, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            servers_by_name[name] = LocalServer(redact_url(template.base_url), [], why or type(error).__name__)
        else:
            servers_by_name[name] = LocalServer(
                redact_url(template.base_url), [_with_context_window(template, entry) for entry in ids], None
            )

    threads = [threading.Thread(target=ask, args=item, daemon=True) for item in servers.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout)
    why = f"no answer within {timeout:g} s"
    return {
        name: servers_by_name.get(name) or LocalServer(redact_url(template.base_url), [], why)
        for name, template in servers.items()
    }


def _models(base_url: str, key: str | None, timeout: float) -> list[Mapping[str, Any]]:
    """Return the entries of GET /models. Proxy settings are ignored: these servers are the user's own."""
    address = urlsplit(base_url)
    kind = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
    connection = kind(address.hostname or "", address.port, timeout=timeout)
    try:
        headers = {"authorization": f"Bearer {key}"} if key else {}
        connection.request("GET", f"{address.path.rstrip('/')}/models", headers=headers)
        response = connection.getresponse()
        if response.status != 200:
            raise ValueError(f"answers with status {response.status}")
        content = parse(response.read(MAX_RESPONSE_BYTES))
    finally:
        connection.close()
    entries = content.get("data") if isinstance(content, dict) else None
    if not isinstance(entries, list):
        raise ValueError("answers, but not with a list of models")
    return [entry for entry in entries if isinstance(entry, dict) and isinstance(entry.get("id"), str)]


def _with_context_window(template: Model, entry: Mapping[str, Any]) -> Model:
    meta = entry.get("meta")
    trained = meta.get("n_ctx_train") if isinstance(meta, dict) else None  # llama.cpp
    sizes = [
        size
        for size in (*(entry.get(name) for name in CONTEXT_WINDOW_FIELDS), trained)
        if type(size) is int and size > 0
    ]
    window = sizes[0] if sizes else template.context_window
    return replace(template, id=entry["id"], name=entry["id"], context_window=window)

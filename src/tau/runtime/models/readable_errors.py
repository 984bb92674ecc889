"""Error responses of model servers as one sentence for a person. With --verbose they are shown as they came.

The protocol carries the original text: clients and the retry policy look for words in it.
"""

from __future__ import annotations

import logging
import re
from typing import Any

from tau.core.checks.secrets import redact_url
from tau.core.models.failures import ADVICE
from tau.core.models.pricing import OFFLINE_APIS
from tau.errors import shortened
from tau.records.base import BadRecord, parse
from tau.runtime.models.selection import ModelSelection

MAX_MESSAGE_BYTES = 300
MAX_PAGE_HEAD = 4096  # characters of a page, where its title is
# As llm/http.py writes it, and runtime/runs/summaries.py.
RESPONSE = re.compile(r"((?:[A-Z][a-z ]{1,40} failed: )?)([45]\d\d) (.*)", re.DOTALL)
NO_BODY = "status code (no body)"
VERBOSE = " (--verbose shows the whole response.)"


def readable_error(text: str, models: ModelSelection, hint: str = VERBOSE) -> str:
    """Rewrite "401 {...}" as a sentence that says whose key or which address it is about.

    `hint` says where the whole response is.
    """
    response = RESPONSE.fullmatch(text)
    if response is None or models.current is None or models.current.api in OFFLINE_APIS:
        return text
    if logging.getLogger().isEnabledFor(logging.INFO):
        return text
    prefix, status, body, advice = response[1], int(response[2]), response[3], ""
    if (last := body.rpartition("\n"))[2].startswith(ADVICE):
        body, advice = last[0], f" {last[2]}"
    message = message_of(body)
    if message == body or body == NO_BODY:
        hint = ""
    sentence = f"{prefix}{_sentence(status, models)} ({status}){f': {message}' if message else ''}".rstrip(".")
    return f"{sentence}.{advice}{hint}"


def _sentence(status: int, models: ModelSelection) -> str:
    model = models.current
    assert model is not None
    match status:
        case 401 | 403:
            source = models.keys.source(model.provider)
            return f"{model.provider} rejected the API key" + (f" from {source}" if source else "")
        case 404:
            return f"{redact_url(model.base_url)} does not have the model {model.id}, or is not the right address"
        case 429:
            return f"{model.provider} limits how much you can ask"
        case _ if status >= 500:
            return f"{model.provider} has a problem"
    return f"{model.provider} refused the request"


def message_of(body: str) -> str:
    """The message in the body of an error response: a field of JSON, the title of a page, or a short text."""
    if body == NO_BODY:
        return ""
    try:
        found = _message_in(parse(body.encode("utf-8", "replace")))
    except BadRecord:
        found = None
    if found is None and body.lstrip().startswith("<"):
        title = re.search(r"(?is)<title[^>]*>(.*?)</title>", body[:MAX_PAGE_HEAD])
        found = title[1] if title else re.sub(r"<[^<>]*>", " ", body)
    return shortened(" ".join((body if found is None else found).split()), MAX_MESSAGE_BYTES)


def _message_in(content: Any) -> str | None:
    if isinstance(content, str):
        return content
    if isinstance(content, list):  # Google sends a list with one element
        return _message_in(content[0]) if content else None
    if not isinstance(content, dict):
        return None
    return next((text for name in ("error", "message", "detail") if (text := _message_in(content.get(name)))), None)

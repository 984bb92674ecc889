"""Recorded model calls: matching requests, the content of a recording, errors for missing ones.

Two requests match if they are equal except for what changes from run to run (`normalize`): the server's address,
headers, cache markers, session ids, and in texts the working folder, the home folder, times, UUIDs, and ids that tau
generated. Everything else counts: model, system prompt, tools, each message.

A recording contains no secrets: only the request headers in SHOWN keep their value, and the values of the others are
masked in the response as well, unless they are too short to be searched for.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64decode, b64encode
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit

from tau.core.checks.secrets import MASK, MIN_SECRET_LENGTH, encoded_forms, header_secrets, mask_forms, url_secrets
from tau.errors import ModelError
from tau.llm.types import ModelRequest
from tau.records.base import Record, encode, encode_parts, parse

VERSION = 1
SHOWN = {"accept", "anthropic-beta", "anthropic-version", "content-type", "openai-beta", "user-agent"}
# Response headers that identify the account or could be used for requests.
HIDDEN = re.compile(r"key|auth|token|secret|cookie|organization|project|account", re.IGNORECASE)
SECRET_QUERY = re.compile(r"key|token|sig|credential", re.IGNORECASE)
MIN_UNNAMED_SECRET = 20
# A masked part of a field name or of the type of an event: the key was a word of the API, and the answer is unreadable.
_MASKED_STRUCTURE = re.compile(rb'(?<!\\)"(?:[^"\\\s]*\*{3}[^"\\\s]*"\s*:|type"\s*:\s*"[^"\\]*\*{3})')

# Parts of a body that only control caches, at any depth, and top-level fields that identify the caller or session.
CACHE_MARKERS = {"cache_control", "cachePoint"}
VOLATILE_FIELDS = {"prompt_cache_key", "prompt_cache_retention", "session_id", "user", "metadata"}
_PROJECT_PATH = re.compile(r"/projects/[^/]+/locations/[^/]+")
_TEXTS = (
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"), "<time>"),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", re.IGNORECASE), "<uuid>"),
    (re.compile(r"_\d{13}_(\d+)\b"), r"_<time>_\1"),  # core/agent/draft.py, for calls without ids
    (re.compile(r"pi-bash-[0-9a-f]{16}\.log"), "pi-bash-<temporary>.log"),  # runtime/machine/local.py
)

Ended = Literal["whole", "left", "failed"]


class RecordedRequest(Record):
    """The request as it is compared. Headers are only for people."""

    path: str
    headers: dict[str, str]
    body: Any


class RecordedError(Record):
    """Why there is no answer, or no more of it."""

    message: str
    status: int | None = None
    transient: bool | None = None
    retry_after_ms: int | None = None


class RecordedAnswer(Record):
    """`portions` are the chunks as they arrived: text, or an object with `base64` if they are not UTF-8.

    `ended`: "whole" at the end of the response, "left" by the reader, which had the complete answer or was stopped,
    or "failed".
    """

    portions: list[Any]
    ended: Ended
    status: int | None = None
    headers: dict[str, str] = {}
    failure: RecordedError | None = None


class RecordedExchange(Record):
    version: int
    key: str
    request: RecordedRequest
    response: RecordedAnswer


class NormalizedRequest(NamedTuple):
    """A request without what changes from run to run."""

    key: str
    path: str
    body: Any


def normalize_request(request: ModelRequest, places: Mapping[str, str]) -> NormalizedRequest:
    """Normalize a request. `places` maps texts of this machine, the longest first, to placeholders."""
    address = urlsplit(request.url)
    query = [(name, value) for name, value in parse_qsl(address.query) if not SECRET_QUERY.search(name)]
    path = _PROJECT_PATH.sub("", address.path) + (f"?{urlencode(sorted(query))}" if query else "")
    patterns = [
        (re.compile(rf"{re.escape(place)}(?![\w.-])"), placeholder)
        for place, placeholder in places.items()
        if len(place) > 1
    ]
    sent = {name: item for name, item in request.body.items() if name not in VOLATILE_FIELDS}
    body = _without_volatile(parse(b"".join(encode_parts(sent))), (*patterns, *_TEXTS))
    key = hashlib.sha256(path.encode("utf-8", "replace") + b"\n" + encode(body)).hexdigest()
    return NormalizedRequest(key, path, body)


def _without_volatile(value: Any, patterns: Sequence[tuple[re.Pattern[str], str]]) -> Any:
    if isinstance(value, str):
        for pattern, placeholder in patterns:
            value = pattern.sub(placeholder, value)
        return value
    if isinstance(value, dict):
        stable = sorted((name, item) for name, item in value.items() if name not in CACHE_MARKERS)
        return {name: _without_volatile(item, patterns) for name, item in stable}
    if isinstance(value, list):
        # Some APIs use a separate block as cache marker.
        return [
            _without_volatile(item, patterns)
            for item in value
            if not (isinstance(item, dict) and item.keys() == {"cachePoint"})
        ]
    return value


@dataclass
class ReceivedResponse:
    """The response so far."""

    portions: list[bytes]
    status: int | None = None
    headers: Mapping[str, str] | None = None
    failure: ModelError | None = None
    ended: Ended = "left"


def make_exchange(request: ModelRequest, normalized: NormalizedRequest, received: ReceivedResponse) -> RecordedExchange:
    secrets = _secrets(request)
    headers = {name.lower(): value if name.lower() in SHOWN else MASK for name, value in request.headers.items()}
    response = RecordedAnswer(
        portions=_masked_chunks(received.portions, secrets),
        ended=received.ended,
        status=received.status,
        headers={
            name.lower(): mask_forms(secrets, value)
            for name, value in (received.headers or {}).items()
            if not HIDDEN.search(name)
        },
        failure=None if received.failure is None else _recorded_error(received.failure, secrets),
    )
    body = parse(mask_forms(secrets, encode(normalized.body).decode()).encode())
    return RecordedExchange(
        VERSION, normalized.key, RecordedRequest(mask_forms(secrets, normalized.path), headers, body), response
    )


def _secrets(request: ModelRequest) -> set[str]:
    others = [(name, value) for name, value in request.headers.items() if name.lower() not in SHOWN]
    hidden = [value for name, value in others if HIDDEN.search(name) or len(value) >= MIN_UNNAMED_SECRET]
    hidden += [value for name, value in parse_qsl(urlsplit(request.url).query) if SECRET_QUERY.search(name)]
    values = [value for value in hidden if len(value) >= MIN_SECRET_LENGTH]
    # "Bearer abc", "Basic abc", and signatures with several parts
    parts = [
        part for value in values for part in re.split(r"[\s,;]+|=(?=\w)", value) if len(part) >= MIN_UNNAMED_SECRET
    ]
    found = {*values, *parts, *header_secrets(dict(others)), *url_secrets(request.url)}
    return {form for secret in found if secret for form in encoded_forms(secret)}


def _masked_chunks(chunks: Sequence[bytes], secrets: Collection[str]) -> list[Any]:
    text = b"".join(chunks).decode("latin-1")  # one character per byte, whatever the encoding
    masked = mask_forms([secret.encode("utf-8", "replace").decode("latin-1") for secret in secrets], text)
    if masked != text:
        chunks = [masked.encode("latin-1")]  # a secret may have spanned two chunks
    return [_chunk_text(chunk) for chunk in chunks]


def _chunk_text(chunk: bytes) -> Any:
    try:
        return chunk.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(chunk).decode()}


def _recorded_error(error: ModelError, secrets: Collection[str]) -> RecordedError:
    return RecordedError(mask_forms(secrets, str(error)), error.status, error.transient, error.retry_after_ms)


def recorded_chunks(answered: RecordedAnswer) -> Iterator[bytes]:
    for chunk in answered.portions:
        yield chunk.encode() if isinstance(chunk, str) else b64decode(chunk["base64"])


def recorded_failure(answered: RecordedAnswer) -> ModelError | None:
    """The error at the end of a recorded answer, or None."""
    if answered.failure is not None:
        error = answered.failure
        return ModelError(
            error.message, status=error.status, transient=error.transient, retry_after_ms=error.retry_after_ms
        )
    if answered.ended == "left":
        return ModelError(
            "The recording of this answer ends here: it was stopped when it was recorded.", transient=False
        )
    return None


class RecordingIndex:
    """Recorded calls by request. Answers to equal requests are returned in the order of their recording."""

    def __init__(self, place: str, exchanges: Mapping[str, RecordedExchange]) -> None:
        self._place = place
        self._exchanges = exchanges
        self._unused: dict[str, list[str]] = {}
        for name, exchange in exchanges.items():
            self._unused.setdefault(exchange.key, []).append(name)
        self._used: dict[str, list[str]] = {}

    def take(self, normalized: NormalizedRequest) -> RecordedAnswer:
        """The next answer to a request. Raises a ModelError that says what is missing, or that it is damaged."""
        names = self._unused.get(normalized.key)
        if not names:
            raise ModelError(self._missing(normalized), transient=False)
        name = names.pop(0)
        self._used.setdefault(normalized.key, []).append(name)
        response = self._exchanges[name].response
        if _MASKED_STRUCTURE.search(b"".join(recorded_chunks(response))):
            raise ModelError(
                f"Replay: {name} in {self._place} cannot be read: names of fields in it are masked, because the API "
                "key was a part of them. Record it again with --record.",
                transient=False,
            )
        return response

    def _missing(self, normalized: NormalizedRequest) -> str:
        model = normalized.body.get("model") if isinstance(normalized.body, dict) else None
        asked = f"POST {normalized.path}" + (f", model {model}" if model else "")
        if given := self._used.get(normalized.key):
            return (
                f"Replay: {asked} was asked {len(given) + 1} times, and {self._place} has {len(given)} recorded "
                f"answers to it ({', '.join(given)}). Record it again with --record."
            )
        nearest = max(self._exchanges.items(), key=lambda item: _similarity(item[1].request, normalized), default=None)
        found = None if nearest is None else difference(_comparable(nearest[1].request), _comparable(normalized))
        if nearest is None or found is None:
            return f"Replay: there is no recorded answer to {asked} in {self._place}. Record one with --record."
        place, recorded, now = found
        return (
            f"Replay: there is no recorded answer to {asked} in {self._place}. The nearest, {nearest[0]}, differs "
            f"first at {place}: recorded {recorded}, asked {now}. Record it again with --record."
        )


def _comparable(request: RecordedRequest | NormalizedRequest) -> dict[str, Any]:
    return {"path": request.path, "body": request.body}


def _similarity(recorded: RecordedRequest, normalized: NormalizedRequest) -> tuple[int, int]:
    """How much is equal before the first difference: values, and characters of the next value."""
    count = 0
    for one, other in zip(_leaves(_comparable(recorded), ""), _leaves(_comparable(normalized), ""), strict=False):
        if one != other:
            texts = isinstance(one[1], str) and isinstance(other[1], str)
            return count, _first_difference(one[1], other[1]) if texts else 0
        count += 1
    return count, 0


def difference(recorded: Any, asked: Any) -> tuple[str, str, str] | None:
    """The first place where two values differ, and both values there."""
    recorded_leaves, asked_leaves = dict(_leaves(recorded, "")), dict(_leaves(asked, ""))
    for place in dict.fromkeys([*asked_leaves, *recorded_leaves]):
        first, second = recorded_leaves.get(place, ...), asked_leaves.get(place, ...)
        if first != second:
            at = _first_difference(first, second) if isinstance(first, str) and isinstance(second, str) else 0
            return place, _excerpt(first, at), _excerpt(second, at)
    return None


def _leaves(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for name, item in value.items():
            yield from _leaves(item, f"{place}.{name}" if place else name)
    elif isinstance(value, list) and value:
        for at, item in enumerate(value):
            yield from _leaves(item, f"{place}[{at}]")
    else:
        yield place, value


def _first_difference(one: str, other: str) -> int:
    same = (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(same, min(len(one), len(other)))


def _excerpt(value: Any, at: int) -> str:
    if value is ...:
        return "nothing"
    if not isinstance(value, str):
        return encode(value).decode()[:120]
    start = max(0, at - 30)
    part = value[start : at + 60]
    return f"{'…' if start else ''}{encode(part).decode()}{'…' if at + 60 < len(value) else ''}"

"""Model exchanges, recorded and found again: which requests are the same, what is kept of one, what is missing.

Two requests are the same if they are equal but for what changes from run to run
(`normal`): the server's address, headers, marks for caches, ids of sessions, and in
texts the working folder, the home folder, times, UUIDs, and ids that tau made up.
Everything else counts: model, system prompt, tools, each message.

No secret gets into a recording: of the request's headers only those of SHOWN keep
their value, and what the others hold is also taken out of the answer.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64decode, b64encode
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit

from tau.core.checks.secrets import MASK, forms, of_address, of_headers, without
from tau.errors import ModelError
from tau.llm.types import Request
from tau.records.base import Record, encode, encode_parts, parse

VERSION = 1
SHOWN = {"accept", "anthropic-beta", "anthropic-version", "content-type", "openai-beta", "user-agent"}
# Of the answer: what says who asked, or could be used to ask.
HIDDEN = re.compile(r"key|auth|token|secret|cookie|organization|project|account", re.IGNORECASE)
SECRET_QUERY = re.compile(r"key|token|sig|credential", re.IGNORECASE)
SHORTEST_SECRET, LONG = 6, 20

# What in a body only steers caches, wherever it stands, and what on top of it says who asks and when.
MARKS = {"cache_control", "cachePoint"}
PASSING = {"prompt_cache_key", "prompt_cache_retention", "session_id", "user", "metadata"}
_WHERE = re.compile(r"/projects/[^/]+/locations/[^/]+")
_TEXTS = (
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"), "<time>"),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", re.IGNORECASE), "<uuid>"),
    (re.compile(r"_\d{13}_(\d+)\b"), r"_<time>_\1"),  # core/agent/draft.py, where a model gives its calls no ids
    (re.compile(r"pi-bash-[0-9a-f]{16}\.log"), "pi-bash-<temporary>.log"),  # runtime/machine/local.py
)

Ended = Literal["whole", "left", "failed"]


class Asked(Record):
    """The request as it is compared. Headers are for people to look at."""

    path: str
    headers: dict[str, str]
    body: Any


class Refusal(Record):
    """Why there is no answer, or no more of it."""

    message: str
    status: int | None = None
    transient: bool | None = None
    retry_after_ms: int | None = None


class Answered(Record):
    """`portions` are the bytes as they came: text, or an object with `base64` where they are none.

    `ended`: at the end of the response; by the reader, who had the whole answer or was stopped; by a failure.
    """

    portions: list[Any]
    ended: Ended
    status: int | None = None
    headers: dict[str, str] = {}
    failure: Refusal | None = None


class Exchange(Record):
    version: int
    key: str
    request: Asked
    response: Answered


# Requests.


class Normal(NamedTuple):
    """A request without what changes from run to run."""

    key: str
    path: str
    body: Any


def normal(request: Request, places: Mapping[str, str]) -> Normal:
    """`places` has texts of this machine, the longest first, and what stands for them."""
    address = urlsplit(request.url)
    query = [(name, value) for name, value in parse_qsl(address.query) if not SECRET_QUERY.search(name)]
    path = _WHERE.sub("", address.path) + (f"?{urlencode(sorted(query))}" if query else "")
    patterns = [
        (re.compile(rf"{re.escape(place)}(?![\w.-])"), sign) for place, sign in places.items() if len(place) > 1
    ]
    sent = {name: item for name, item in request.body.items() if name not in PASSING}
    body = _plain(parse(b"".join(encode_parts(sent))), (*patterns, *_TEXTS))
    key = hashlib.sha256(path.encode("utf-8", "replace") + b"\n" + encode(body)).hexdigest()
    return Normal(key, path, body)


def _plain(value: Any, patterns: Sequence[tuple[re.Pattern[str], str]]) -> Any:
    if isinstance(value, str):
        for pattern, sign in patterns:
            value = pattern.sub(sign, value)
        return value
    if isinstance(value, dict):
        kept = sorted((name, item) for name, item in value.items() if name not in MARKS)
        return {name: _plain(item, patterns) for name, item in kept}
    if isinstance(value, list):
        # A mark between blocks is a block of its own for some.
        return [
            _plain(item, patterns) for item in value if not (isinstance(item, dict) and item.keys() == {"cachePoint"})
        ]
    return value


# What is kept.


@dataclass
class Heard:
    """What came back so far."""

    portions: list[bytes]
    status: int | None = None
    headers: Mapping[str, str] | None = None
    failure: ModelError | None = None
    ended: Ended = "left"


def exchange(request: Request, what: Normal, heard: Heard) -> Exchange:
    secrets = _secrets(request)
    headers = {name.lower(): value if name.lower() in SHOWN else MASK for name, value in request.headers.items()}
    response = Answered(
        portions=_portions(heard.portions, secrets),
        ended=heard.ended,
        status=heard.status,
        headers={
            name.lower(): without(secrets, value)
            for name, value in (heard.headers or {}).items()
            if not HIDDEN.search(name)
        },
        failure=None if heard.failure is None else _refusal(heard.failure, secrets),
    )
    body = parse(without(secrets, encode(what.body).decode()).encode())
    return Exchange(VERSION, what.key, Asked(without(secrets, what.path), headers, body), response)


def _secrets(request: Request) -> set[str]:
    others = [(name, value) for name, value in request.headers.items() if name.lower() not in SHOWN]
    hidden = [value for name, value in others if HIDDEN.search(name) or len(value) >= LONG]
    hidden += [value for name, value in parse_qsl(urlsplit(request.url).query) if SECRET_QUERY.search(name)]
    whole = [value for value in hidden if len(value) >= SHORTEST_SECRET]
    # "Bearer abc", "Basic abc", and signatures of several parts
    parts = [part for value in whole for part in re.split(r"[\s,;]+|=(?=\w)", value) if len(part) >= LONG]
    found = {*whole, *parts, *of_headers(dict(others)), *of_address(request.url)}
    return {form for secret in found if secret for form in (forms(secret) or {secret})}


def _portions(portions: Sequence[bytes], secrets: Collection[str]) -> list[Any]:
    whole = b"".join(portions).decode("latin-1")  # whatever it is, a character for each byte
    kept = without([secret.encode("utf-8", "replace").decode("latin-1") for secret in secrets], whole)
    if kept != whole:
        portions = [kept.encode("latin-1")]  # it may have stood across a border
    return [_as_text(portion) for portion in portions]


def _as_text(portion: bytes) -> Any:
    try:
        return portion.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(portion).decode()}


def _refusal(error: ModelError, secrets: Collection[str]) -> Refusal:
    return Refusal(without(secrets, str(error)), error.status, error.transient, error.retry_after_ms)


# What is found again.


def portions(answered: Answered) -> Iterator[bytes]:
    for portion in answered.portions:
        yield portion.encode() if isinstance(portion, str) else b64decode(portion["base64"])


def failure(answered: Answered) -> ModelError | None:
    """How the answer ends after its last portion, if not as it should."""
    if answered.failure is not None:
        told = answered.failure
        return ModelError(
            told.message, status=told.status, transient=told.transient, retry_after_ms=told.retry_after_ms
        )
    if answered.ended == "left":
        return ModelError(
            "The recording of this answer ends here: it was stopped when it was recorded.", transient=False
        )
    return None


class Shelf:
    """Recorded exchanges by what was asked. Those of one question are handed out in the order of their recording."""

    def __init__(self, place: str, exchanges: Mapping[str, Exchange]) -> None:
        self._place = place
        self._named = exchanges
        self._waiting: dict[str, list[str]] = {}
        for name, exchange in exchanges.items():
            self._waiting.setdefault(exchange.key, []).append(name)
        self._given: dict[str, list[str]] = {}

    def take(self, what: Normal) -> Answered:
        """The next answer to this; a ModelError that says what is missing if there is none."""
        names = self._waiting.get(what.key)
        if not names:
            raise ModelError(self._missing(what), transient=False)
        name = names.pop(0)
        self._given.setdefault(what.key, []).append(name)
        return self._named[name].response

    def _missing(self, what: Normal) -> str:
        model = what.body.get("model") if isinstance(what.body, dict) else None
        asked = f"POST {what.path}" + (f", model {model}" if model else "")
        if given := self._given.get(what.key):
            return (
                f"Replay: {asked} was asked {len(given) + 1} times, and {self._place} has {len(given)} recorded "
                f"answers to it ({', '.join(given)}). Record it again with --record."
            )
        nearest = max(self._named.items(), key=lambda one: _alike(one[1].request, what), default=None)
        found = None if nearest is None else difference(_whole(nearest[1].request), _whole(what))
        if nearest is None or found is None:
            return f"Replay: there is no recorded answer to {asked} in {self._place}. Record one with --record."
        place, recorded, now = found
        return (
            f"Replay: there is no recorded answer to {asked} in {self._place}. The nearest, {nearest[0]}, differs "
            f"first at {place}: recorded {recorded}, asked {now}. Record it again with --record."
        )


def _whole(request: Asked | Normal) -> dict[str, Any]:
    return {"path": request.path, "body": request.body}


def _alike(recorded: Asked, what: Normal) -> tuple[int, int]:
    """How much is equal before the first difference: values, and characters of the next."""
    count = 0
    for one, other in zip(_leaves(_whole(recorded), ""), _leaves(_whole(what), ""), strict=False):
        if one != other:
            texts = isinstance(one[1], str) and isinstance(other[1], str)
            return count, _apart(one[1], other[1]) if texts else 0
        count += 1
    return count, 0


def difference(recorded: Any, asked: Any) -> tuple[str, str, str] | None:
    """The first place where two values differ, and what stands there."""
    theirs, ours = dict(_leaves(recorded, "")), dict(_leaves(asked, ""))
    for place in dict.fromkeys([*ours, *theirs]):
        one, other = theirs.get(place, ...), ours.get(place, ...)
        if one != other:
            at = _apart(one, other) if isinstance(one, str) and isinstance(other, str) else 0
            return place, _shown(one, at), _shown(other, at)
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


def _apart(one: str, other: str) -> int:
    same = (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(same, min(len(one), len(other)))


def _shown(value: Any, at: int) -> str:
    if value is ...:
        return "nothing"
    if not isinstance(value, str):
        return encode(value).decode()[:120]
    start = max(0, at - 30)
    part = value[start : at + 60]
    return f"{'…' if start else ''}{encode(part).decode()}{'…' if at + 60 < len(value) else ''}"

"""Mask secrets in texts that may repeat them, such as error messages of servers.

A server that rejects a key often quotes it, and may do so encoded: as JSON, HTML, URL or base64. So every known
secret is searched in all of these forms. Servers also truncate keys, so a piece that begins or ends a form is masked
wherever it occurs, if it is long enough to reveal something: see `_min_piece`. At the end of a text, where the text
itself may be truncated, MIN_SECRET_LENGTH characters are enough.

A secret shorter than MIN_SECRET_LENGTH is not masked: removing every "abc" destroys the text, and the gaps reveal it
anyway.
"""

from __future__ import annotations

import binascii
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from posixpath import commonprefix
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

from tau.records.base import UNSET, replace
from tau.records.models import Model

MASK = "***"
MIN_SECRET_LENGTH = 8
MIN_RUN = 12  # characters that identify a part of a secret without context
MIN_REVEALING = 4
MAX_PREFIX = 24

# Not compiled at import: every session imports this module, most never use these.
_PARAMETER = r"([?&])([^?=&#]*)=([^&#]*)"
_UNENCODED = r"[A-Za-z0-9_~-]+"
_WORD = r"(?:[A-Z]?[a-z]{1,12}|[A-Z]{1,12})?[0-9]{0,2}"  # optionally with a number, as in v1 and api03
_SECRET_WORDS = ("key", "auth", "token", "secret", "cookie", "passw", "credential")
_HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})
_HTML_DECIMAL = str.maketrans({"'": "&#39;"})


def is_secret(name: str) -> bool:
    """True if the value of a header or query parameter with this name is a secret."""
    lower = name.lower()
    return any(word in lower for word in _SECRET_WORDS) or lower.endswith(("sig", "signature"))


def mask_secrets(text: str, secrets: Iterable[str | None]) -> str:
    """`text` with these secrets masked, in every encoded form."""
    return mask_forms({form for secret in secrets if secret for form in encoded_forms(secret)}, text)


def mask_forms(found: Collection[str], text: str) -> str:
    """The same for exactly these forms, and for pieces that begin or end one of them."""
    reversed_text = text[::-1]
    spans: list[tuple[int, int]] = []
    for form in found:
        spans += _occurrences(form, len(form), text)
        if (least := _min_match(form, last=False)) < len(form):
            spans += _occurrences(form, least, text)
        if (least := _min_match(form, last=True)) < len(form):
            ends = _occurrences(form[::-1], least, reversed_text)
            spans += ((len(text) - end, len(text) - start) for start, end in ends)
        if (start := _truncated_at_end(form, text)) is not None:
            spans.append((start, len(text)))
    return _mask_spans(text, spans)


def _occurrences(form: str, least: int, text: str) -> Iterator[tuple[int, int]]:
    """Spans that start with the first `least` characters of a form, extended as far as they match it."""
    head, at = form[:least], -1
    while (at := text.find(head, at + 1)) >= 0:
        yield at, at + len(commonprefix((form, text[at : at + len(form)])))


def _truncated_at_end(form: str, text: str) -> int | None:
    """Start of a truncated form at the end of the text, or None."""
    at = max(0, len(text) - len(form)) - 1
    while (at := text.find(form[:MIN_SECRET_LENGTH], at + 1)) >= 0:
        if len(text) - at >= MIN_SECRET_LENGTH and form.startswith(text[at:]):
            return at
    return None


def _mask_spans(text: str, spans: list[tuple[int, int]]) -> str:
    parts: list[str] = []
    done = 0
    for start, end in sorted(spans):
        if start > done or not parts:
            parts += (text[done:start], MASK)
        done = max(done, end)
    return "".join((*parts, text[done:]))


@lru_cache(1024)
def _min_match(form: str, *, last: bool) -> int:
    """How many of the first, or last, characters of a form must occur in a text to be masked there.

    At least MIN_SECRET_LENGTH, of which MIN_REVEALING are not plain words: the `sk-ant-api03-` of a key is in every
    manual, and a password that begins with `production` is no reason to mask that word. MAX_PREFIX characters are
    always enough.
    """
    for count in range(MIN_SECRET_LENGTH, min(MAX_PREFIX, len(form))):
        words = re.split("[^A-Za-z0-9]+", form[-count:] if last else form[:count])
        if sum(len(word) for word in words if not re.fullmatch(_WORD, word)) >= MIN_REVEALING:
            return count
    return MAX_PREFIX


def encoded_forms(secret: str) -> set[str]:
    """A secret in every encoding in which it may be repeated; empty if it is too short to be searched."""
    if len(secret) < MIN_SECRET_LENGTH:
        return set()
    data = secret.encode("utf-8", "replace")
    html = secret.translate(_HTML)
    found = {secret, html, html.translate(_HTML_DECIMAL), *_base64_forms(data)}
    for written in (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]):
        found |= {written, written.replace("/", "\\/")}
    for quoted in (quote(data), quote(data, safe=""), quote_plus(data)):
        found |= {quoted, re.sub("%[0-9A-F]{2}", lambda mark: mark[0].lower(), quoted)}
    # Encodings can be nested without limit; runs that no encoding changes are the same in all of them.
    for run in re.findall(_UNENCODED, secret):
        if len(run) >= MIN_RUN:
            found |= {run, *_base64_forms(run.encode())}
    return {form for form in found if len(form) >= MIN_SECRET_LENGTH}


def _base64_forms(data: bytes) -> Iterator[str]:
    """Base64 of `data` at any offset in a longer value: three bytes become four characters, so there are three."""
    for before in range(3):
        encoded = binascii.b2a_base64(bytes(before) + data, newline=False).decode()
        stable = encoded[
            (before * 8 + 5) // 6 : (before + len(data)) * 8 // 6
        ]  # the part that does not depend on neighbouring bytes
        if len(stable) >= MIN_RUN:
            yield from (stable, stable.replace("+", "-").replace("/", "_"))


def header_secrets(headers: Mapping[str, str], *, all_names: bool = False) -> Iterator[str]:
    """Secrets in headers: values of headers that are named like secrets, or of all headers."""
    for name, value in headers.items():
        if all_names or is_secret(name):
            yield value
            kind, _, rest = value.partition(" ")
            if kind.lower() == "basic":
                yield from _basic_secrets(rest.strip())
            elif kind.lower() in ("bearer", "token"):
                yield rest.strip()


def _basic_secrets(packed: str) -> Iterator[str]:
    """Secrets of Basic authentication: the encoded pair, the pair and the password."""
    yield packed
    try:
        pair = binascii.a2b_base64(packed).decode()
    except ValueError:  # of base64 too
        return
    yield from (pair, pair.partition(":")[2])


def url_secrets(url: str) -> Iterator[str]:
    """Secrets in a URL: its password, encoded and decoded, and secret query parameters."""
    try:
        address = urlsplit(url)
        name, password = address.username, address.password
    except ValueError:  # not a valid URL: the part before an "@" may still be a password
        yield url.partition("://")[2].rpartition("@")[0]
        return
    if name is not None and password is None:
        yield from (name, unquote(name))  # a token in place of a user name
    if password is not None:
        pair = f"{unquote(name or '')}:{unquote(password)}"
        yield from (password, unquote(password), pair)
    yield from (value for part, value in parse_qsl(address.query) if is_secret(part))


def redact_url(url: str) -> str:
    """A URL with its secrets masked."""
    head, found, rest = url.partition("://")
    # A slash in a password makes the URL invalid, but it is still shown: in the error message about it.
    has_split_password = "@" in rest and ":" in (host := rest.partition("/")[0]) and not re.search(r"@|:\d*$|\]$", host)
    rest = f"{MASK}@{rest.rpartition('@')[2]}" if has_split_password else rest
    place, slash, path = rest.partition("/")
    place = f"{MASK}@{place.rpartition('@')[2]}" if "@" in place else place
    if "=" in path:
        path = re.sub(_PARAMETER, lambda part: part[0] if not is_secret(part[2]) else _mask_parameter(part), path)
    return f"{head}{found}{place}{slash}{path}"


def _mask_parameter(part: re.Match[str]) -> str:
    return f"{part[1]}{part[2]}={MASK}"


def redact_model(model: Model) -> Model:
    """A model as clients may see it: without its headers, and with the secrets in its base URL masked."""
    where = redact_url(model.base_url)
    if where == model.base_url and model.headers is UNSET:
        return model
    return replace(model, base_url=where, headers=UNSET)

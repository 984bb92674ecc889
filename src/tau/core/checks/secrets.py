"""Texts without the secrets that somebody might repeat in them.

A server that refuses a key likes to say which key it was, and it may say so in
the notation of whatever it speaks: JSON, HTML, an address, base64. So every known
secret is looked for in all of these forms. Servers also cut keys off, so a piece that
begins or ends a form is masked wherever it stands, if it is long enough to tell
something: see `_least`. At the end of a text, where the text itself may be cut off,
SHORTEST characters are enough.

A secret of fewer than SHORTEST characters is left alone: to take every "abc" out
of a text destroys the text, and hides nothing from whoever sees where it was.
"""

from __future__ import annotations

import json
import re
from binascii import Error, a2b_base64, b2a_base64
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from posixpath import commonprefix
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

from tau.records.base import replace
from tau.records.models import Model

MASK = "***"
SHORTEST = 8
DISTINCT = 12  # characters that are known for a part of a secret by themselves
TELLING = 4
LONGEST = 24

# Not compiled ahead: most sessions never need it, and all of them start with this module.
_PLAIN = r"[A-Za-z0-9_~-]+"
_WORD = r"(?:[A-Z]?[a-z]{1,12}|[A-Z]{1,12})?[0-9]{0,2}"  # also with a number, as in v1 and api03
_NAMED = ("key", "auth", "token", "secret", "cookie", "passw", "credential")
_HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})
_NODE = str.maketrans({"'": "&#39;"})


def is_secret(name: str) -> bool:
    """Whether what has this name, a header or a part of a query, is not for everybody."""
    small = name.lower()
    return any(word in small for word in _NAMED) or small.endswith(("sig", "signature"))


def masked(text: str, secrets: Iterable[str | None]) -> str:
    """`text` with a mask where one of these stands, in whatever form."""
    return without({form for secret in secrets if secret for form in forms(secret)}, text)


def without(found: Collection[str], text: str) -> str:
    """The same for exactly these forms, and for pieces that begin or end one of them."""
    backwards = text[::-1]
    spans: list[tuple[int, int]] = []
    for form in found:
        spans += _places(form, len(form), text)
        if (least := _least(form, last=False)) < len(form):
            spans += _places(form, least, text)
        if (least := _least(form, last=True)) < len(form):
            ends = _places(form[::-1], least, backwards)
            spans += ((len(text) - end, len(text) - start) for start, end in ends)
        if (start := _cut_off(form, text)) is not None:
            spans.append((start, len(text)))
    return _with_masks(text, spans)


def _places(form: str, least: int, text: str) -> Iterator[tuple[int, int]]:
    """Where the first `least` characters of a form stand, each with as much of the form as follows."""
    head, at = form[:least], -1
    while (at := text.find(head, at + 1)) >= 0:
        yield at, at + len(commonprefix((form, text[at : at + len(form)])))


def _cut_off(form: str, text: str) -> int | None:
    """Where a beginning of the form starts with which the text ends."""
    at = max(0, len(text) - len(form)) - 1
    while (at := text.find(form[:SHORTEST], at + 1)) >= 0:
        if len(text) - at >= SHORTEST and form.startswith(text[at:]):
            return at
    return None


def _with_masks(text: str, spans: list[tuple[int, int]]) -> str:
    kept: list[str] = []
    done = 0
    for start, end in sorted(spans):
        if start > done or not kept:
            kept += (text[done:start], MASK)
        done = max(done, end)
    return "".join((*kept, text[done:]))


@lru_cache(1024)
def _least(form: str, *, last: bool) -> int:
    """How many of the first, or last, characters of a form must stand in a text to be masked there.

    SHORTEST, of which TELLING are no plain words: the `sk-ant-api03-` of a key is in every manual, and a
    password that begins with `production` is no reason to mask that word. LONGEST are always enough.
    """
    for count in range(SHORTEST, min(LONGEST, len(form))):
        words = re.split("[^A-Za-z0-9]+", form[-count:] if last else form[:count])
        if sum(len(word) for word in words if not re.fullmatch(_WORD, word)) >= TELLING:
            return count
    return LONGEST


def forms(secret: str) -> set[str]:
    """A secret in every notation that it may be repeated in; nothing if it is too short to be looked for."""
    if len(secret) < SHORTEST:
        return set()
    data = secret.encode("utf-8", "replace")
    html = secret.translate(_HTML)
    found = {secret, html, html.translate(_NODE), *_packed(data)}
    for written in (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]):
        found |= {written, written.replace("/", "\\/")}
    for quoted in (quote(data), quote(data, safe=""), quote_plus(data)):
        found |= {quoted, re.sub("%[0-9A-F]{2}", lambda mark: mark[0].lower(), quoted)}
    # Notations inside notations are without end; what no notation changes is the same in all of them.
    for run in re.findall(_PLAIN, secret):
        if len(run) >= DISTINCT:
            found |= {run, *_packed(run.encode())}
    return {form for form in found if len(form) >= SHORTEST}


def _packed(data: bytes) -> Iterator[str]:
    """In base64, wherever it stands in what is packed: three bytes become four characters, so there are three ways."""
    for before in range(3):
        whole = b2a_base64(bytes(before) + data, newline=False).decode()
        sure = whole[(before * 8 + 5) // 6 : (before + len(data)) * 8 // 6]  # what no neighbour has a part in
        if len(sure) >= DISTINCT:
            yield from (sure, sure.replace("+", "-").replace("/", "_"))


def of_headers(headers: Mapping[str, str], *, whatever_their_name: bool = False) -> Iterator[str]:
    """What must not be repeated of headers: those that are named like secrets, or all of them."""
    for name, value in headers.items():
        if whatever_their_name or is_secret(name):
            yield value
            kind, _, rest = value.partition(" ")
            if kind.lower() == "basic":
                yield from _of_pair(rest.strip())
            elif kind.lower() in ("bearer", "token"):
                yield rest.strip()


def _of_pair(packed: str) -> Iterator[str]:
    """Of a name and a password, as they are sent."""
    yield packed
    try:
        pair = a2b_base64(packed).decode()
    except (Error, ValueError):
        return
    yield from (pair, pair.partition(":")[2])


def of_address(url: str) -> Iterator[str]:
    """What must not be repeated of an address: its password, as it is written and as it is sent, and keys in it."""
    try:
        address = urlsplit(url)
        name, password = address.username, address.password
    except ValueError:  # no address at all: what stands before an "@" may be a password nevertheless
        yield url.partition("://")[2].rpartition("@")[0]
        return
    if name is not None and password is None:
        yield from (name, unquote(name))  # a token in the place of a name
    if password is not None:
        pair = f"{unquote(name or '')}:{unquote(password)}"
        yield from (password, unquote(password), pair)
    yield from (value for part, value in parse_qsl(address.query) if is_secret(part))


def shown_address(url: str) -> str:
    """An address as it may be shown."""
    head, found, rest = url.partition("://")
    # A slash in a password makes an address that is none, and is shown nevertheless: in the error that says so.
    torn = "@" in rest and ":" in (host := rest.partition("/")[0]) and not re.search(r"@|:\d*$|\]$", host)
    rest = f"{MASK}@{rest.rpartition('@')[2]}" if torn else rest
    place, slash, path = rest.partition("/")
    place = f"{MASK}@{place.rpartition('@')[2]}" if "@" in place else place
    path = re.sub(r"([?&])([^=&#]*)=([^&#]*)", lambda part: part[0] if not is_secret(part[2]) else _hidden(part), path)
    return f"{head}{found}{place}{slash}{path}"


def _hidden(part: re.Match[str]) -> str:
    return f"{part[1]}{part[2]}={MASK}"


def shown(model: Model) -> Model:
    """A model as clients are told of it: what its entry says of headers and in its address may be secrets."""
    headers = {
        name: MASK if is_secret(name) or len(value) >= SHORTEST else value
        for name, value in (model.headers or {}).items()
    }
    where = shown_address(model.base_url)
    if where == model.base_url and headers == (model.headers or {}):
        return model
    return replace(model, base_url=where, headers=headers if model.headers else model.headers)

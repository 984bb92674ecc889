"""Texts without the secrets that somebody might repeat in them.

A server that refuses a key likes to say which key it was, and it may say so in
the notation of whatever it speaks: JSON, HTML, an address, base64. So every known
secret is looked for in all of these forms, and a beginning of one at the end of a
text, where something was cut off, counts as well.

A secret of fewer than SHORTEST characters is left alone: to take every "abc" out
of a text destroys the text, and hides nothing from whoever sees where it was.
"""

from __future__ import annotations

import json
import re
from binascii import Error, a2b_base64, b2a_base64
from collections.abc import Collection, Iterable, Iterator, Mapping
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

from tau.records.base import replace
from tau.records.models import Model

MASK = "***"
SHORTEST = 8
DISTINCT = 12  # characters that are known for a part of a secret by themselves

# Not compiled ahead: most sessions never need it, and all of them start with this module.
_PLAIN = r"[A-Za-z0-9_~-]+"
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
    """The same for exactly these forms. One that was cut off at the end of the text is no less of a secret."""
    known = sorted(found, key=len, reverse=True)
    for form in known:
        text = text.replace(form, MASK)
    for form in known:
        for end in range(min(len(form), len(text)), SHORTEST - 1, -1):
            if text.endswith(form[:end]):
                return text[:-end] + MASK
    return text


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

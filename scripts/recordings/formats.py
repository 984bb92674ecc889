"""The formats of recordings: VCR as YAML and JSON, httprr, and plain chunks. Yields answers that were streamed."""

from __future__ import annotations

import gzip
import http.client
import io
import json
import re
import zlib
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tau.records.base import Value

# The API by the address of a request.
ADDRESSES = (
    (re.compile(r"/chat/completions(\?|$)"), "openai-completions"),
    (re.compile(r"/responses(\?|$)"), "openai-responses"),
    (re.compile(r"/messages(\?|$)"), "anthropic-messages"),
    (re.compile(r":streamGenerateContent(\?|$)"), "google-generative-ai"),
    (re.compile(r"/converse-stream(\?|$)"), "bedrock-converse-stream"),
    (re.compile(r"claude.*/invoke-with-response-stream(\?|$)"), "bedrock-anthropic-messages"),
)
# The API by a mark in the first event of plain chunks.
MARKS = (
    (re.compile(rb'"type": ?"message_start"'), "anthropic-messages"),
    (re.compile(rb'"type": ?"response\.'), "openai-responses"),
    (re.compile(rb'"candidates": ?\[|"usageMetadata"'), "google-generative-ai"),
    (re.compile(rb'"choices": ?\['), "openai-completions"),
)
EVENT_STREAM = re.compile(rb"(^|\n)(data|event):")
FRAMES = re.compile(rb"\A\0[\0-\xff]{3}\0\0[\0-\xff]{2}")  # an AWS event stream begins with lengths below 16 MB


class Cassette(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML of Python, Go and Ruby."""


Cassette.add_constructor("!binary", Cassette.construct_yaml_binary)  # how Ruby writes it
Cassette.add_multi_constructor(None, lambda loader, tag, node: None)  # objects of a program, such as headers


class Recorded(Value):
    """A streamed answer. `url` is empty for plain chunks."""

    name: str
    url: str
    api: str
    body: bytes


class Unreadable(Exception):
    """A file that is none of the formats."""


def recorded(file: Path) -> Iterator[Recorded]:
    """The streamed answers in a file. What is not an answer of a known API is left out."""
    data = file.read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    name = file.name.removesuffix(".gz")
    if data.startswith(b"httprr trace"):
        found = list(_httprr(data))
    elif name.endswith((".yaml", ".yml", ".json")):
        found = list(_exchanges(_parsed(name, data)))
    else:
        found = [("", _chunks(data))]
    for url, body in found:
        if (api := _api(url, body)) is not None:
            yield Recorded(name=str(file), url=url, api=api, body=body)


def _parsed(name: str, data: bytes) -> Any:
    try:
        return json.loads(data) if name.endswith(".json") else yaml.load(data, Cassette)
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        raise Unreadable(f"not {'JSON' if name.endswith('.json') else 'YAML'}: {str(error)[:100]}") from None


def _exchanges(value: Any) -> Iterator[tuple[str, bytes]]:
    """Address and answer of every object that has a request and a response, however deep."""
    if isinstance(value, list):
        for item in value:
            yield from _exchanges(item)
    elif isinstance(value, dict):
        request, response = value.get("request"), value.get("response")
        if isinstance(request, dict) and isinstance(response, dict):
            url = next((request[name] for name in ("url", "uri", "path") if isinstance(request.get(name), str)), "")
            yield url, _body(response)
        else:
            for item in value.values():
                yield from _exchanges(item)


def _body(response: dict[str, Any]) -> bytes:
    """The body, which libraries keep as text, bytes, base64, a list of chunks, or an object with one of these."""
    body = next((response[name] for name in ("chunks", "body", "content") if response.get(name)), "")
    if isinstance(body, dict) and "base64_string" in body:
        body = b64decode(body["base64_string"])
    if isinstance(body, dict):
        body = body.get("string") or ""
    if isinstance(body, list):
        body = "".join(part if isinstance(part, str) else json.dumps(part) for part in body)
    found = body if isinstance(body, bytes) else str(body).encode("utf-8", "surrogatepass")
    if response.get("bodyEncoding") == "base64" or re.fullmatch(rb"AAA[A-Za-z0-9+/\s]+=*\s*", found):
        found = b64decode(found)
    return _unpacked(found)


def _unpacked(body: bytes) -> bytes:
    try:
        return gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body
    except (OSError, EOFError, zlib.error) as error:
        raise Unreadable(f"a body that is not gzip: {error}") from None


def _httprr(data: bytes) -> Iterator[tuple[str, bytes]]:
    """The format of Go's httprr: the lengths of a request and a response, and then both."""
    at = data.index(b"\n") + 1
    while at < len(data):
        end = data.index(b"\n", at)
        asked, answered = (int(length) for length in data[at:end].split())
        request, response = data[end + 1 : end + 1 + asked], data[end + 1 + asked : end + 1 + asked + answered]
        at = end + 1 + asked + answered
        parsed = http.client.HTTPResponse(_Replayed(response.replace(b"HTTP/2.0", b"HTTP/1.1", 1)))  # type: ignore[arg-type]
        try:
            parsed.begin()
            yield request.split(b" ", 2)[1].decode(), _unpacked(parsed.read())
        except http.client.HTTPException as error:
            raise Unreadable(f"not an HTTP response: {error!r}") from None


class _Replayed:
    """A socket that has received these bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self._data)


def _chunks(data: bytes) -> bytes:
    """Events as they were sent, or the JSON of one event per line."""
    if EVENT_STREAM.search(data):
        return data
    lines = [line.strip() for line in data.split(b"\n") if line.startswith(b"{")]
    kinds = [re.match(rb'\{"type": ?"([\w.]+)"', line) for line in lines]
    events = [
        (b"event: " + kind[1] + b"\n" if kind else b"") + b"data: " + line + b"\n\n"
        for kind, line in zip(kinds, lines, strict=True)
    ]
    end = b"data: [DONE]\n\n" if lines and MARKS[-1][0].search(data) else b""
    return b"".join(events) + end


def _api(url: str, body: bytes) -> str | None:
    """The API of an answer; None if it was not streamed."""
    if not EVENT_STREAM.search(body) and not FRAMES.match(body):
        return None
    if url:
        return next((api for address, api in ADDRESSES if address.search(url)), None)
    return next((api for mark, api in MARKS if mark.search(body[:20_000])), None)

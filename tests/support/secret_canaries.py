"""Secrets that can be recognised anywhere, a server that repeats whatever it was sent, and the search for them.

A canary has a core that no notation changes, and around it what every notation
changes: quotes, slashes, signs of HTML and of addresses. So one search for the
core, plain and in base64, finds it in all of them.

    with Echo() as server:
        nest = Nest(tmp_path, server)
        nest.models                 # for models.json: one provider for each way to give a key, with other secrets too
        server.script = ["401"]     # what happens to the next requests, in order; the last for ever
        ...
        nest.found(stdout)          # where canaries are that should be nowhere
"""

from __future__ import annotations

import base64
import html
import json
import os
import stat
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlsplit

from support.anthropic_server import events
from support.rpc_process import Json, surroundings

AROUND = "\"/+&<='"


class Canary:
    def __init__(self, name: str, around: str = AROUND) -> None:
        self.core = f"canary{name}{os.urandom(8).hex()}"
        self.value = f"sk-{around}{self.core}{around}z"

    def is_in(self, data: bytes) -> bool:
        return any(form in data for form in self._forms())

    def _forms(self) -> Iterator[bytes]:
        core = self.core.encode()
        yield core
        yield core[:-8]  # one that was cut off is known by what is left
        for at in range(3):  # base64 says the same in three ways, by where it begins
            packed = base64.b64encode(b"\0" * at + core)
            yield packed[4:-4]


class Echo:
    """Tells what it was sent, in every notation, in the way that `script` says."""

    def __init__(self) -> None:
        self.script: list[str] = ["text"]
        self.heard: list[bytes] = []  # head and body of each request
        echo = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                sent = {"path": self.path, **{name.lower(): value for name, value in self.headers.items()}}
                echo.heard.append(json.dumps(sent).encode() + body)
                way = echo.script.pop(0) if len(echo.script) > 1 else echo.script[0]
                WAYS[way](self, sent)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.host = f"127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()


def told(sent: Mapping[str, str]) -> dict[str, Any]:
    """The same thing in all the notations that servers have for it."""
    shown: dict[str, Any] = {}
    for name, value in sent.items():
        if name in ("content-length", "host", "accept", "accept-encoding", "content-type"):
            continue
        kind, _, rest = value.partition(" ")
        secret = rest if kind in ("Bearer", "Basic") else value
        shown[name] = [value, secret, html.escape(secret), quote(secret), quote(secret, safe=""), json.dumps(secret)]
        told = base64.b64decode(rest) if kind == "Basic" else base64.b64encode(secret.encode())
        shown[name].append(told.decode())
    shown["path"].append(urlsplit(sent["path"]).query)
    return {"error": {"type": "authentication_error", "message": "bad key", "you_sent": shown}}


def reply(handler: BaseHTTPRequestHandler, status: int, body: bytes, **headers: str) -> None:
    handler.send_response(status)
    kind = {"content_type": "application/json", "content_length": str(len(body)), **headers}
    for name, value in kind.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(body)


def refusal(status: int) -> Callable[[BaseHTTPRequestHandler, Json], None]:
    return lambda handler, sent: reply(handler, status, json.dumps(told(sent)).encode())


def page(handler: BaseHTTPRequestHandler, sent: Json) -> None:
    body = "".join(f"<p>{html.escape(str(value))}</p>" for value in told(sent)["error"]["you_sent"].values())
    reply(handler, 500, body.encode(), content_type="text/html")


def long_page(handler: BaseHTTPRequestHandler, sent: Json) -> None:
    """So long that it is cut, and in many places: somewhere in the middle of a secret."""
    reply(handler, 400, (" ".join(sent.values()) * 2000).encode()[:60_000], content_type="text/plain")


def redirect(handler: BaseHTTPRequestHandler, sent: Json) -> None:
    keys = {name: value for name, value in sent.items() if name not in ("accept", "host", "content-length")}
    where = f"http://{sent['host']}/elsewhere?{'&'.join(f'{n}={quote(v)}' for n, v in keys.items())}"
    reply(handler, 307, b"", location=where, www_authenticate=f"Bearer {sent.get('authorization', '')}")


def in_headers(handler: BaseHTTPRequestHandler, sent: Json) -> None:
    echoed = {f"x_echo_{name}": value for name, value in sent.items() if name not in ("host", "content-length")}
    reply(handler, 403, b"no", **echoed)


def stream(handler: BaseHTTPRequestHandler, portions: list[str]) -> None:
    handler.send_response(200)
    handler.send_header("content-type", "text/event-stream")
    handler.end_headers()
    for portion in portions:
        handler.wfile.write(portion.encode())


def sse_error(handler: BaseHTTPRequestHandler, sent: Json) -> None:
    stream(handler, [f"event: error\ndata: {json.dumps({'type': 'error', **told(sent)})}\n\n"])


def malformed(handler: BaseHTTPRequestHandler, sent: Json) -> None:
    """No JSON, and what it is is shown only as far as people care to read: to the middle of a secret."""
    secret = sent.get("x-api-key") or sent.get("authorization", "").partition(" ")[2] or sent.get("x-goog-api-key", "")
    stream(handler, [f"event: error\ndata: {{{'x' * (199 - len(secret) * 2 // 3)}{secret}\n\n"])


def says(answer: str) -> Callable[[BaseHTTPRequestHandler, Json], None]:
    told = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events(answer, 1)]
    return lambda handler, sent: stream(handler, told)


LOOK = "env | tee env.txt; tr '\\0' '\\n' < /proc/self/environ; ls /proc/self/fd"
WAYS: dict[str, Callable[[BaseHTTPRequestHandler, Json], None]] = {
    "401": refusal(401),
    "500": refusal(500),
    "529": refusal(529),
    "page": page,
    "long": long_page,
    "redirect": redirect,
    "headers": in_headers,
    "sse": sse_error,
    "malformed": malformed,
    "text": says("Hello."),
    "tool": says(f"$ {LOOK}"),
}
# Those that come to an error.
BAD = [name for name in WAYS if name not in ("text", "tool")]


class Nest:
    """A user who has a secret in every place that there is for one."""

    def __init__(self, folder: Path, server: Echo, api: str = "anthropic-messages", **settings: Any) -> None:
        self.folder = folder
        self.canaries: dict[str, Canary] = {}
        for name in ("home", "agent", "work", "tmp"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        command = folder / "key.sh"
        command.write_text(f"echo {self._sign('command')}")
        pass_word, user = quote(self.value("password"), safe=""), "me"
        own = {
            "flag": "unused-here",
            "variable": "$MY_PRECIOUS",
            "auth": "unused-either",
            "literal": self.value("literal"),
            "command": f"!sh {command}",
            "address": "a-key-beside-it",
        }
        base = f"http://{server.host}"
        addresses = {
            "address": f"http://{user}:{pass_word}@{server.host}/?token={quote(self.value('query'), safe='')}&x="
        }
        self.models = {
            "providers": {
                name: {
                    "baseUrl": addresses.get(name, base),
                    "api": api,
                    "apiKey": key,
                    "headers": {
                        "x-team": self.value("header"),
                        "x-made-token": f"!printf %s {self._sign('headercommand')}",
                        "x-from-variable": "$MY_HEADER",
                    },
                    "models": [{"id": "m1", "contextWindow": 100_000, "maxTokens": 1000}],
                }
                for name, key in own.items()
            }
        }
        saved = {"auth": {"type": "api_key", "key": self.value("auth")}}
        (folder / "agent" / "auth.json").write_text(json.dumps(saved))
        (folder / "agent" / "auth.json").chmod(0o600)
        self.settings = {
            "retry": {"baseDelayMs": 1, "maxRetries": 1},
            "childEnvironment": {"filterSecrets": True},
            **settings,
        }
        self.env = {
            "MY_PRECIOUS": self.value("variable"),
            "MY_HEADER": self.value("variableheader"),
            "ACME_API_KEY": self.value("othervariable"),
            "HARMLESS": f"my key is {self.value('literal')}",
            "DATABASE_URL": f"postgres://me:{self._sign('database')}@db/x",
            "TMPDIR": str(folder / "tmp"),
        }
        self.secret_files = {command, folder / "agent" / "auth.json", folder / "agent" / "models.json"}

    def value(self, name: str) -> str:
        return self.canaries.setdefault(name, Canary(name)).value

    def _sign(self, name: str) -> str:
        """One that a shell leaves as it is."""
        return self.canaries.setdefault(name, Canary(name, "")).value

    @property
    def providers(self) -> list[str]:
        return list(self.models["providers"])

    def surroundings(self) -> dict[str, str]:
        return {**surroundings(self.folder, self.settings, self.models), **self.env}

    @property
    def args(self) -> list[str]:
        return ["--provider", "flag", "--model", "m1", "--api-key", self.value("flag"), "--verbose"]

    def found(self, **said: bytes) -> list[str]:
        """Which canary is where: in what was said, or in any file or name of a file."""
        places = dict(said)
        for path in self.folder.rglob("*"):
            if path not in self.secret_files and stat.S_ISREG(path.lstat().st_mode):
                places[str(path.relative_to(self.folder))] = path.read_bytes()
        places["names"] = "\n".join(map(str, self.folder.rglob("*"))).encode()
        return [
            f"{name} in {place}"
            for name, canary in self.canaries.items()
            for place, data in places.items()
            if canary.is_in(data)
        ]

"""An MCP server over HTTP on loopback, with faults on request, and an OAuth server beside it.

with McpHttpServer(era="modern") as server:
    server.url                  # for the entry in mcp.json
    server.requests             # (method, headers, message) of every request so far
    server.faults["tools/call"] = [500]     # the next answers to this method
"""

from __future__ import annotations

import json
import threading
import time
from base64 import b64decode
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, unquote_plus, urlencode, urlsplit

MODERN = "2026-07-28"
METHOD, POST = "token_endpoint_auth_method", "client_secret_post"


class McpHttpServer:
    """`stream`: answers are event streams. `old`: only the transport of 2024-11-05. `tokens`: a login is needed."""

    def __init__(self, era: str = "legacy", *, stream: bool = False, old: bool = False, oauth: bool = False) -> None:
        self.era = era
        self.stream = stream
        self.old = old
        self.oauth = oauth
        self.tokens: set[str] = set()
        self.refresh_tokens: set[str] = set()
        self.lifetime = 3600
        self.requests: list[tuple[str, dict[str, str], Any]] = []
        self.token_requests: list[dict[str, str]] = []
        self.faults: dict[str, list[Any]] = {}
        self.sessions: set[str] = set()
        self.resumed: Any = None  # the answer that waits for a client to come back
        self.polls: list[Any] = []  # how such requests end before that: without the answer, or with a status
        self.resumes: list[str] = []  # the event ids with which clients came back
        self.changed = threading.Event()  # the list of tools has changed
        self.cuts: list[Any] = []  # how the next GET streams end: after an event or nothing, or with a status
        self.opened: list[str] = []  # the event ids with which GET streams were opened; empty for none
        self.streams: list[Any] = []  # of the old transport
        self.endpoint = "/messages?session=1"  # what the old transport names for requests
        self.error_page: Any = {"detail": "as requested"}  # what is sent with a status that says no; bytes as they are
        self.moved = ""  # the path that all requests to /mcp are redirected to
        self.metadata: dict[str, Any] = {}  # of the authorization server, besides what is right
        self.registration: dict[str, Any] = {}  # what it answers to a registration, besides what was asked for
        self.revoked: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"mcp": self}))
        self._server.daemon_threads = True
        self.redirected = {"iss": self.origin}  # what its answers say besides the code

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.changed.set()
        self._server.shutdown()
        self._server.server_close()

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def url(self) -> str:
        return f"{self.origin}/mcp"

    @property
    def methods(self) -> list[str]:
        return [message.get("method", "") for method, _, message in self.requests if isinstance(message, dict)]

    def answer(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """The result or error for a request."""
        method, params = message["method"], message.get("params") or {}
        capabilities = {"tools": {"listChanged": True}}
        info = {"name": "http", "version": "1"}
        if method == "server/discover" and self.era == "modern":
            result: dict[str, Any] = {"supportedVersions": [MODERN], "capabilities": capabilities, "serverInfo": info}
        elif method == "initialize" and self.era == "legacy":
            result = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info}
        elif method == "tools/list":
            schema = {"type": "object", "properties": {"text": {"type": "string", "x-mcp-header": "Text"}}}
            result = {"tools": [{"name": "echo", "inputSchema": schema}]}
        elif method == "tools/call":
            result = {"content": [{"type": "text", "text": params["arguments"].get("text", "")}]}
        else:
            return {"error": {"code": -32601, "message": f"no {method}"}}
        return {"result": {"resultType": "complete", **result} if self.era == "modern" else result}


class _Handler(BaseHTTPRequestHandler):
    mcp: McpHttpServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        return

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        path = urlsplit(self.path).path
        if path == "/token":
            self.token(body)
        elif path == "/register":
            self.reply(201, {"client_id": "registered", **json.loads(body), **self.mcp.registration})
        elif path == "/revoke":
            self.mcp.revoked += parse_qs(body.decode())["token"]
            self.reply(200, {})
        else:
            self.message(json.loads(body))

    def message(self, message: dict[str, Any]) -> None:
        mcp = self.mcp
        headers = {name.lower(): value for name, value in self.headers.items()}
        if mcp.moved and self.path == "/mcp":
            self.reply(307, {}, {"location": mcp.moved})
            return
        mcp.requests.append(("POST", headers, message))
        method = message.get("method", "")
        faults = mcp.faults.get(method)
        if faults and self.fault(faults.pop(0), message):
            return
        if mcp.oauth and headers.get("authorization", "").removeprefix("Bearer ") not in mcp.tokens:
            metadata = f'Bearer resource_metadata="{mcp.origin}/.well-known/oauth-protected-resource/mcp"'
            self.reply(401, {}, {"www-authenticate": metadata})
            return
        if mcp.old and self.path == "/mcp":
            self.reply(405, mcp.error_page)
            return
        if "id" not in message or "method" not in message:
            self.reply(202, None)
            return
        if mcp.era == "modern":
            self.check_modern(headers, message)
        elif method != "initialize" and mcp.sessions and headers.get("mcp-session-id") not in mcp.sessions:
            self.reply(404, {"error": "no such session"})
            return
        answer = {"jsonrpc": "2.0", "id": message["id"], **mcp.answer(message)}
        if mcp.old:
            mcp.streams[-1].event("message", answer)
            self.reply(202, None)
            return
        more = {}
        if method == "initialize" and not mcp.old:
            session = f"session-{len(mcp.requests)}"
            mcp.sessions.add(session)
            more = {"mcp-session-id": session}
        self.answer(answer, more)

    def check_modern(self, headers: dict[str, str], message: dict[str, Any]) -> None:
        assert headers["mcp-protocol-version"] == MODERN
        assert headers["mcp-method"] == message["method"]
        if message["method"] == "tools/call":
            assert headers["mcp-name"] == message["params"]["name"]

    def fault(self, fault: Any, message: dict[str, Any]) -> bool:
        """Do something else than answer. False if the request is answered after that."""
        if isinstance(fault, int):
            self.reply(fault, self.mcp.error_page)
            return True
        if fault == "redirect":
            self.reply(307, {}, {"location": "http://localhost:1/elsewhere"})
        elif isinstance(fault, str) and fault.startswith(("http:", "/")):
            self.reply(308, {}, {"location": fault})
        elif fault == "lose_session":
            self.mcp.sessions = {"another"}
            return False
        elif fault == "drop":
            self.close_connection = True
            self.connection.close()
        elif fault == "break":
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("content-length", "1000")
            self.end_headers()
            self.wfile.write(b'data: {"jsonrpc":"2.0","method":"notifications/message","params":{}}\n\ndata: {"json')
            self.close_connection = True
        elif fault == "resume":  # the rest of the answer can be had with the id of the last event
            self.mcp.resumed = {"jsonrpc": "2.0", "id": message["id"], **self.mcp.answer(message)}
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("content-length", "1000")
            self.end_headers()
            self.wfile.write(b"id: event-7\nretry: 1\ndata: \n\nid: event-8\ndata: {")
            self.close_connection = True
        elif isinstance(fault, Mapping):  # the stream ends, and the client has to poll for the answer
            self.mcp.resumed = {"jsonrpc": "2.0", "id": message["id"], **self.mcp.answer(message)}
            self.begin_stream()
            self.wfile.write(f"id: event-0\nretry: {fault['retry']}\ndata: \n\n".encode())
        elif fault == "close_after":
            self.close_connection = True
            return False
        elif fault == "hang":
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            time.sleep(0.2)
            self.wfile.flush()
            while not self.mcp.changed.wait(0.05):
                try:
                    self.wfile.write(b": still here\n\n")
                except OSError:
                    self.mcp.changed.set()
        else:
            raise AssertionError(fault)
        return True

    def answer(self, answer: dict[str, Any], more: Mapping[str, str]) -> None:
        if not self.mcp.stream:
            self.reply(200, answer, more)
            return
        note = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}}
        parts = [f"event: message\nid: {at}\ndata: {json.dumps(one)}\n\n" for at, one in enumerate((note, answer))]
        data = "".join([": hello\n\n", *parts]).encode()
        self.send_response(200)
        for name, value in {"content-type": "text/event-stream", "content-length": str(len(data)), **more}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def reply(self, status: int, content: Any, more: Mapping[str, str] | None = None) -> None:
        data = b"" if content is None else content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {
            "content-type": "application/json",
            "content-length": str(len(data)),
            **(more or {}),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def do_DELETE(self) -> None:
        self.mcp.requests.append(("DELETE", {name.lower(): value for name, value in self.headers.items()}, None))
        self.reply(200, None)

    def do_GET(self) -> None:
        mcp, parts = self.mcp, urlsplit(self.path)
        if mcp.moved and self.path == "/mcp":
            self.reply(307, {}, {"location": mcp.moved})
            return
        if parts.path.startswith("/.well-known/oauth-protected-resource"):
            self.reply(200, {"resource": mcp.url, "authorization_servers": [mcp.origin], "scopes_supported": ["tools"]})
        elif parts.path.startswith("/.well-known/oauth-authorization-server"):
            names = ("authorization_endpoint", "token_endpoint", "registration_endpoint", "revocation_endpoint")
            paths = ("authorize", "token", "register", "revoke")
            addresses = {name: f"{mcp.origin}/{path}" for name, path in zip(names, paths, strict=True)}
            right = {"issuer": mcp.origin, "code_challenge_methods_supported": ["S256"], **addresses}
            self.reply(200, {**right, **mcp.metadata})
        elif parts.path == "/authorize":
            self.authorize({name: values[0] for name, values in parse_qs(parts.query).items()})
        elif mcp.old:
            self.open_stream()
        elif (last := self.headers.get("last-event-id", "")).startswith("event-"):
            self.resume(last)
        elif mcp.era == "legacy" and "text/event-stream" in self.headers.get("accept", ""):
            self.changes()
        else:
            self.reply(405, {})

    def authorize(self, asked: dict[str, str]) -> None:
        assert asked["code_challenge_method"] == "S256" and asked["resource"] == self.mcp.url
        back = urlencode({"code": "the-code", "state": asked["state"], **self.mcp.redirected})
        self.reply(302, {}, {"location": f"{asked['redirect_uri']}?{back}"})

    def token(self, body: bytes) -> None:
        form = {name: values[0] for name, values in parse_qs(body.decode()).items()}
        self.mcp.token_requests.append(form)
        if secret := self.mcp.registration.get("client_secret"):
            basic = self.headers.get("authorization", "").removeprefix("Basic ")
            if basic:
                form["client_id"], form["client_secret"] = map(unquote_plus, b64decode(basic).decode().split(":"))
            if form.get("client_secret") != secret or bool(basic) != (self.mcp.registration[METHOD] != POST):
                given = basic or form.get("client_secret")
                self.reply(401, {"error": "invalid_client", "error_description": f"not {secret}, but {given}"})
                return
        if form["grant_type"] == "refresh_token" and form["refresh_token"] not in self.mcp.refresh_tokens:
            self.reply(400, {"error": "invalid_grant"})
            return
        number = len(self.mcp.token_requests)
        access, refresh = f"access-token-{number}", f"refresh-token-{number}"
        self.mcp.tokens.add(access)
        self.mcp.refresh_tokens.add(refresh)
        content = {"access_token": access, "refresh_token": refresh, "token_type": "Bearer"}
        self.reply(200, {**content, "expires_in": self.mcp.lifetime})

    def begin_stream(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True

    def changes(self) -> None:
        """The GET stream of a legacy server: announces a change of the list."""
        cut = self.mcp.cuts.pop(0) if self.mcp.cuts else None
        self.mcp.opened.append(self.headers.get("last-event-id", ""))
        if isinstance(cut, int):
            self.reply(cut, {})
            return
        self.begin_stream()
        if cut is not None:
            message = json.dumps({"jsonrpc": "2.0", "method": "notifications/x"})
            event = f"id: change-{len(self.mcp.opened)}\ndata: {message}\n\n"
            self.wfile.write(event.encode() if cut == "event" else b": nothing\n\n")
            return
        self.mcp.changed.wait(30)
        self.event("message", {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})

    def resume(self, last: str) -> None:
        self.mcp.resumes.append(last)
        end = self.mcp.polls.pop(0) if self.mcp.polls else "answer"
        if isinstance(end, int):
            self.reply(end, {})
            return
        self.begin_stream()
        if end == "answer":
            self.event("message", self.mcp.resumed)
        elif end == "event":
            self.wfile.write(f"id: event-{len(self.mcp.resumes)}\r\ndata: \r\n\r\ndata: {{".encode())

    def open_stream(self) -> None:
        self.mcp.streams.append(self)
        self.begin_stream()
        self.event("endpoint", self.mcp.endpoint)
        self.mcp.changed.wait(30)

    def event(self, name: str, data: Any) -> None:
        text = data if isinstance(data, str) else json.dumps(data)
        try:
            self.wfile.write(f"event: {name}\ndata: {text}\n\n".encode())
            self.wfile.flush()
        except OSError:
            return

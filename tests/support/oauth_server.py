"""An OAuth server on loopback with a model behind it: PKCE, device codes, refresh tokens that work once, revocation.

with OAuthServer() as server:
    server.provider             # for models.json: the configuration of a provider with an OAuth client
    server.tokens               # the access tokens that the model accepts
    server.requests             # the forms of the token requests so far
"""

from __future__ import annotations

import base64
import hashlib
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

from tau.records.base import encode

CLIENT_ID = "own-client"
CLIENT_SECRET = "client-secret-of-the-user"


class OAuthServer:
    def __init__(self) -> None:
        self.requests: list[dict[str, str]] = []
        self.authorizations: list[dict[str, str]] = []
        self.model_calls: list[str | None] = []
        self.tokens: set[str] = set()
        self.refresh_tokens: set[str] = set()
        self.revoked: list[str] = []
        self.revoking_needs_secret = False  # a public client then sends an empty one
        self.lifetime: float | None = 3600
        self.rotates = True
        self.refuses_login = False
        self.status = 0  # of every token request, if it is not 0
        self.pending = 1  # polls of a device code before it is confirmed
        self.at_token = threading.Event()  # a token request has arrived
        self.may_answer = threading.Event()
        self.may_answer.set()
        self._codes: dict[str, dict[str, str]] = {}
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"oauth": self}))

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.may_answer.set()
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def provider(self) -> dict[str, Any]:
        return {
            "baseUrl": f"{self.url}/v1",
            "api": "openai-completions",
            "models": [{"id": "big"}],
            "oauthClient": {
                "clientId": CLIENT_ID,
                "clientSecret": "$LAB_CLIENT_SECRET",
                "authorizationUrl": f"{self.url}/authorize?audience=lab",
                "tokenUrl": f"{self.url}/token",
                "deviceAuthorizationUrl": f"{self.url}/device",
                "revocationUrl": f"{self.url}/revoke",
                "scopes": ["models", "offline"],
            },
        }

    def issue(self) -> dict[str, Any]:
        """New tokens."""
        with self._lock:
            number = len(self.tokens) + 1
            access, refresh = f"access-token-{number:04}", f"refresh-token-{number:04}"
            self.tokens.add(access)
            answer: dict[str, Any] = {"access_token": access, "token_type": "Bearer"}
            if self.lifetime is not None:
                answer["expires_in"] = self.lifetime
            if self.rotates or not self.refresh_tokens:
                self.refresh_tokens.add(refresh)
                answer["refresh_token"] = refresh
        return answer

    def authorize(self, query: dict[str, str]) -> str:
        """The address to which the browser is sent back."""
        self.authorizations.append(query)
        code = f"code-{len(self.authorizations)}"
        self._codes[code] = query
        answer = {"error": "access_denied", "error_description": "no"} if self.refuses_login else {"code": code}
        return f"{query['redirect_uri']}?{urlencode({**answer, 'state': query['state']})}"

    def token(self, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        self.requests.append(form)
        self.at_token.set()
        self.may_answer.wait()
        if self.status:
            return self.status, {"error": "server_error", "error_description": f"about {form.get('refresh_token')}"}
        if (form["client_id"], form.get("client_secret")) != (CLIENT_ID, CLIENT_SECRET):
            return 401, {"error": "invalid_client"}
        match form["grant_type"]:
            case "authorization_code":
                return self._from_code(form)
            case "refresh_token":
                return self._from_refresh(form["refresh_token"])
            case "urn:ietf:params:oauth:grant-type:device_code":
                if self.pending > 0:
                    self.pending -= 1
                    return 400, {"error": "authorization_pending"}
                return 200, self.issue()
        return 400, {"error": "unsupported_grant_type"}

    def _from_code(self, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        asked = self._codes.pop(form["code"], None)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).rstrip(b"=")
        if asked is None or asked["code_challenge"] != challenge.decode():
            return 400, {"error": "invalid_grant"}
        if asked["redirect_uri"] != form["redirect_uri"]:
            return 400, {"error": "invalid_grant", "error_description": "redirect_uri"}
        return 200, self.issue()

    def _from_refresh(self, token: str) -> tuple[int, dict[str, Any]]:
        with self._lock:
            if token not in self.refresh_tokens:
                return 400, {"error": "invalid_grant", "error_description": f"{token} is not valid"}
            if self.rotates:
                self.refresh_tokens.discard(token)
        return 200, self.issue()

    def device(self) -> dict[str, Any]:
        return {
            "device_code": "device-code-secret",
            "user_code": "WDJB-MJHT",
            "verification_uri": f"{self.url}/enter",
            "verification_uri_complete": f"{self.url}/enter?code=WDJB-MJHT",
            "expires_in": 60,
            "interval": 0,
        }


class _Handler(BaseHTTPRequestHandler):
    oauth: OAuthServer

    def do_GET(self) -> None:
        target = urlsplit(self.path)
        if target.path == "/authorize":
            self.send_response(302)
            self.send_header("location", self.oauth.authorize(dict(parse_qsl(target.query))))
            self.send_header("content-length", "0")
            self.end_headers()
        else:
            self._json(200, {"data": [{"id": "big"}]})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        form = {name: values[0] for name, values in parse_qs(body, keep_blank_values=True).items()}
        match urlsplit(self.path).path:
            case "/token":
                self._json(*self.oauth.token(form))
            case "/device":
                self._json(200, self.oauth.device())
            case "/revoke" if self.oauth.revoking_needs_secret and "client_secret" not in form:
                self._json(400, {"error": "invalid_request"})
            case "/revoke":
                self.oauth.revoked.append(form["token"])
                self._json(200, {})
            case _:
                self._model()

    def _model(self) -> None:
        sent = self.headers.get("authorization")
        self.oauth.model_calls.append(sent)
        if (sent or "").removeprefix("Bearer ") not in self.oauth.tokens:
            self._json(401, {"error": {"message": "invalid token"}})
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for delta, why in (({"content": "Hello."}, None), ({}, "stop")):
            chunk = {"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": why}]}
            self.wfile.write(b"data: " + encode(chunk) + b"\n\n")
        self.wfile.write(b"data: [DONE]\n\n")

    def _json(self, status: int, content: Mapping[str, Any]) -> None:
        body = encode(content)
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass

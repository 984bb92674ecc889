"""Log in to an MCP server whose authorization server is that of the Python SDK: `tau mcp login`, calls, expiry, logout.

    python scripts/mcp_login.py --sdk PYTHON

PYTHON is an interpreter with `mcp` 2.x. Exit code 1 if a step fails.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

SERVER = '''\
import secrets, signal, sys, time
from mcp.server.auth.provider import (
    AccessToken, AuthorizationCode, AuthorizationParams, OAuthAuthorizationServerProvider, RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthToken

LIFE = int(sys.argv[2])


class Provider(OAuthAuthorizationServerProvider):
    """Everything in memory; every login is granted."""

    def __init__(self):
        self.clients, self.codes, self.access, self.refresh = {}, {}, {}, {}

    async def get_client(self, client_id):
        return self.clients.get(client_id)

    async def register_client(self, client_info):
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client, params: AuthorizationParams):
        code = secrets.token_urlsafe(32)
        self.codes[code] = AuthorizationCode(
            code=code, client_id=client.client_id, scopes=params.scopes or [], expires_at=time.time() + 60,
            redirect_uri=params.redirect_uri, redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            code_challenge=params.code_challenge, resource=params.resource,
        )
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state)

    async def load_authorization_code(self, client, authorization_code):
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(self, client, authorization_code):
        del self.codes[authorization_code.code]
        return self.issue(client, authorization_code.scopes, authorization_code.resource)

    async def load_refresh_token(self, client, refresh_token):
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(self, client, refresh_token, scopes):
        del self.refresh[refresh_token.token]
        return self.issue(client, scopes, None)

    def issue(self, client, scopes, resource):
        access, refresh = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        until = int(time.time()) + LIFE
        self.access[access] = AccessToken(
            token=access, client_id=client.client_id, scopes=scopes, expires_at=until, resource=resource
        )
        self.refresh[refresh] = RefreshToken(token=refresh, client_id=client.client_id, scopes=scopes)
        return OAuthToken(
            access_token=access, token_type="Bearer", expires_in=LIFE, refresh_token=refresh, scope=" ".join(scopes)
        )

    async def load_access_token(self, token):
        found = self.access.get(token)
        return found if found is not None and found.expires_at > time.time() else None

    async def revoke_token(self, token):
        self.access.pop(token.token, None)
        self.refresh.pop(token.token, None)


provider = Provider()
url = f"http://127.0.0.1:{sys.argv[1]}"
server = MCPServer(
    "with-login",
    auth_server_provider=provider,
    auth=AuthSettings(
        issuer_url=url, resource_server_url=f"{url}/mcp", required_scopes=["use"], validate_token_resource=False,
        client_registration_options=ClientRegistrationOptions(
            enabled=True, valid_scopes=["use"], default_scopes=["use"]
        ),
        revocation_options=RevocationOptions(enabled=True),
    ),
)


@server.tool()
def echo(text: str) -> str:
    "Return the text."
    return text


def forget(number, frame):
    provider.access.clear()
    provider.refresh.clear()


signal.signal(signal.SIGUSR1, forget)
server.run("streamable-http", port=int(sys.argv[1]))
'''
LIFE_S = 20  # of a token
PROGRAM = [sys.executable, "-u", "-m", "tau", "mcp"]


class Steps:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._env = {**os.environ, "HOME": str(folder), "PI_CODING_AGENT_DIR": str(folder), "BROWSER": "true"}
        self.failed = False

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*PROGRAM, *words], env=self._env, cwd=self._folder, capture_output=True, text=True)

    def login(self, *, paste: bool) -> bool:
        """Follow the address as a browser on this machine, or paste where one on another machine would end."""
        pipe = subprocess.PIPE
        with subprocess.Popen(
            [*PROGRAM, "login", "one"], env=self._env, cwd=self._folder, stdin=pipe, stdout=pipe, text=True
        ) as process:
            assert process.stdin is not None and process.stdout is not None
            url = next(line.strip() for line in process.stdout if line.startswith("http"))
            if paste:
                parts = urlsplit(url)
                connection = http.client.HTTPConnection(parts.netloc, timeout=30)
                connection.request("GET", f"{parts.path}?{parts.query}")
                process.stdin.write(connection.getresponse().headers["location"] + "\n")
                process.stdin.flush()
            else:
                urllib.request.urlopen(url, timeout=30).read()
            process.stdout.read()
        return process.returncode == 0

    def call(self) -> bool:
        done = self.run("call", "one", "echo", '{"text": "hi"}')
        return done.returncode == 0 and json.loads(done.stdout)["content"][0]["text"] == "hi"

    def refused(self) -> bool:
        done = self.run("call", "one", "echo", '{"text": "hi"}')
        return done.returncode != 0 and "tau mcp login one" in done.stderr

    def step(self, what: str, held: bool) -> None:
        print(f"{'ok    ' if held else 'FAILED'} {what}", flush=True)
        self.failed |= not held


def wait_for(port: int) -> None:
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            time.sleep(0.1)
    raise SystemExit("the server did not start")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sdk", required=True, help="a Python interpreter with mcp 2.x")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        (folder / "server.py").write_text(SERVER)
        (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"one": {"url": f"http://127.0.0.1:{port}/mcp"}}}))
        with (folder / "server.log").open("w") as log:
            server = subprocess.Popen(
                [given.sdk, str(folder / "server.py"), str(port), str(LIFE_S)], stdout=log, stderr=log
            )
        try:
            wait_for(port)
            steps = Steps(folder)
            tokens = folder / "tau-mcp-auth.json"
            steps.step("before the login a call says what to do", steps.refused())
            steps.step("login with a browser on this machine", steps.login(paste=False))
            steps.step("a call", steps.call())
            before = tokens.read_text()
            time.sleep(LIFE_S)
            steps.step("a call after the token has expired", steps.call())
            steps.step("the token was refreshed", tokens.read_text() != before)
            server.send_signal(signal.SIGUSR1)  # forgets all tokens
            time.sleep(0.5)
            steps.step("revoked: a call says what to do", steps.refused())
            steps.step("login with a pasted address", steps.login(paste=True))
            steps.step("a call", steps.call())
            done = steps.run("logout", "one")
            steps.step("logout", done.returncode == 0 and json.loads(tokens.read_text()) == {})
            steps.step("the tokens were revoked", "may still be valid" not in done.stdout)
            steps.step("after it a call says what to do", steps.refused())
        finally:
            server.kill()
            server.wait()
        if steps.failed:
            print((folder / "server.log").read_text()[-2000:])
    return 1 if steps.failed else 0


if __name__ == "__main__":
    sys.exit(main())

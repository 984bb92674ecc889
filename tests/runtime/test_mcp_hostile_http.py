"""HTTP servers and authorization servers that mean harm: addresses, tokens, connections that are kept."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from support.mcp_http_server import METHOD, McpHttpServer
from support.mcp_memory import memory_server
from support.mcp_session import results
from support.oauth_server import OAuthServer
from tau.llm.catalog import OAuthClient
from tau.mcp.config import ServerConfig, Source
from tau.mcp.messages import ClientProfile, McpError
from tau.records.base import to_builtins
from tau.runtime.login.oauth import DeviceCode, LoginError, OAuthFlow
from tau.runtime.mcp.connection import Connection, RequestOptions
from tau.runtime.mcp.http import Endpoint, HttpTransport
from tau.runtime.mcp.oauth_login import McpLogin
from tau.runtime.mcp.tokens import FILE_NAME, Tokens
from tau.runtime.mcp.transport import Outgoing
from tau.store.auth import OAuthLogin

WITHIN = 60


def configured(url: str) -> ServerConfig:
    return ServerConfig(name="s", source=Source("mcp.json", "user"), transport="http", url=url)


async def follow(url: str) -> None:
    await asyncio.to_thread(lambda: urlopen(url, timeout=WITHIN).read())


async def never(url: str) -> None:
    raise AssertionError(f"shown: {url}")


def test_a_server_elsewhere_cannot_make_a_login_send_requests_to_this_machine() -> None:
    with McpHttpServer(oauth=True) as local:
        elsewhere = McpLogin(configured("https://mcp.example.com/mcp"), {})
        with pytest.raises(LoginError, match="neither https nor on this machine"):
            asyncio.run(elsewhere._server_metadata(local.origin))
        assert asyncio.run(McpLogin(configured(local.url), {})._server_metadata(local.origin))


@pytest.mark.parametrize(
    "metadata",
    [
        {"revocation_endpoint": "http://elsewhere.example/revoke"},
        {"revocation_endpoint": 5},
        {"token_endpoint": "http://["},
        {"token_endpoint": "https://host:99999/token"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"authorization_endpoint": "https://host/\u001b[2J"},
        {"registration_endpoint": "http://elsewhere.example/register"},
    ],
)
def test_an_address_of_an_authorization_server_that_must_not_be_used_ends_the_login(metadata: dict[str, Any]) -> None:
    with McpHttpServer(oauth=True) as server:
        server.metadata = metadata
        with pytest.raises(LoginError):
            asyncio.run(McpLogin(configured(server.url), {}).run(never))
        assert server.token_requests == []


@pytest.mark.parametrize(
    ("announced", "redirected", "refused"),
    [
        (True, None, False),
        (False, {}, False),
        (True, {}, True),
        (True, {"iss": "https://elsewhere.example"}, True),
        (False, {"iss": "https://elsewhere.example"}, True),
    ],
)
def test_an_answer_of_another_authorization_server_ends_the_login(
    announced: bool, redirected: dict[str, str] | None, refused: bool
) -> None:
    """RFC 9207: a server that announces `iss` says it in every answer."""

    with McpHttpServer(oauth=True) as server:
        server.metadata = {"authorization_response_iss_parameter_supported": announced}
        server.redirected = server.redirected if redirected is None else redirected
        login = McpLogin(configured(server.url), {}).run(follow)
        if refused:
            with pytest.raises(LoginError, match="comes from another server"):
                asyncio.run(login)
        else:
            assert asyncio.run(login)[0].access
        assert len(server.token_requests) == (not refused)


@pytest.mark.parametrize("method", ["client_secret_post", "client_secret_basic", None])
@pytest.mark.parametrize("secret", ["issued: secret+1", "!echo a-command", "SOME_NAME", "$SOME_NAME"])
def test_a_secret_that_registration_issues_is_used_as_it_is(tmp_path: Path, method: str | None, secret: str) -> None:
    environment = {"SOME_NAME": "of this machine"}
    with McpHttpServer(oauth=True) as server:
        config = configured(server.url)
        server.registration = {"client_secret": secret, METHOD: method}  # without a method: client_secret_basic
        login, client = asyncio.run(McpLogin(config, environment).run(follow))
        tokens = Tokens(tmp_path, environment)
        tokens.store(config, login, client)
        assert tokens.path.stat().st_mode & 0o077 == 0
        assert asyncio.run(tokens.refresh(config))
        assert [form["client_secret"] for form in server.token_requests] == [secret] * 2


@pytest.mark.parametrize("method", ["client_secret_post", "client_secret_basic"])
def test_an_error_does_not_show_the_secret_that_registration_issued(method: str) -> None:
    with McpHttpServer(oauth=True) as server:
        server.registration = {"client_secret": "issued-secret-1", METHOD: method}
        client = OAuthClient(
            "registered",
            f"{server.origin}/token",
            issued_secret="another-secret-2",
            secret_in_header=method == "client_secret_basic",
        )
        with pytest.raises(LoginError) as refused:
            asyncio.run(OAuthFlow(client, {}).refresh(OAuthLogin("a", "refresh-token-1", 1)))
        sent = b64encode(b"registered:another-secret-2").decode()
        assert "not issued-secret-1" in str(refused.value)  # the words of the server are shown
        assert "another-secret-2" not in str(refused.value) and sent not in str(refused.value)


def test_a_way_to_identify_a_client_that_tau_does_not_know_ends_the_login() -> None:
    with McpHttpServer(oauth=True) as server:
        server.registration = {"client_secret": "issued-secret-1", METHOD: "private_key_jwt"}
        with pytest.raises(LoginError, match="private_key_jwt"):
            asyncio.run(McpLogin(configured(server.url), {}).run(never))


def test_a_device_login_shows_only_addresses_of_web_pages() -> None:
    addresses = ["http://[", "https://host/\u001b]8;;x", "file:///etc/passwd"]

    class Tricky(OAuthServer):
        def device(self) -> dict[str, Any]:
            return {**super().device(), "verification_uri": addresses.pop()}

    async def shown(code: DeviceCode) -> None:
        raise AssertionError(code)

    with Tricky() as server:
        client = OAuthClient("c", f"{server.url}/token", device_authorization_url=f"{server.url}/device")
        while addresses:
            with pytest.raises(LoginError, match="not a web page"):
                asyncio.run(OAuthFlow(client, {}).authorize_device(shown))


@pytest.mark.promise("M11")
def test_a_token_that_was_stored_for_another_address_meanwhile_is_not_used(tmp_path: Path) -> None:
    with McpHttpServer(oauth=True) as server:
        client = to_builtins(OAuthClient("c", f"{server.origin}/token"))
        entry = {"type": "oauth", "access": "expired", "refresh": "gone", "expires": 1, "url": server.url}
        file = tmp_path / FILE_NAME
        file.write_text(json.dumps({"s": {**entry, "client": client}}))
        other = {**entry, "access": "for-another", "expires": 9e15, "url": "https://other.example/mcp"}

        class LoggingIn(list[Any]):
            """The user logs in elsewhere while the refresh is under way."""

            def append(self, form: Any) -> None:
                file.write_text(json.dumps({"s": other}))
                super().append(form)

        server.token_requests = LoggingIn()
        assert asyncio.run(Tokens(tmp_path, {}).access_token(configured(server.url))) is None
        assert len(server.token_requests) == 1


def test_a_token_is_read_again_when_the_file_has_changed(tmp_path: Path) -> None:
    url = "https://mcp.example.com/mcp"
    tokens, file = Tokens(tmp_path, {}), tmp_path / FILE_NAME

    async def read() -> list[str | None]:
        found = [await tokens.access_token(configured(url))]
        for access in ("one", "another"):
            file.write_text(
                json.dumps({"s": {"type": "oauth", "access": access, "refresh": "", "expires": 9e15, "url": url}})
            )
            found += [await tokens.access_token(configured(url)) for _ in range(2)]
        file.unlink()
        return [*found, await tokens.access_token(configured(url))]

    assert asyncio.run(read()) == [None, "one", "one", "another", "another", None]


@pytest.mark.parametrize("endpoint", ["http://[", "http://host:99999/", "http://elsewhere.example/messages"])
def test_the_old_transport_refuses_an_address_for_requests_that_is_none_or_elsewhere(
    tmp_path: Path, endpoint: str
) -> None:
    with McpHttpServer(old=True) as server:
        server.endpoint = endpoint
        run = asyncio.run(results(tmp_path, {"s": {"url": server.url, "type": "sse"}}, ("mcp__s__echo", {})))
        assert run.states[-1] == ("s", "failed") and "for requests" in run.errors[-1]


def test_an_answer_without_end_to_a_notification_does_not_keep_its_connection() -> None:
    async def sent() -> None:
        answered, closed = asyncio.Event(), asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 202 Accepted\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n")
            answered.set()
            while await reader.read(1000):
                pass
            closed.set()
            writer.close()

        async def headers() -> Mapping[str, str]:
            return {}

        listening = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        transport = HttpTransport(Endpoint(f"http://127.0.0.1:{port}/", headers, {}))
        sending = asyncio.ensure_future(transport.send(Outgoing(b"{}", None, "notifications/cancelled")))
        await answered.wait()
        for _ in range(10):  # until it reads the body
            await asyncio.sleep(0)
        sending.cancel()
        await asyncio.wait({sending})
        await asyncio.wait_for(closed.wait(), WITHIN)
        await transport.close(0)
        listening.close()

    asyncio.run(sent())


def test_a_proxy_that_cannot_be_used_fails_the_request_at_once() -> None:
    async def headers() -> Mapping[str, str]:
        return {}

    async def requested() -> None:
        endpoint = Endpoint("http://mcp.example.com/", headers, {"http_proxy": "ftp://proxy"})
        server, _ = memory_server(lambda method, params: None)
        connection = Connection(HttpTransport(endpoint), ClientProfile("1"), "file:///", server)
        await connection.start()
        with pytest.raises(McpError, match="proxies"):
            await connection.request("ping", {}, RequestOptions(WITHIN))
        await connection.close(0)

    asyncio.run(requested())

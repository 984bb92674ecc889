"""`tau login` and `tau logout` as programs, with a real OAuth server, a real model server and a real auth.json."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pty
import stat
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from support.model_server import NOWHERE, serving
from support.oauth_server import CLIENT_SECRET, OAuthServer
from support.rpc_process import surroundings
from tau.llm.catalog import OAuthClient, parse_providers
from tau.runtime.app.model_choice import known_models
from tau.runtime.login.oauth import OAuthFlow
from tau.runtime.login.refresh import refresh_login
from tau.store.auth import OAuthLogin
from tau.store.keys import Keys

TAU = [sys.executable, "-c", "from tau.cli.main import tau; tau()"]
OTHER = {"type": "api_key", "key": "kept", "env": {"A": "b"}}
BROWSER = "import sys, urllib.request as u; u.urlopen(sys.argv[1], timeout=30).read()"


class Desk:
    """One user's folders, and programs that run there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        browser = folder / "browser"
        self.environment = {**surroundings(folder), "LAB_CLIENT_SECRET": CLIENT_SECRET, "BROWSER": f"{browser} %s"}
        browser.write_text(f"#!{sys.executable}\n{BROWSER}\n")
        browser.chmod(0o700)

    @property
    def auth(self) -> Path:
        return self.folder / "agent" / "auth.json"

    @property
    def stored(self) -> Any:
        return json.loads(self.auth.read_text())

    def write(self, name: str, content: Any) -> None:
        path = self.folder / "agent" / name
        path.write_text(json.dumps(content))
        path.chmod(0o600)

    def start(self, *words: str, stdin: int = subprocess.DEVNULL, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*TAU, *words],
            cwd=self.folder / "work",
            env={**self.environment, **environment},
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str, typed: str = "", **environment: str) -> tuple[int, str, str]:
        process = self.start(*words, stdin=subprocess.PIPE, **environment)
        out, err = process.communicate(typed, timeout=60)
        assert "Traceback" not in err
        return process.returncode, out, err

    def ask(self, **environment: str) -> tuple[int, str, str]:
        """Send a prompt to the model of the OAuth server."""
        return self.run("-p", "--provider", "lab", "--model", "big", "--no-session", "hi", **environment)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.fixture
def server(desk: Desk) -> Iterator[OAuthServer]:
    with OAuthServer() as oauth:
        desk.write("models.json", {"providers": {"lab": oauth.provider}})
        desk.write("settings.json", {"retry": {"enabled": True, "maxRetries": 1, "baseDelayMs": 1}})
        yield oauth


def logged_in(desk: Desk, server: OAuthServer, *, expires: float) -> dict[str, Any]:
    """An auth.json with a login that the server knows, and another entry."""
    tokens = server.issue()
    login = {"type": "oauth", "access": tokens["access_token"], "refresh": tokens["refresh_token"], "expires": expires}
    desk.write("auth.json", {"other": OTHER, "lab": {**login, "account": "a-1"}})
    return login


def now_ms() -> float:
    return time.time() * 1000


# API keys.


def test_a_key_from_a_pipe_is_checked_and_stored_beside_the_others(desk: Desk) -> None:
    desk.write("auth.json", {"other": OTHER})
    with serving({"data": []}) as (address, asked):
        desk.write("models.json", {"providers": {"openai": {"baseUrl": address}}})
        code, out, err = desk.run("login", "openai", typed="sk-typed-key-0001\n")
    assert (code, err) == (0, "")
    assert out == f"openai accepted the key.\nThe key for openai is stored in {desk.auth}.\n"
    assert asked == ["/v1/models Bearer sk-typed-key-0001"]
    assert desk.stored == {"other": OTHER, "openai": {"type": "api_key", "key": "sk-typed-key-0001"}}
    assert stat.S_IMODE(desk.auth.stat().st_mode) == 0o600
    assert sorted(os.listdir(desk.auth.parent)) == ["auth.json", "models.json"]


def test_a_key_that_the_server_rejects_is_not_stored_or_shown(desk: Desk) -> None:
    with serving({"error": {"message": "wrong key sk-typed-key-0001"}}, 401) as (address, _):
        desk.write("models.json", {"providers": {"openai": {"baseUrl": address}}})
        code, out, err = desk.run("login", "openai", typed="sk-typed-key-0001\n")
    assert (code, out) == (1, "")
    assert err.startswith("Error: openai rejected the key (401 wrong key ") and "Nothing was stored." in err
    assert "sk-typed" not in err
    assert not desk.auth.exists()


def test_a_key_that_cannot_be_checked_is_stored_with_a_note(desk: Desk) -> None:
    desk.write("models.json", {"providers": {"openai": {"baseUrl": NOWHERE}}})
    code, out, err = desk.run("login", "openai", typed="sk-typed-key-0001\n")
    assert (code, desk.stored["openai"]["key"]) == (0, "sk-typed-key-0001")
    assert err.startswith("The key was not checked: http://127.0.0.1:9/v1/models: cannot connect")
    assert "sk-typed" not in out + err


def test_the_variables_of_an_entry_are_kept_when_its_key_changes(desk: Desk) -> None:
    desk.write("auth.json", {"openai": {**OTHER}})
    assert desk.run("--offline", "login", "openai", typed="new-key\n")[0] == 0
    assert desk.stored == {"openai": {"type": "api_key", "key": "new-key", "env": {"A": "b"}}}


def test_a_command_that_prints_the_key_is_stored_as_a_command(desk: Desk) -> None:
    assert desk.run("--offline", "login", "openai", typed="!echo key\n")[0] == 0
    assert desk.stored["openai"]["key"] == "!echo key"
    code, _, err = desk.run("--offline", "login", "openai", typed="!false\n")
    assert (code, desk.stored["openai"]["key"]) == (1, "!echo key")
    assert "nothing was stored" in err


def test_without_a_key_nothing_is_stored(desk: Desk) -> None:
    assert desk.run("login", "openai")[::2] == (1, "Error: There is no key: nothing was stored.\n")
    assert not desk.auth.exists()


def test_the_name_of_a_variable_that_is_not_set_is_not_stored(desk: Desk) -> None:
    code, _, err = desk.run("--offline", "login", "openai", typed="WORK_API_KEY\n")
    assert (code, err) == (1, "Error: WORK_API_KEY is not set in the environment: nothing was stored.\n")
    assert not desk.auth.exists()
    assert desk.run("--offline", "login", "openai", typed="WORK_API_KEY\n", WORK_API_KEY="sk-work")[0] == 0
    assert desk.stored["openai"] == {"type": "api_key", "key": "WORK_API_KEY"}


def test_an_unreadable_auth_file_is_left_as_it_is(desk: Desk) -> None:
    desk.auth.write_text("{ not json")
    code, _, err = desk.run("--offline", "login", "openai", typed="key\n")
    assert (code, desk.auth.read_text()) == (1, "{ not json")
    assert str(desk.auth) in err


@pytest.mark.parametrize("words", [["login"], ["login", "a", "b"], ["login", "nope"], ["login", "openai", "--device"]])
def test_a_wrong_command_line_ends_with_2(desk: Desk, words: list[str]) -> None:
    assert desk.run(*words)[0] == 2


def type_key(desk: Desk, keys: bytes, *words: str) -> tuple[int, bytes]:
    """Run the program at a terminal and type this when it asks for the key. Returns the exit code and the screen."""
    main, terminal = pty.openpty()
    process = subprocess.Popen(
        [*TAU, *words],
        cwd=desk.folder / "work",
        env=desk.environment,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(terminal)
    shown = b""
    while b"(not shown): " not in shown:
        shown += os.read(main, 4096)
    os.write(main, keys)
    try:
        while chunk := os.read(main, 4096):
            shown += chunk
    except OSError:  # the program has ended
        pass
    code = process.wait(30)
    os.close(main)
    return code, shown


def test_at_a_terminal_the_key_is_not_echoed(desk: Desk) -> None:
    code, shown = type_key(desk, b"sk-typed-key-0001\n", "--offline", "login", "openai")
    assert code == 0
    assert b"sk-typed" not in shown
    assert desk.stored["openai"]["key"] == "sk-typed-key-0001"


@pytest.mark.parametrize("words", [["login", "openai"], ["acp", "--setup", "openai"]])
def test_the_end_of_input_instead_of_a_key_stores_nothing(desk: Desk, words: list[str]) -> None:
    code, shown = type_key(desk, b"\x04", "--offline", *words)
    assert (code, shown.split(b"\r\n")[-3:]) == (
        1,
        [b"API key for openai (not shown): ", b"Error: There is no key: nothing was stored.", b""],
    )
    assert not desk.auth.exists()


def test_logout_removes_one_entry_and_names_another_source(desk: Desk) -> None:
    desk.write("auth.json", {"other": OTHER, "openai": {"type": "api_key", "key": "k"}})
    code, out, _ = desk.run("logout", "openai", OPENAI_API_KEY="x")
    assert (code, desk.stored) == (0, {"other": OTHER})
    assert out.endswith("openai still has a key: OPENAI_API_KEY.\n")
    assert desk.run("logout", "openai")[::2] == (1, "auth.json has no entry for openai.\n")
    code, out, _ = desk.run("logout")
    assert (code, out) == (2, "other: API key\n")


def test_logout_names_no_source_that_refers_to_a_variable_that_is_not_set(desk: Desk) -> None:
    mine = {"baseUrl": "https://llm.example", "api": "anthropic-messages", "apiKey": "MY_KEY", "models": [{"id": "m"}]}
    desk.write("models.json", {"providers": {"mine": mine}})
    desk.write("auth.json", {"mine": {"type": "api_key", "key": "k"}})
    assert "still has a key" not in desk.run("logout", "mine")[1]
    desk.write("auth.json", {"mine": {"type": "api_key", "key": "k"}})
    assert "still has a key: models.json" in desk.run("logout", "mine", MY_KEY="x")[1]


# OAuth with the user's own client.


def test_a_login_in_the_browser_uses_pkce_and_its_token_is_sent_to_the_model(desk: Desk, server: OAuthServer) -> None:
    desk.write("auth.json", {"other": OTHER})
    code, out, err = desk.run("login", "lab")
    assert (code, err) == (0, "")
    assert out.endswith(f"Logged in to lab. The login is stored in {desk.auth}.\n")
    (asked,) = server.authorizations
    assert (asked["code_challenge_method"], asked["scope"], asked["audience"]) == ("S256", "models offline", "lab")
    stored = desk.stored["lab"]
    assert (stored["type"], stored["access"], stored["refresh"]) == ("oauth", "access-token-0001", "refresh-token-0001")
    assert 3200_000 < stored["expires"] - now_ms() < 3400_000
    assert desk.stored["other"] == OTHER
    assert stat.S_IMODE(desk.auth.stat().st_mode) == 0o600
    assert desk.ask()[:2] == (0, "Hello.\n")
    assert server.model_calls == ["Bearer access-token-0001"]
    assert len(server.requests) == 1


def test_a_login_that_is_refused_stores_nothing(desk: Desk, server: OAuthServer) -> None:
    server.refuses_login = True
    code, _, err = desk.run("login", "lab")
    assert (code, err) == (1, "Error: The login was refused: access_denied: no\n")
    assert not desk.auth.exists()


def test_a_redirect_with_another_state_is_ignored(desk: Desk, server: OAuthServer) -> None:
    forger = desk.folder / "forger"
    forger.write_text(
        f"#!{sys.executable}\n"
        "import sys, urllib.request as u, urllib.parse as p, urllib.error\n"
        "back = dict(p.parse_qsl(p.urlsplit(sys.argv[1]).query))['redirect_uri']\n"
        "try: u.urlopen(back + '?code=stolen&state=guess', timeout=30)\n"
        "except urllib.error.HTTPError as error: assert error.code == 404\n"
        "u.urlopen(sys.argv[1], timeout=30).read()\n"
    )
    forger.chmod(0o700)
    assert desk.run("login", "lab", BROWSER=f"{forger} %s")[0] == 0
    assert [request["code"] for request in server.requests] == ["code-1"]


def test_a_login_by_device_code_shows_the_code_and_polls(desk: Desk, server: OAuthServer) -> None:
    server.pending = 2
    code, out, err = desk.run("login", "lab", "--device")
    assert (code, err) == (0, "")
    assert f"Open {server.url}/enter in a browser and enter the code WDJB-MJHT\n" in out
    assert "device-code-secret" not in out
    assert len(server.requests) == 3
    assert desk.ask()[:2] == (0, "Hello.\n")


def test_logout_revokes_the_tokens(desk: Desk, server: OAuthServer) -> None:
    logged_in(desk, server, expires=now_ms() + 10**6)
    assert desk.run("logout", "lab")[0] == 0
    assert (server.revoked, desk.stored) == (["refresh-token-0001"], {"other": OTHER})


def test_a_server_that_wants_an_empty_secret_of_a_public_client_revokes_too(server: OAuthServer) -> None:
    server.revoking_needs_secret = True
    client = OAuthClient(client_id="c", token_url=f"{server.url}/token", revocation_url=f"{server.url}/revoke")
    asyncio.run(OAuthFlow(client, {}).revoke(OAuthLogin("access", "refresh", 0)))
    assert server.revoked == ["refresh"]


# Refresh.


def test_an_expired_login_is_refreshed_and_stored(desk: Desk, server: OAuthServer) -> None:
    logged_in(desk, server, expires=now_ms() - 1)
    assert desk.ask()[:2] == (0, "Hello.\n")
    stored = desk.stored
    assert (stored["lab"]["access"], stored["lab"]["refresh"]) == ("access-token-0002", "refresh-token-0002")
    assert (stored["lab"]["account"], stored["other"]) == ("a-1", OTHER)  # what another program stored is kept
    assert server.model_calls == ["Bearer access-token-0002"]


def test_the_variable_of_a_client_secret_that_is_not_set_is_named_and_nothing_is_asked(
    desk: Desk, server: OAuthServer
) -> None:
    logged_in(desk, server, expires=now_ms() - 1)
    del desk.environment["LAB_CLIENT_SECRET"]
    code, _, err = desk.ask()
    assert code == 1
    assert "LAB_CLIENT_SECRET is not set in the environment: clientSecret refers to it." in err
    assert (server.model_calls, desk.stored["lab"]["access"]) == ([], "access-token-0001")


def test_a_refresh_token_that_is_not_replaced_is_kept(desk: Desk, server: OAuthServer) -> None:
    logged_in(desk, server, expires=0)
    server.rotates = False
    assert desk.ask()[:2] == (0, "Hello.\n")
    assert desk.stored["lab"]["refresh"] == "refresh-token-0001"


def test_a_revoked_login_is_kept_and_the_error_says_to_log_in(desk: Desk, server: OAuthServer) -> None:
    login = logged_in(desk, server, expires=0)
    server.refresh_tokens.clear()
    code, out, err = desk.ask()
    assert (code, out) == (1, "")
    assert "The login for lab could not be refreshed" in err and "`tau login lab`" in err
    assert {**desk.stored["lab"], **login} == desk.stored["lab"]
    assert "refresh-token" not in err and len(server.requests) == 1


def test_while_the_server_is_down_the_login_is_kept_and_the_call_is_retried(desk: Desk, server: OAuthServer) -> None:
    login = logged_in(desk, server, expires=0)
    server.status = 503
    code, _, err = desk.ask()
    assert code == 1 and len(server.requests) == 2
    assert "503 server_error" in err and "refresh-token" not in err and "tau login" not in err
    assert {**desk.stored["lab"], **login} == desk.stored["lab"]
    server.status = 0
    assert desk.ask()[:2] == (0, "Hello.\n")


def test_a_token_server_that_is_not_there_leaves_the_login_as_it_is(desk: Desk, server: OAuthServer) -> None:
    login = logged_in(desk, server, expires=0)
    gone = {**server.provider["oauthClient"], "tokenUrl": "http://127.0.0.1:9/token"}
    desk.write("models.json", {"providers": {"lab": {**server.provider, "oauthClient": gone}}})
    code, _, err = desk.ask()
    assert code == 1 and "http://127.0.0.1:9/token: cannot connect to 127.0.0.1:9: Connection refused" in err
    assert "token-0001" not in err
    assert {**desk.stored["lab"], **login} == desk.stored["lab"]


def test_two_processes_send_a_refresh_token_once(desk: Desk, server: OAuthServer) -> None:
    logged_in(desk, server, expires=0)
    server.may_answer.clear()
    words = ("-p", "--provider", "lab", "--model", "big", "--no-session", "hi")
    first = desk.start(*words)
    assert server.at_token.wait(60)
    second = desk.start(*words)
    assert (desk.auth.parent / "auth.json.lock").exists()
    server.may_answer.set()
    for process in (first, second):
        assert process.communicate(timeout=60)[0] == "Hello.\n"
    assert len(server.requests) == 1
    assert server.model_calls == ["Bearer access-token-0002"] * 2


def test_a_refresh_that_waited_for_the_lock_uses_the_tokens_of_the_other(desk: Desk, server: OAuthServer) -> None:
    logged_in(desk, server, expires=0)
    expired = OAuthLogin.of(desk.stored["lab"])
    client = parse_providers({"providers": {"lab": server.provider}})[0]["lab"].oauth_client
    assert expired is not None and client is not None
    server.may_answer.clear()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(refresh_login, "lab", client, expired, desk.auth, desk.environment)
        assert server.at_token.wait(60)
        second = pool.submit(refresh_login, "lab", client, expired, desk.auth, desk.environment)
        server.may_answer.set()
        assert first.result() == second.result() == OAuthLogin.of(desk.stored["lab"])
    assert len(server.requests) == 1


def test_a_refreshed_login_that_cannot_be_saved_is_used_and_reported(
    desk: Desk, server: OAuthServer, caplog: pytest.LogCaptureFixture
) -> None:
    logged_in(desk, server, expires=0)
    expired = OAuthLogin.of(desk.stored["lab"])
    client = parse_providers({"providers": {"lab": server.provider}})[0]["lab"].oauth_client
    assert expired is not None and client is not None
    server.may_answer.clear()
    with ThreadPoolExecutor(1) as pool:
        refreshed = pool.submit(refresh_login, "lab", client, expired, desk.auth, desk.environment)
        assert server.at_token.wait(60)
        desk.auth.write_text("{ broken by another program")
        server.may_answer.set()
        assert refreshed.result().access == "access-token-0002"
    assert desk.auth.read_text() == "{ broken by another program"
    assert "could not be saved" in caplog.text and "token-0002" not in caplog.text


@pytest.mark.parametrize("hours", [1, 24 * 3650])
def test_a_token_that_only_this_clock_finds_valid_is_refreshed_after_a_rejection(
    desk: Desk, server: OAuthServer, hours: float
) -> None:
    logged_in(desk, server, expires=now_ms() + hours * 3600_000)
    server.tokens.clear()
    server.tokens.add("so that the next number is 2")
    assert desk.ask()[:2] == (0, "Hello.\n")
    assert server.model_calls == ["Bearer access-token-0001", "Bearer access-token-0002"]
    assert desk.stored["lab"]["access"] == "access-token-0002"


def test_a_logout_during_a_session_is_not_undone(desk: Desk, server: OAuthServer) -> None:
    logged_in(desk, server, expires=0)
    server.may_answer.clear()
    process = desk.start("-p", "--provider", "lab", "--model", "big", "--no-session", "hi")
    assert server.at_token.wait(60)
    server.may_answer.set()
    process.communicate(timeout=60)
    assert desk.run("logout", "lab")[0] == 0
    assert "lab" not in desk.stored
    assert desk.ask()[0] == 1
    assert "lab" not in desk.stored


def test_commands_do_not_inherit_the_secret_of_a_client(desk: Desk, server: OAuthServer) -> None:
    keys = Keys(desk.auth, desk.environment)
    known_models(desk.folder / "agent", keys, desk.environment)
    assert CLIENT_SECRET in keys.known_secrets()
    assert "LAB_CLIENT_SECRET" in keys.variables()


# Logins that pi stored.


def pi_login(desk: Desk, address: str, *, expires: float) -> None:
    desk.write("auth.json", {"lab": {"type": "oauth", "access": "pi-token-0001", "refresh": "r", "expires": expires}})
    config = {"baseUrl": address, "api": "openai-completions", "apiKey": "$UNSET_KEY", "models": [{"id": "big"}]}
    desk.write("models.json", {"providers": {"lab": config}})


def test_a_valid_token_that_pi_stored_is_used(desk: Desk) -> None:
    with serving({}) as (address, asked):
        pi_login(desk, address, expires=now_ms() + 600_000)
        before = desk.auth.read_bytes()
        assert desk.ask()[:2] == (0, "Hello\n")
    assert asked == ["/v1/chat/completions Bearer pi-token-0001 big"]
    assert desk.auth.read_bytes() == before


def test_an_expired_token_that_pi_stored_is_not_sent_and_the_error_says_what_to_do(desk: Desk) -> None:
    with serving({}) as (address, asked):
        pi_login(desk, address, expires=now_ms() - 1)
        before = desk.auth.read_bytes()
        code, out, err = desk.ask()
        assert (code, out, asked) == (1, "", [])
        assert "only pi can refresh it" in err and "tau login lab" in err and "pi-token" not in err
        assert desk.ask(UNSET_KEY="now-set-0001")[:2] == (0, "Hello\n")
    assert asked == ["/v1/chat/completions Bearer now-set-0001 big"]
    assert desk.auth.read_bytes() == before

"""TCP of `tau serve`: addresses, and the process with its commands."""

from __future__ import annotations

import json
import os
import re
import resource
import socket
import sys
import time
from contextlib import ExitStack, suppress
from http.client import HTTPConnection
from pathlib import Path

import pytest

from serve.serve_process import ServeProcess, run_tau
from tau.cli.flags import parse
from tau.errors import UsageError
from tau.serve.web.tcp import Address, check_address, names, parse_address

EXAMPLES = Path(__file__).parents[2] / "examples" / "serve"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("127.0.0.1:7717", Address("127.0.0.1", 7717)),
        ("localhost:0", Address("127.0.0.1", 0)),
        ("[::1]:80", Address("::1", 80)),
        ("0.0.0.0:80", Address("0.0.0.0", 80)),
    ],
)
def test_an_address_is_read(text: str, wanted: Address) -> None:
    assert parse_address(text) == wanted


@pytest.mark.parametrize(
    "text", ["7717", "127.0.0.1", "example.org:80", "127.0.0.1:99999", ":80", "[::1]", "1.2.3:80", ""]
)
def test_an_address_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--listen"):
        parse_address(text)


@pytest.mark.promise("N07")
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "10.0.0.1", "8.8.8.8", "::ffff:192.168.1.5"])
def test_an_address_that_others_reach_needs_tls_or_a_flag(host: str) -> None:
    with pytest.raises(UsageError, match="--public-url"):
        check_address(Address(host, 7717), None, insecure_lan=False)
    check_address(Address(host, 7717), "https://tau.example", insecure_lan=False)
    check_address(Address(host, 7717), None, insecure_lan=True)


@pytest.mark.parametrize(
    "url",
    [
        "http://tau.example",
        "tau.example",
        "https://tau.example/x",
        "https://",
        "https://x?y",
        "https://tau.example:99999",
        "https://u@tau.example",
        "https://[::1",
    ],
)
def test_a_public_url_is_https_without_a_path(url: str) -> None:
    with pytest.raises(UsageError, match="--public-url"):
        check_address(Address("127.0.0.1", 7717), url, insecure_lan=False)


def test_names_do_not_come_from_a_wildcard_address() -> None:
    allowed = names(Address("0.0.0.0", 0), 7717, "https://tau.example", insecure_lan=False)
    assert not allowed.own_addresses
    assert allowed.hosts == {"127.0.0.1:7717", "localhost:7717", "[::1]:7717", "tau.example", "tau.example:443"}
    assert "192.168.1.5:7717" in names(Address("192.168.1.5", 0), 7717, None, insecure_lan=True).hosts


def test_a_public_url_may_be_http_in_a_lan() -> None:
    check_address(Address("0.0.0.0", 7717), "http://workstation.local:7717", insecure_lan=True)
    for url in ("ftp://workstation.local", "http://workstation.local/x"):
        with pytest.raises(UsageError, match="--insecure-lan"):
            check_address(Address("0.0.0.0", 7717), url, insecure_lan=True)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere only 127.0.0.1 is an address of every machine")
def test_a_host_in_a_lan_is_reached_under_its_addresses_and_says_what_it_does(tmp_path: Path) -> None:
    with ServeProcess(tmp_path, "--listen", "0.0.0.0:0", "--insecure-lan", "--verbose") as server:
        assert server.url.startswith("http://") and "0.0.0.0" not in server.url
        assert server.command("serve", "url").stdout.startswith(f"{server.url}/#k=")
        own = f"127.0.0.2:{server.port}"
        page = {"Host": own, "Origin": f"http://{own}"}
        assert _asked(server, "127.0.0.2", "POST", "/v1/sessions", page)[0] == 201
        for changed in ({"Host": f"127.0.0.3:{server.port}"}, {"Origin": "http://evil.example"}):
            status, body = _asked(server, "127.0.0.2", "POST", "/v1/sessions", {**page, **changed})
            assert status == 403 and "--insecure-lan" in body and "--public-url" in body
        assert _asked(server, "127.0.0.2", "GET", "/healthz", {"Host": "10.1.2.3"}) == (200, "ok")
        assert server.ask("GET", "/v1/sessions", token="tau_wrong").status == 401
        said = server.errors
        assert "GET /healthz 200" in said and "POST /v1/sessions 201 main" in said and "is open in" in said
        assert "POST /v1/sessions 403 host" in said and "GET /v1/sessions 401 credential" in said
        assert server.token not in said and "websockets" not in said


def _asked(server: ServeProcess, address: str, method: str, path: str, headers: dict[str, str]) -> tuple[int, str]:
    """A request to one of the addresses of this machine."""
    connection = HTTPConnection(address, server.port, timeout=30)
    try:
        given = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json", **headers}
        connection.request(method, path, "{}" if method == "POST" else None, given)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


@pytest.mark.promise("N06", "N07")
def test_a_start_that_would_be_unsafe_is_refused(tmp_path: Path) -> None:
    def refused(*argv: str) -> str:
        done = run_tau(tmp_path, "serve", "--model", "demo", *argv)
        assert (done.returncode, done.stdout) == (2, "")
        return done.stderr

    assert "--insecure-lan" in refused("--listen", "0.0.0.0:0")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"Cannot listen on 127.0.0.1:{port}" in refused("--listen", f"127.0.0.1:{port}")
    os.chmod(tmp_path / "agent" / "serve" / "token", 0o644)
    assert "accessible to other users" in refused("--listen", "127.0.0.1:0")


@pytest.mark.promise("N01", "N14")
def test_a_host_is_used_with_its_token_and_a_browser_gets_a_login(tmp_path: Path) -> None:
    with ServeProcess(tmp_path, answers=({"text": "hello"},)) as server:
        assert server.ask("GET", "/healthz", token="").body == b"ok"
        assert server.ask("GET", "/v1/sessions", token="").status == 401
        session = server.ask("POST", "/v1/sessions", {}).json["session"]
        state = server.ask("POST", f"/v1/sessions/{session}/commands", {"type": "get_state"})
        assert state.json["data"]["sessionId"] == session
        url = server.command("serve", "url").stdout.strip()
        base, _, code = url.partition("/#k=")
        assert base == server.url
        login = server.ask("POST", "/v1/login", {"code": code}, token="").json["token"]
        assert server.ask("GET", "/v1/sessions", token=login).status == 200
        phone = server.command("serve", "token", "new", "--name", "phone", "--scope", "watch").stdout.strip()
        listed = server.command("serve", "token", "list").stdout
        assert "phone" in listed and "browser" in listed and phone not in listed
        _until(lambda: server.ask("GET", "/v1/sessions", token=phone).status == 200)
        assert server.ask("POST", "/v1/sessions", {}, token=phone).status == 403
        assert server.command("serve", "token", "revoke", "phone").returncode == 0
        _until(lambda: server.ask("GET", "/v1/sessions", token=phone).status == 401)
        assert server.command("serve", "token", "revoke", "phone").returncode == 1
        code_of_exit, errors = server.stop()
        assert (code_of_exit, errors) == (143, "")


def _until(condition: object) -> None:
    """Wait for what another process does within half a second."""

    assert callable(condition)
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_the_unit_and_the_image_use_flags_that_exist() -> None:
    unit = (EXAMPLES / "tau-serve.service").read_text()
    image = (EXAMPLES / "Dockerfile").read_text()
    started = next(line for line in unit.splitlines() if line.startswith("ExecStart=")).split()[1:]
    entry = json.loads(next(line for line in image.splitlines() if line.startswith("ENTRYPOINT")).partition(" ")[2])
    for words in (started, entry[1:]):
        parsed = parse(words)
        assert (parsed.words, parsed.unknown) == (["serve"], [])
    copied = re.findall(r"^COPY (.*) \S+$", image, re.MULTILINE)
    assert [name for line in copied for name in line.split() if not (EXAMPLES.parents[1] / name).exists()] == []


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="the limit of a running process is changed by prlimit")
def test_connections_without_a_credential_make_room_while_descriptors_run_out(tmp_path: Path) -> None:
    with ServeProcess(tmp_path) as host, ExitStack() as stack:
        resource.prlimit(host.process.pid, resource.RLIMIT_NOFILE, (256 + 40, 256 + 40))
        opened = [stack.enter_context(socket.create_connection(("127.0.0.1", host.port))) for _ in range(40)]
        opened[0].settimeout(30)
        with suppress(ConnectionResetError):
            assert opened[0].recv(1) == b""
        assert host.ask("GET", "/v1/sessions").status == 200
        metrics = host.ask("GET", "/metrics").body.decode()
        assert 'tau_connections{credential="yes"} 1' in metrics
        assert 'tau_connections_closed_total{limit="descriptors"}' in metrics
        assert host.errors.count("descriptors are running out") == 1

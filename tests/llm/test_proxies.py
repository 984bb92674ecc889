"""Proxies: which one a request goes through, by the variables of an environment."""

from __future__ import annotations

import os
import urllib.request

import pytest

from tau.errors import ModelError
from tau.llm.proxies import environment_proxies, proxy_for


@pytest.mark.parametrize(
    ("url", "proxy"),
    [
        ("https://api.example.com/v1", "http://secure:1"),
        ("http://api.example.com/v1", "http://plain:2"),
        ("https://inside.example.com/v1", None),
        ("http://127.0.0.1:11434/v1", None),
        ("http://localhost:11434/v1", None),
        ("http://[::1]:11434/v1", None),
    ],
)
def test_the_environment_names_a_proxy(url: str, proxy: str | None) -> None:
    named = {"https_proxy": "http://secure:1", "http_proxy": "plain:2", "no_proxy": "inside.example.com"}
    assert proxy_for(url, named) == proxy


@pytest.mark.parametrize(
    ("exception", "hosts"),
    [
        ("*", "a.example.com api.example.com other.example 10.1.2.3 [fd00::1]"),
        ("example.com", "a.example.com api.example.com"),
        (".example.com", "a.example.com api.example.com"),
        ("*.example.com", "a.example.com api.example.com"),
        ("API.example.com", "api.example.com"),
        ("api.example.com:443", "api.example.com"),
        ("api.example.com:8443", ""),
        ("ample.com", ""),
        ("10.1.2.3", "10.1.2.3"),
        ("10.0.0.0/8", "10.1.2.3"),
        ("10.0.0.0/33, 192.168.0.0/16", ""),
        ("fd00::1", "[fd00::1]"),
        ("[fd00::1]:443", "[fd00::1]"),
        ("fd00::/8", "[fd00::1]"),
        ("other.example ,  10.1.2.3", "other.example 10.1.2.3"),
        (" , ", ""),
    ],
)
def test_exceptions_to_a_proxy_are_understood_however_they_are_written(exception: str, hosts: str) -> None:
    everywhere = ["a.example.com", "api.example.com", "other.example", "10.1.2.3", "[fd00::1]"]
    for name in ("no_proxy", "NO_PROXY"):
        named = {"HTTPS_PROXY": "http://proxy:1", name: exception}
        assert [host for host in everywhere if proxy_for(f"https://{host}/v1", named) is None] == hosts.split()


@pytest.mark.parametrize("proxy", ["http://me:geh/eim@proxy:1", "http://:3128", "http://proxy:port", "http://["])
def test_a_proxy_at_no_address_is_told_without_its_password(proxy: str) -> None:
    with pytest.raises(ModelError) as caught:
        proxy_for("https://api.example.com", {"https_proxy": proxy})
    assert str(caught.value) == "The proxy address for https is invalid."
    assert caught.value.transient is False


@pytest.mark.parametrize("proxy", ["SOCKS4://proxy:1", "socks4a://proxy:1", "ftp://proxy", "quic://me:secret@proxy"])
def test_a_proxy_of_an_unsupported_kind_is_named_without_its_password(proxy: str) -> None:
    with pytest.raises(ModelError, match=rf"^tau does not support {proxy.partition(':')[0].lower()} proxies") as caught:
        proxy_for("https://api.example.com", {"all_proxy": proxy})
    assert caught.value.transient is False and "secret" not in str(caught.value)


@pytest.mark.parametrize("scheme", ["socks5", "socks5h", "socks", "SOCKS5H"])
def test_socks_proxies_are_used(scheme: str) -> None:
    named = {"all_proxy": f"{scheme}://user:secret@proxy:1"}
    assert proxy_for("https://api.example.com", named) == f"{scheme.lower()}://user:secret@proxy:1"


ENVIRONMENTS: list[dict[str, str]] = [
    {},
    {"HTTP_PROXY": "http://upper:1"},
    {"http_proxy": "http://lower:1", "HTTP_PROXY": "http://upper:1"},
    {"http_proxy": "", "HTTP_PROXY": "http://upper:1"},
    {"HTTP_PROXY": "http://client:1", "REQUEST_METHOD": "GET"},
    {"http_proxy": "http://lower:1", "HTTP_PROXY": "http://client:1", "REQUEST_METHOD": "GET"},
    {"ALL_PROXY": "http://all:1", "no_proxy": "a,b", "Https_Proxy": "http://mixed:1", "proxy": "x", "_proxy": "y"},
]


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_an_environment_is_read_as_python_reads_that_of_the_process(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]
) -> None:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert environment_proxies(environment) == urllib.request.getproxies_environment()


def test_the_environment_of_the_process_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy:1")
    assert proxy_for("https://api.example.com", {}) is None

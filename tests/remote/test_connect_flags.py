"""The flags of `pi --mode rpc --connect`, and addresses of hosts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.rpc_process import surroundings
from tau.cli.connect import target_of
from tau.cli.flags import parse
from tau.client.addresses import Address, find_address
from tau.errors import UsageError

RPC = ["--mode", "rpc", "--connect", "unix:/run/s"]


def test_a_session_is_named_or_opened() -> None:
    named = target_of(parse([*RPC, "--session", "0198c1aa"]))
    assert (named.address, named.session, named.open) == (Address(path="/run/s"), "0198c1aa", None)
    file = target_of(parse([*RPC, "--session", "/sessions/one.jsonl"]))
    assert (file.session, file.open) == (None, {"session": "/sessions/one.jsonl"})
    new = target_of(parse([*RPC, "--provider", "acme", "--model", "rocket", "--tools", "read, ls", "--no-session"]))
    assert new.open is not None
    assert {name: new.open[name] for name in ("model", "tools", "memory")} == {
        "model": "acme/rocket",
        "tools": ["read", "ls"],
        "memory": True,
    }
    assert target_of(parse([*RPC, "--dialect", "1.5", "--abort-at-end"])).abort_at_end


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (["--connect", "unix:"], "--connect is for --mode rpc"),
        ([*RPC, "--open", "--session", "x"], "but not both"),
        ([*RPC, "--permissions", "ask"], "--permissions cannot be used with --connect"),
        ([*RPC, "--extension", "x.py"], "--extension cannot be used with --connect"),
        ([*RPC, "--surprise"], "--surprise cannot be used with --connect"),
        ([*RPC, "--token-file", "/no/such/file"], "The token cannot be read from /no/such/file"),
        (["--mode", "rpc", "--connect", "ftp://x"], "is not the address of a host"),
    ],
)
def test_flags_that_do_not_fit_are_refused(flags: list[str], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        target_of(parse(flags))


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("http://127.0.0.1:7717", "ws://127.0.0.1:7717/v1/ws"),
        ("https://host.example/agents/", "wss://host.example/agents/v1/ws"),
        ("ws://[::1]:80/v1/ws", "ws://[::1]:80/v1/ws"),
    ],
)
def test_urls_lead_to_the_websocket(given: str, url: str) -> None:
    assert find_address(given, "t") == Address(url=url, token="t")


@pytest.mark.parametrize("given", ["", "unix", "http://", "http://u:p@h", "http://h/?x=1", "http://h/#f", "/run/s"])
def test_other_urls_are_refused(given: str) -> None:
    with pytest.raises(UsageError, match="is not the address of a host"):
        find_address(given)


def test_the_token_of_this_user_is_sent_only_to_the_host_of_this_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PI_CODING_AGENT_DIR", str(tmp_path))
    assert find_address("unix:").path == str(tmp_path / "serve" / "host.sock")
    (tmp_path / "serve").mkdir()
    (tmp_path / "serve" / "token").write_text("secret\n")
    (tmp_path / "serve" / "token").chmod(0o600)
    assert find_address("http://127.0.0.1:7717").token is None  # no host says that it listens there
    (tmp_path / "serve" / "host.json").write_text(json.dumps({"url": "http://127.0.0.1:7717"}))
    assert find_address("http://127.0.0.1:7717").token == "secret"
    assert find_address("ws://localhost:7717").token == "secret"
    assert find_address("http://127.0.0.1:7718").token is None  # another program
    assert find_address("http://host.example:7717").token is None
    assert find_address("http://127.0.0.1:7717", "given").token == "given"
    (tmp_path / "serve" / "token").chmod(0o644)
    with pytest.raises(UsageError, match="can be read by other users"):
        find_address("http://127.0.0.1:7717")


@pytest.mark.process
def test_without_a_host_the_bridge_says_how_to_start_one(tmp_path: Path) -> None:
    argv = [sys.executable, "-P", "-m", "tau", "--mode", "rpc", "--connect", "unix:"]
    done = subprocess.run(argv, env={**os.environ, **surroundings(tmp_path)}, input="", capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert "No host listens at" in done.stderr and "Start one with `tau serve`" in done.stderr

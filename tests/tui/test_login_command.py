"""/login, /logout and the first prompt without a model, in the whole program."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from support.cli_process import PI
from support.interface import Interface
from support.model_server import NOWHERE, serving
from support.oauth_server import CLIENT_SECRET, OAuthServer
from support.rpc_process import surroundings
from support.terminal import Terminal

KEY = "sk-typed-key-0001"


class WithoutModel(Interface):
    """tau at a terminal of a user who has no key, and a local server at most at `ollama`."""

    def __init__(
        self, folder: Path, *, openai: str = NOWHERE, ollama: str = "127.0.0.1:9", lab: Any = None, **how: Any
    ) -> None:
        self.folder = folder
        models = {"providers": {"openai": {"baseUrl": openai}, **({"lab": lab} if lab else {})}}
        given = {"OLLAMA_HOST": ollama, "TMUX": "", "SSH_CONNECTION": "", "LAB_CLIENT_SECRET": CLIENT_SECRET}
        environment = {**surroundings(folder, None, models), **given}
        Terminal.__init__(self, list(PI), env=environment, cwd=str(folder / "work"), **how)


def auth(folder: Path) -> Any:
    return json.loads((folder / "agent" / "auth.json").read_text())


def type_key(tau: Interface) -> None:
    tau.wait("API key for openai")
    tau.type(KEY)
    tau.wait("•" * len(KEY))
    tau.press("enter")


@pytest.mark.promise("T17")
def test_login_stores_a_key_that_is_never_shown(tmp_path: Path) -> None:
    with serving({"data": []}) as (address, _), WithoutModel(tmp_path, openai=address) as tau:
        tau.start().send("/login openai")
        type_key(tau)
        tau.wait("The model is openai/")
        assert "openai accepted the key" in " ".join(tau.screen())
        tau.wait("• medium")
        assert KEY.encode() not in tau.raw()
    assert auth(tmp_path) == {"openai": {"type": "api_key", "key": KEY}}
    assert stat.S_IMODE((tmp_path / "agent" / "auth.json").stat().st_mode) == 0o600
    assert KEY not in (tmp_path / "agent" / "tau_history.jsonl").read_text()


def test_a_key_that_the_provider_rejects_is_not_stored(tmp_path: Path) -> None:
    with serving({"error": {"message": "wrong"}}, 401) as (address, _), WithoutModel(tmp_path, openai=address) as tau:
        tau.start().send("/login openai")
        type_key(tau)
        tau.wait("rejected the key")
        tau.wait("Nothing was stored")
    assert not (tmp_path / "agent" / "auth.json").exists()


def test_login_without_a_name_lists_the_providers_and_logout_removes_an_entry(tmp_path: Path) -> None:
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "auth.json").write_text(json.dumps({"openai": {"type": "api_key", "key": "sk-old"}}))
    with WithoutModel(tmp_path) as tau:
        tau.start().send("/login")
        tau.wait("── Log in")
        tau.type("openai")
        tau.wait("key from auth.json")
        tau.press("escape")
        tau.wait(lambda shown: "── Log in" not in shown)
        tau.send("/logout openai")
        tau.wait("The entry for openai was removed")
        tau.send("/logout")
        tau.wait("auth.json has no entries")
    assert auth(tmp_path) == {}


def test_login_says_that_a_key_is_the_name_of_a_variable_that_is_not_set(tmp_path: Path) -> None:
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "auth.json").write_text(json.dumps({"openai": {"type": "api_key", "key": "MY_KEY"}}))
    with WithoutModel(tmp_path) as tau:
        tau.start().send("/login")
        tau.wait("── Log in")
        tau.type("openai")
        tau.wait("no key: MY_KEY is not set")


def test_a_provider_with_an_oauth_client_is_logged_in_to_with_the_browser(tmp_path: Path) -> None:
    with OAuthServer() as oauth, WithoutModel(tmp_path, lab=oauth.provider, cols=600) as tau:
        tau.start().send("/login lab")
        tau.wait("Log in with your browser")
        (address,) = [row.strip() for row in tau.screen() if row.strip().startswith("http")]
        urlopen(address, timeout=30).read()
        tau.wait("Logged in to lab.")
        tau.wait("The model is lab/")
    assert auth(tmp_path)["lab"]["type"] == "oauth"


@pytest.mark.parametrize(("rows", "cols"), [(24, 80), (15, 40)])
def test_the_first_prompt_without_a_key_opens_a_choice_and_the_demo_answers_it(
    rows: int, cols: int, tmp_path: Path
) -> None:
    with WithoutModel(tmp_path, rows=rows, cols=cols) as tau:
        tau.start().send("hello")
        tau.wait("There is no model yet")
        tau.type("demo")
        tau.wait("→ Demo")
        tau.press("enter")
        tau.wait("> hello")
        tau.settle()
        assert "demo" in "\n".join(tau.screen())


def test_the_first_prompt_without_a_key_offers_a_local_server(tmp_path: Path) -> None:
    with serving({"data": [{"id": "qwen3"}]}) as (address, asked):
        with WithoutModel(tmp_path, ollama=address.removesuffix("/v1")) as tau:
            tau.start().send("hello")
            tau.wait("ollama/qwen3")
            tau.type("qwen")
            tau.wait("→ ollama/qwen3")
            tau.press("enter")
            tau.wait("Hello")
        assert any("/chat/completions" in one for one in asked)


def test_a_key_that_is_pasted_at_the_first_prompt_is_used_for_it(tmp_path: Path) -> None:
    with serving({"data": []}) as (address, asked), WithoutModel(tmp_path, openai=address) as tau:
        tau.start().send("hello")
        tau.wait("There is no model yet")
        tau.press("enter")
        tau.wait("── Log in")
        tau.type("openai")
        tau.wait("→ openai")
        tau.press("enter")
        type_key(tau)
        tau.wait("The model is openai/")
        tau.wait("> hello")
        tau.settle()
        assert any(KEY in one for one in asked if "models" not in one)


def test_escape_at_the_choice_returns_the_prompt_to_the_editor(tmp_path: Path) -> None:
    with WithoutModel(tmp_path) as tau:
        tau.start().send("hello")
        tau.wait("There is no model yet")
        tau.press("escape")
        tau.wait("/login stores an API key")
        assert tau.box()[1] == "hello"

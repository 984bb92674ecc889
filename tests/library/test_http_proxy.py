"""The setting `httpProxy`: model calls, commands and extensions of a session use it, in the library and in `pi`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from support.cli_process import run
from support.library_agent import opened, play
from support.model_server import serving

MODEL = {"id": "m1", "contextWindow": 200_000, "maxTokens": 8_000}
PROVIDER = {"baseUrl": "http://model.invalid/v1", "api": "openai-completions", "apiKey": "k", "models": [MODEL]}
ASKED = "http://model.invalid/v1/chat/completions Bearer k m1"


def configure(folder: Path, **settings: Any) -> None:
    (folder / "agent").mkdir(parents=True)
    (folder / "agent" / "models.json").write_text(json.dumps({"providers": {"lab": PROVIDER}}))
    (folder / "agent" / "settings.json").write_text(json.dumps(settings))


def environment(folder: Path, **more: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(folder), **more}


def test_a_model_call_of_the_library_goes_through_the_proxy_of_the_settings(tmp_path: Path) -> None:
    with serving({}) as (address, asked):
        configure(tmp_path, httpProxy=address.removesuffix("/v1"))

        async def story() -> str:
            async with opened(tmp_path, model="lab/m1", script=None) as agent:
                return (await agent.prompt("hi")).text

        before = dict(os.environ)
        assert play(story()) == "Hello"
    assert asked == [ASKED]
    assert dict(os.environ) == before


def test_the_environment_of_a_session_wins_over_the_setting(tmp_path: Path) -> None:
    with serving({}) as (address, asked):
        configure(tmp_path, httpProxy="http://127.0.0.1:9")
        env = environment(tmp_path, http_proxy=address.removesuffix("/v1"))

        async def story() -> str:
            async with opened(tmp_path, model="lab/m1", script=None, env=env) as agent:
                return (await agent.prompt("hi")).text

        assert play(story()) == "Hello"
    assert asked == [ASKED]


def test_commands_and_extensions_see_the_proxy_of_the_settings(tmp_path: Path) -> None:
    configure(tmp_path, httpProxy="http://proxy.invalid:1")
    extension = tmp_path / "one.py"
    extension.write_text(
        """
import os, pathlib

def setup(pi):
    pathlib.Path(__file__).with_name("seen").write_text(os.environ.get("HTTPS_PROXY", ""))
"""
    )

    async def story() -> str:
        async with opened(tmp_path, extensions=[extension]) as agent:
            return (await agent.bash("echo $HTTP_PROXY")).output.strip()

    assert play(story()) == "http://proxy.invalid:1"
    assert (tmp_path / "seen").read_text() == "http://proxy.invalid:1"


def test_a_model_call_of_pi_goes_through_the_proxy_of_the_settings(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    with serving({}) as (address, asked):
        configure(tmp_path, httpProxy=address.removesuffix("/v1"))
        done = run(tmp_path, "--model", "lab/m1", "-p", "hi")
    assert (done.code, done.out.strip(), asked) == (0, "Hello", [ASKED])

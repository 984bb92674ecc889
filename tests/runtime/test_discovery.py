from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from support.model_server import NOWHERE, serving
from tau.llm.catalog import LOCAL, Catalog, providers
from tau.records.models import Model
from tau.runtime.models.discovery import LocalServer, discover
from tau.store.keys import Keys


def heard(address: str, environment: dict[str, str] | None = None, patience: float = 30) -> LocalServer:
    """What comes of asking a vLLM at this address; all others are where nobody is."""
    given, problems = providers(
        {"providers": {name: {"baseUrl": address if name == "vllm" else NOWHERE} for name in LOCAL}}
    )
    assert problems == []
    found = discover(Catalog(given), Keys(Path("/nonexistent"), environment or {}), patience)
    assert set(found) == LOCAL
    assert patience < 1 or found["ollama"] == LocalServer(
        NOWHERE, [], "Connection refused"
    )  # if there was time to hear it
    return found["vllm"]


def model(id: str, address: str, window: int = 128000) -> Model:
    return Model(id, id, "openai-completions", "vllm", address, context_window=window)


def test_models_are_listed_with_their_windows() -> None:
    entries = [
        {"id": "plain", "object": "model"},
        {"id": "vllm", "max_model_len": 4096},
        {"id": "studio", "max_context_length": 8192},
        {"id": "llama", "meta": {"n_ctx_train": 2048}},
        {"id": "odd", "max_model_len": "many", "meta": 5},
    ]
    with serving({"object": "list", "data": [*entries, {"name": "no id"}, 5]}) as (address, asked):
        assert heard(address) == LocalServer(
            address,
            [
                model("plain", address),
                model("vllm", address, 4096),
                model("studio", address, 8192),
                model("llama", address, 2048),
                model("odd", address),
            ],
            None,
        )
    assert asked == ["/v1/models None"]


def test_a_key_is_used_where_there_is_one() -> None:
    with serving({"data": []}) as (address, asked):
        assert heard(address, {"VLLM_API_KEY": "k"}) == LocalServer(address, [], None)
    assert asked == ["/v1/models Bearer k"]


@pytest.mark.parametrize(
    ("content", "status", "trouble"),
    [
        ({"data": []}, 401, "answers with status 401"),
        ({"models": []}, 200, "answers, but not with a list of models"),
        ([], 200, "answers, but not with a list of models"),
    ],
)
def test_what_is_no_list_of_models_is_said(content: Any, status: int, trouble: str) -> None:
    with serving(content, status) as (address, _):
        assert heard(address) == LocalServer(address, [], trouble)


def test_a_page_is_no_list_either() -> None:
    with serving(b"<html>") as (address, _):
        found = heard(address)
    assert found.models == [] and found.trouble


def test_a_server_that_does_not_answer_is_not_waited_for() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        found = heard(address, patience=0.2)
    assert (found.models, found.trouble in ("timed out", "TimeoutError", "no answer within 0.2 s")) == ([], True)

"""Keys that are good for a while: a server that does not know one any more, in the middle of a run."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from support.anthropic_server import events
from support.rpc_process import Agent, Json, of, said, texts

MODEL = {
    "id": "m1",
    "name": "Mock",
    "reasoning": False,
    "input": ["text"],
    "contextWindow": 200_000,
    "maxTokens": 8_000,
}

MOCK = {"api": "anthropic-messages", "apiKey": "unused", "models": [MODEL]}


class Guarded:
    """A server that answers those whose key is in the file `good`, and the command that tells the key in `key`."""

    def __init__(self, folder: Path, *answers: str) -> None:
        self.good, self.key, self.runs = folder / "good", folder / "key", folder / "runs"
        self.shown: list[str] = []  # the keys that came
        self._answers = [*answers]
        for name in ("work", "agent"):
            (folder / name).mkdir()
        auth = folder / "agent" / "auth.json"
        command = f"!echo x >>{self.runs}; cat {self.key}"
        auth.write_text(json.dumps({"mock": {"type": "api_key", "key": command}}))
        auth.chmod(0o600)

    def answer(self, key: str) -> tuple[int, bytes]:
        self.shown.append(key)
        if key != self.good.read_text().strip():
            return 401, json.dumps({"error": {"message": f"The key {key} has expired"}}).encode()
        said = self._answers.pop(0)
        return 200, b"".join(
            f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events(said, len(self.shown))
        )

    @contextmanager
    def serving(self) -> Iterator[Json]:
        with serving(lambda headers: self.answer(headers["x-api-key"])) as url:
            yield {"providers": {"mock": {"baseUrl": url, **MOCK}}}


@contextmanager
def serving(answer: Callable[[Message], tuple[int, bytes]]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            status, body = answer(self.headers)
            self.send_response(status)
            self.send_header("content-type", "text/event-stream" if status == 200 else "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def started(folder: Path, models: Json) -> Agent:
    args, settings = ["--provider", "mock", "--model", "m1"], {"retry": {"baseDelayMs": 1}}
    return Agent(folder, models=models, settings=settings, args=args, offline=False)


@pytest.mark.promise("E29")
def test_a_key_that_expires_during_a_run_is_asked_for_anew_and_the_run_goes_on(tmp_path: Path) -> None:
    guarded = Guarded(
        tmp_path, f"$ echo second-key >{tmp_path}/good; cp {tmp_path}/good {tmp_path}/key", "Done.", "More."
    )
    for file in (guarded.good, guarded.key):
        file.write_text("first-key\n")
    with guarded.serving() as models, started(tmp_path, models) as agent:
        events = agent.prompt("go")
        assert texts(events, "assistant")[-1] == "Done."
        assert [event["errorMessage"][:4] for event in of("auto_retry_start", events)] == ["401 "]
        assert texts(agent.prompt("more"), "assistant") == ["More."]
    assert guarded.shown == ["first-key", "first-key", "second-key", "second-key"]
    assert guarded.runs.read_text() == "x\n" * 2


@pytest.mark.promise("E13", "E29", "G12")
def test_a_key_that_is_not_known_even_when_it_is_new_is_an_error(tmp_path: Path) -> None:
    guarded = Guarded(tmp_path, "Hello.")
    guarded.good.write_text("another-key\n")
    guarded.key.write_text("expired-key\n")
    with guarded.serving() as models, started(tmp_path, models) as agent:
        answer = said(agent.prompt("go"), "assistant")[-1]
        assert (answer["stopReason"], answer["errorMessage"]) == (
            "error",
            '401 {"error":{"message":"The key *** has expired"}}',
        )
        assert guarded.shown == ["expired-key"] * 2
        guarded.key.write_text("another-key\n")
        assert texts(agent.prompt("again"), "assistant") == ["Hello."]
        assert all("expired-key" not in json.dumps(record) for record in agent.records)
    assert guarded.shown == ["expired-key", "expired-key", "another-key"]


@pytest.mark.promise("E29")
def test_a_key_that_cannot_be_had_is_an_error_that_says_so(tmp_path: Path) -> None:
    guarded = Guarded(tmp_path, "Hello.")
    guarded.good.write_text("good-key\n")
    with guarded.serving() as models, started(tmp_path, models) as agent:
        answer = said(agent.prompt("go"), "assistant")[-1]
        assert answer["errorMessage"] == "No API key for mock: the command in auth.json did not tell it."
        assert guarded.shown == []
        guarded.key.write_text("good-key\n")
        assert texts(agent.prompt("again"), "assistant") == ["Hello."]


@pytest.mark.promise("E13")
def test_a_key_that_nobody_can_renew_is_not_tried_again(tmp_path: Path) -> None:
    guarded = Guarded(tmp_path, "Hello.")
    guarded.good.write_text("good-key\n")
    (tmp_path / "agent" / "auth.json").write_text('{"mock": {"type": "api_key", "key": "wrong-key"}}')
    with guarded.serving() as models, started(tmp_path, models) as agent:
        events = agent.prompt("go")
        assert of("auto_retry_start", events) == []
        assert said(events, "assistant")[-1]["stopReason"] == "error"
    assert guarded.shown == ["wrong-key"]


@pytest.mark.promise("E29")
def test_an_account_whose_credentials_are_over_is_looked_up_anew(tmp_path: Path) -> None:
    """They are kept as long as they say themselves, which a clock that is wrong may take for too long."""
    pytest.importorskip("botocore", reason="an extra: botocore")
    credentials, shown = tmp_path / "credentials", list[str]()

    def profile(key: str) -> None:
        credentials.write_text(f"[default]\naws_access_key_id={key}\naws_secret_access_key=s\n")

    def answer(headers: Message) -> tuple[int, bytes]:
        shown.append(headers["authorization"].partition("Credential=")[2].partition("/")[0])
        profile("AKIDNEW")
        return 403, b'{"message":"The security token included in the request is expired"}'

    profile("AKIDOLD")
    env = {"AWS_PROFILE": "default", "AWS_SHARED_CREDENTIALS_FILE": str(credentials), "AWS_REGION": "eu-north-1"}
    args = ["--provider", "amazon-bedrock"]
    with serving(answer) as url:
        models = {"providers": {"amazon-bedrock": {"baseUrl": url}}}
        settings = {"retry": {"baseDelayMs": 1}}
        with Agent(tmp_path, models=models, settings=settings, args=args, offline=False, env=env) as agent:
            error = said(agent.prompt("go"), "assistant")[-1]["errorMessage"]
    assert shown == ["AKIDOLD", "AKIDNEW"]
    assert error.startswith("403 ") and "expired" in error


@pytest.mark.promise("E29")
def test_a_token_of_google_that_is_over_is_asked_for_anew(tmp_path: Path) -> None:
    """A token says that it is good for an hour, and the server does not think so."""
    pytest.importorskip("google.auth", reason="an extra: google-auth")
    rsa = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.rsa")
    serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")
    tokens, shown = list[str](), list[str]()

    def account(url: str) -> Path:
        key = rsa.generate_private_key(65537, 2048).private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        file = tmp_path / "account.json"
        file.write_text(
            json.dumps(
                {
                    "type": "service_account",
                    "project_id": "p-1",
                    "private_key_id": "k",
                    "private_key": key.decode(),
                    "client_email": "a@p-1.example",
                    "token_uri": f"{url}/token",
                }
            )
        )
        return file

    def grant(headers: Message) -> tuple[int, bytes]:
        tokens.append(f"token-number-{len(tokens) + 1}")
        return 200, json.dumps({"access_token": tokens[-1], "expires_in": 3600}).encode()

    def answer(headers: Message) -> tuple[int, bytes]:
        shown.append(headers["authorization"])
        if shown[-1] == "Bearer token-number-1":
            return 401, b'{"error":{"status":"UNAUTHENTICATED","message":"token-number-1 has expired"}}'
        chunk = {"candidates": [{"content": {"parts": [{"text": "Hello."}], "role": "model"}, "finishReason": "STOP"}]}
        return 200, f"data: {json.dumps(chunk)}\n\n".encode()

    with serving(grant) as bank, serving(answer) as url:
        env = {
            "GOOGLE_APPLICATION_CREDENTIALS": str(account(bank)),
            "GOOGLE_CLOUD_PROJECT": "p-1",
            "GOOGLE_CLOUD_LOCATION": "l-1",
        }
        models = {"providers": {"google-vertex": {"baseUrl": url}}}
        args, settings = ["--provider", "google-vertex"], {"retry": {"baseDelayMs": 1}}
        with Agent(tmp_path, models=models, settings=settings, args=args, offline=False, env=env) as agent:
            events = agent.prompt("go")
            assert texts(events, "assistant")[-1] == "Hello."
            assert [event["errorMessage"] for event in of("auto_retry_start", events)] == [
                '401 {"error":{"status":"UNAUTHENTICATED","message":"*** has expired"}}'
            ]
            assert texts(agent.prompt("more"), "assistant") == ["Hello."]
    assert shown == ["Bearer token-number-1", "Bearer token-number-2", "Bearer token-number-2"]
    assert tokens == ["token-number-1", "token-number-2"]

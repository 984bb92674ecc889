"""scripts/recordings: recorded answers in every format are found, replayed, and compared with what the SDKs say."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from support.readers import anthropic, openai_chat
from support.recorded_streams import aws, recorded, sse
from tau.records.base import parse

pytestmark = pytest.mark.process
SCRIPT = Path(__file__).parents[1] / "scripts" / "recordings"
CHAT = b"".join(openai_chat.RECORDED).decode()
MESSAGES = b"".join(anthropic.CASE.recorded).decode()
CHAT_URL, MESSAGES_URL = "https://gateway.example.com/v1/chat/completions", "https://api.example.com/v1/messages?beta=1"
CALLS = [["bash", {"command": "echo é"}], ["read", {"path": "a"}]]
TOLD = {"text": "Hello, 😀", "thinking": "Let me see ü", "calls": CALLS, "output": 9}


def replay(folder: Path, *argv: str) -> tuple[int, list[str], str]:
    """The exit code, the lines of stdout, and stderr."""
    command = [sys.executable, "-B", SCRIPT, folder, *argv]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines(), done.stderr


def python_vcr(url: str, body: str) -> str:
    packed = b64encode(gzip.compress(body.encode())).decode()
    return (
        f"interactions:\n- request:\n    method: POST\n    uri: {url}\n    body: '{{}}'\n"
        "  response:\n    status: {code: 200, message: OK}\n    headers: !!python/object:a.Headers {}\n"
        f"    body:\n      string: !!binary |\n        {packed}\n"
    )


def go_vcr(url: str, body: str) -> str:
    return (
        f"version: 2\ninteractions:\n- id: 0\n  request:\n    url: {url}\n    body: '{{}}'\n"
        f"  response:\n    code: 200\n    body: {json.dumps(body, ensure_ascii=False)}\n"
    )


def ruby_vcr(url: str, body: str) -> str:
    packed = b64encode(body.encode()).decode()
    return (
        f"---\nhttp_interactions:\n- request:\n    method: post\n    uri: {url}\n"
        f"  response:\n    body:\n      encoding: UTF-8\n      string: !binary |-\n        {packed}\n"
    )


def httprr(url: str, body: str) -> bytes:
    request = f"POST {url} HTTP/1.1\r\nHost: x\r\n\r\n{{}}".encode()
    data = body.encode()
    cut = [data[:100], data[100:], b""]
    chunked = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in cut)
    response = b"HTTP/2.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked
    return b"httprr trace v1\n%d %d\n" % (len(request), len(response)) + request + response


def one_per_line(body: str) -> str:
    """The JSON of the events, without what is around it."""
    return "\n".join(line[6:] for line in body.split("\n") if line.startswith("data: {"))


FORMATS: dict[str, tuple[str | bytes, Any]] = {
    "python.yaml": (python_vcr(CHAT_URL, CHAT), TOLD),
    "packed.yaml.gz": (gzip.compress(python_vcr(CHAT_URL, CHAT).encode()), TOLD),
    "go.yaml": (go_vcr(CHAT_URL, CHAT), TOLD),
    "ruby.yml": (ruby_vcr(CHAT_URL, CHAT), TOLD),
    "vcr.json": (
        json.dumps({"interactions": [{"request": {"url": CHAT_URL}, "response": {"status": 200, "body": CHAT}}]}),
        TOLD,
    ),
    "chunks.json": (
        json.dumps([{"request": {"url": CHAT_URL}, "response": {"chunks": [CHAT[:50], CHAT[50:]]}}]),
        TOLD,
    ),
    "trace.httprr": (httprr(CHAT_URL, CHAT), TOLD),
    "events.sse": (CHAT, TOLD),
    "lines.chunks.txt": (one_per_line(CHAT), TOLD),
}


@pytest.mark.parametrize("name", FORMATS)
def test_a_recording_is_replayed_whatever_its_format(name: str, tmp_path: Path) -> None:
    content, told = FORMATS[name]
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    code, (where, answer, last), errors = replay(tmp_path, "--no-sdks", "--answers")
    assert (code, errors) == (0, "")
    assert where.startswith(str(tmp_path / name))
    assert parse(answer.encode()) == told
    assert last == "1 streamed answers, 0 with an error, 0 with differences"


def test_every_api_is_known_by_its_address_or_its_events(tmp_path: Path) -> None:
    frames = b"".join(
        [
            aws("messageStart", {"role": "assistant"}),
            aws("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "Hi"}}),
            aws("contentBlockStop", {"contentBlockIndex": 0}),
            aws("messageStop", {"stopReason": "end_turn"}),
        ]
    )
    address = "https://bedrock-runtime.us-east-1.amazonaws.com/model/x/converse-stream"
    body = {"string": b64encode(frames).decode()}
    bedrock = {"interactions": [{"request": {"uri": address}, "response": {"body": body}}]}
    (tmp_path / "1.json").write_text(json.dumps(bedrock))
    (tmp_path / "2.txt").write_text(one_per_line(MESSAGES))
    (tmp_path / "3.sse").write_bytes(b"".join(recorded("google")))
    (tmp_path / "4.sse").write_bytes(b"".join(recorded("openai_responses")))
    (tmp_path / "5.json").write_text(go_vcr_json(MESSAGES_URL, MESSAGES))
    (tmp_path / "6.json").write_text(go_vcr_json("https://api.example.com/v1/files", "{}"))  # no streamed answer
    code, lines, errors = replay(tmp_path, "--no-sdks", "--answers")
    assert (code, errors, lines[-1]) == (0, "", "5 streamed answers, 0 with an error, 0 with differences")
    answers = [parse(line.encode()) for line in lines[1:-1:2]]
    assert answers[0] == {"text": "Hi", "thinking": "", "calls": [], "output": 0}
    assert all(answer["text"] == "Hello, 😀" for answer in answers[1:])


def go_vcr_json(url: str, body: str) -> str:
    return json.dumps({"interactions": [{"request": {"url": url}, "response": {"body": body}}]})


def test_a_file_that_cannot_be_read_is_named_and_the_others_are_replayed(tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "whole.sse").write_text(CHAT)
    code, lines, errors = replay(tmp_path, "--no-sdks")
    assert (code, lines) == (0, ["1 streamed answers, 0 with an error, 0 with differences"])
    assert errors.startswith(f"{tmp_path / 'broken.json'} is not read: not JSON")


def test_a_difference_from_an_sdk_is_shown_and_is_a_failure(tmp_path: Path) -> None:
    folder, cache = tmp_path / "recordings", tmp_path / "cache"
    folder.mkdir()
    (folder / "whole.sse").write_text(CHAT)
    cut = sse({"choices": [{"delta": {"content": "Hi"}}]}).decode()  # no end
    (folder / "z.sse").write_text(cut)
    other = {**TOLD, "text": "Hello", "output": None}
    python = cache / "venv" / "bin" / "python"  # in place of an environment that has the SDKs
    python.parent.mkdir(parents=True)
    said = [{"openai": "1.0"}, other, {"error": "no end"}]
    python.write_text("#!/bin/sh\ncat <<'END'\n" + "\n".join(json.dumps(line) for line in said) + "\nEND\n")
    python.chmod(0o755)
    (cache / "installed").write_text("anthropic openai google-genai boto3")
    code, lines, errors = replay(folder, "--cache", str(cache))
    assert (code, errors) == (1, "")
    assert lines == [
        "openai 1.0",
        f"{folder / 'whole.sse'} openai-completions",
        '  text: tau "Hello, 😀"; SDK "Hello"',
        "2 streamed answers, 1 with an error, 1 with differences",
    ]

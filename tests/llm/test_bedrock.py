from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from base64 import b64encode
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from support.loop_kit import assistant, call, user
from support.readers.bedrock import ANSWER, MODEL, RECORDED, USED, delta, stop
from support.recorded_streams import BASH, Reading, asking, aws, fails, frame, recorded, ways
from tau.errors import ModelError
from tau.llm import anthropic
from tau.llm import aws as credentials
from tau.llm import bedrock as api
from tau.llm.bedrock import conversation, region
from tau.llm.http import Http
from tau.llm.types import CallOptions, ModelContext, ModelRequest
from tau.records.base import encode, replace
from tau.records.messages import Image, Text, Thinking, ToolResult, Usage, User
from tau.records.models import Model, Price

CACHING = replace(MODEL, cost=Price(3, 15, 0.3, 3.75))
MESSAGES = replace(MODEL, api="bedrock-anthropic-messages")
NOVA = replace(MODEL, id="amazon.nova-x")
PICTURE = Image("QUJD", "image/jpeg")
SHOWN = {"image": {"format": "jpeg", "source": {"bytes": "QUJD"}}}
POINT = {"cachePoint": {"type": "default"}}
KEYS = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret-secret"}


def wire_messages(*messages: Any, model: Model = MODEL, caches: bool = False) -> list[dict[str, Any]]:
    return conversation(messages, model, cache=[POINT] if caches else [])


# What is sent.


def test_a_request_has_all_its_parts() -> None:
    assert asking(api, CACHING, user("hi"), thinking="low") == ModelRequest(
        "https://bedrock-runtime.us-east-1.amazonaws.com/model/anthropic.claude-x-v1:0/converse-stream",
        {"accept": "application/vnd.amazon.eventstream"},
        {
            "messages": [{"role": "user", "content": [{"text": "hi"}, POINT]}],
            "system": [{"text": "Be nice."}, POINT],
            "inferenceConfig": {"maxTokens": 64000},
            "toolConfig": {
                "tools": [
                    {"toolSpec": {"name": "bash", "description": "run", "inputSchema": {"json": BASH.parameters}}}
                ]
            },
            "additionalModelRequestFields": {
                "thinking": {"type": "enabled", "budget_tokens": 2048, "display": "summarized"},
                "anthropic_beta": ["interleaved-thinking-2025-05-14"],
            },
        },
    )


def test_only_claude_is_told_how_to_think_and_what_to_cache() -> None:
    body = asking(api, replace(NOVA, cost=Price(1, 1, 1, 1)), user("hi"), thinking="high").body
    assert list(body) == ["messages", "system", "inferenceConfig", "toolConfig"]
    assert body["inferenceConfig"] == {"maxTokens": 64000}
    assert "cachePoint" not in encode(body).decode()


def test_newer_claudes_are_told_an_effort() -> None:
    newer = replace(MODEL, id="us.anthropic.claude-opus-4-6-v1")
    body = asking(api, newer, thinking="xhigh", max_tokens=1000).body
    assert body["inferenceConfig"] == {"maxTokens": 1000}
    assert body["additionalModelRequestFields"] == {
        "thinking": {"type": "adaptive", "display": "summarized"},
        "output_config": {"effort": "max"},
    }


def test_claude_may_be_asked_in_its_own_words() -> None:
    sent = asking(api, MESSAGES, user("hi"), thinking="low")
    older = replace(MODEL, compat={"supportsEagerToolInputStreaming": False})
    usual = asking(anthropic, older, user("hi"), thinking="low").body
    assert sent.url.endswith("/model/anthropic.claude-x-v1:0/invoke-with-response-stream")
    assert sent.body == {
        **{name: value for name, value in usual.items() if name not in ("model", "stream")},
        "anthropic_version": "bedrock-2023-05-31",
    }


def test_a_cache_may_last_an_hour() -> None:
    body = asking(api, CACHING, user("hi"), environment={"PI_CACHE_RETENTION": "long"}).body
    point = {"cachePoint": {"type": "default", "ttl": "1h"}}
    assert (body["system"][-1], body["messages"][-1]["content"][-1]) == (point, point)


def test_gov_cloud_does_not_know_how_thinking_is_displayed() -> None:
    body = asking(api, MODEL, user("hi"), thinking="low", environment={"AWS_REGION": "us-gov-west-1"}).body
    assert body["additionalModelRequestFields"]["thinking"] == {"type": "enabled", "budget_tokens": 2048}


def test_turns_alternate() -> None:
    one, two = call("one", a="é"), call("two")
    said = [
        user("go"),
        user("now"),
        assistant(Thinking("hm", "sig"), Thinking("[r]", "cGF5", True), "ok", one, two),
        ToolResult(one.id, "one", [Text("1"), PICTURE]),
        ToolResult(two.id, "two", [], {}, True),
        User([Text("and"), PICTURE], 0),
        assistant("a"),
        assistant("b"),
    ]
    assert wire_messages(*said) == [
        {"role": "user", "content": [{"text": "go"}, {"text": "now"}]},
        {
            "role": "assistant",
            "content": [
                {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "sig"}}},
                {"reasoningContent": {"redactedContent": "cGF5"}},
                {"text": "ok"},
                {"toolUse": {"toolUseId": "call_one", "name": "one", "input": {"a": "é"}}},
                {"toolUse": {"toolUseId": "call_two", "name": "two", "input": {}}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"toolResult": {"toolUseId": "call_one", "content": [{"text": "1"}, SHOWN], "status": "success"}},
                {
                    "toolResult": {
                        "toolUseId": "call_two",
                        "content": [{"text": "(no tool output)"}],
                        "status": "error",
                    }
                },
                {"text": "and"},
                SHOWN,
            ],
        },
        {"role": "assistant", "content": [{"text": "a"}, {"text": "b"}]},
    ]


def test_thinking_that_is_not_signed_is_text_for_claude() -> None:
    said = assistant(Thinking("hm"), Thinking(" "), "yes")
    assert wire_messages(said)[0]["content"] == [{"text": "hm"}, {"text": "yes"}]
    thought = {"reasoningContent": {"reasoningText": {"text": "hm"}}}
    assert wire_messages(said, model=NOVA)[0]["content"] == [thought, {"text": "yes"}]


def test_empty_text_and_what_is_no_utf8_are_never_sent() -> None:
    bad = "a\ud800b"
    said = [
        user(" "),
        user(bad),
        assistant(" ", Thinking(bad, "s"), call("ls", path=bad)),
        ToolResult("call_ls", "ls", [Text(bad)]),
    ]
    assert "ud800" not in encode(wire_messages(*said)).decode()
    assert wire_messages(*said)[0] == {"role": "user", "content": [{"text": "ab"}]}


# Where, and who.


@pytest.mark.parametrize(
    ("id", "base", "environment", "where"),
    [
        ("m", "", {}, "us-east-1"),
        ("m", "https://bedrock-runtime.eu-central-1.amazonaws.com", {}, "eu-central-1"),
        ("m", "https://bedrock-runtime.eu-central-1.amazonaws.com", {"AWS_REGION": "us-west-2"}, "us-west-2"),
        ("m", "", {"AWS_DEFAULT_REGION": "us-west-2"}, "us-west-2"),
        ("arn:aws:bedrock:ap-south-1:1:x/y", "", {"AWS_REGION": "us-west-2"}, "ap-south-1"),
    ],
)
def test_a_region_is_found(id: str, base: str, environment: dict[str, str], where: str) -> None:
    model = replace(MODEL, id=id, base_url=base)
    assert region(model, environment) == where
    assert asking(api, model, environment=environment).url.startswith(f"https://bedrock-runtime.{where}.amazonaws.com/")


def test_a_server_of_ones_own_stays_where_it_is() -> None:
    near = replace(MODEL, base_url="http://127.0.0.1:1/")
    assert asking(api, near, environment={"AWS_REGION": "x"}).url.startswith("http://127.0.0.1:1/model/")


def test_the_slashes_of_an_arn_are_part_of_the_name() -> None:
    arn = replace(MODEL, id="arn:aws:bedrock:eu-west-1:1:inference-profile/x")
    assert "/model/arn:aws:bedrock:eu-west-1:1:inference-profile%2Fx/converse-stream" in asking(api, arn).url


def signed_by(key: str | None = "<authenticated>", **environment: str) -> dict[str, str]:
    options = CallOptions(key, environment=environment, now=1_769_904_000_000)
    return api.sign(api.request(MODEL, ModelContext("", [user("hi")], []), options), MODEL, options).headers


@pytest.mark.parametrize(
    ("key", "environment"),
    [
        ("bedrock-key", {}),
        ("<authenticated>", {"AWS_BEARER_TOKEN_BEDROCK": "bedrock-key", **KEYS}),
        (None, {"AWS_BEARER_TOKEN_BEDROCK": "bedrock-key"}),
    ],
)
def test_a_key_of_bedrock_is_enough(key: str | None, environment: dict[str, str]) -> None:
    assert signed_by(key, **environment)["authorization"] == "Bearer bedrock-key"


def test_an_account_signs() -> None:
    headers = signed_by(**KEYS, AWS_SESSION_TOKEN="token", AWS_REGION="eu-west-1")
    scope = "AKIDEXAMPLE/20260201/eu-west-1/bedrock/aws4_request"
    names = "content-type;host;x-amz-date;x-amz-security-token"
    assert headers["authorization"].startswith(
        f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders={names}, Signature="
    )
    assert headers["x-amz-security-token"] == "token"


def test_a_server_without_authentication_needs_no_credentials() -> None:
    assert "authorization" not in signed_by(AWS_BEDROCK_SKIP_AUTH="1", **KEYS)


@pytest.mark.parametrize("environment", [{}, {"AWS_ACCESS_KEY_ID": "a"}, {"AWS_PROFILE": "work"}])
def test_without_credentials_it_says_what_to_set(environment: dict[str, str]) -> None:
    with pytest.raises(ModelError, match="AWS_BEARER_TOKEN_BEDROCK") as caught:
        signed_by(**environment)
    assert caught.value.transient is False


@pytest.mark.process
def test_what_is_signed_is_what_is_sent() -> None:
    """A server sees the path, the headers and the body over which the signature went."""

    async def main() -> tuple[str, ModelRequest, bytes]:
        seen: list[Any] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            fields = dict(line.lower().split(": ", 1) for line in head.strip().split("\r\n")[1:])
            seen.append((head, await reader.readexactly(int(fields["content-length"]))))
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/vnd.amazon.eventstream\r\n\r\n")
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        arn = "arn:aws:bedrock:eu-west-1:1:inference-profile/x"
        model = replace(MODEL, id=arn, base_url=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        options = CallOptions(environment=KEYS, now=1_769_904_000_000)
        request = api.sign(api.request(model, ModelContext("é", [user("hi")], []), options), model, options)
        http = Http()
        async for _ in http.post(request):
            pass
        await http.close()
        server.close()
        return seen[0][0], request, seen[0][1]

    head, request, body = asyncio.run(main())
    assert head.startswith(f"POST /{request.url.split('/', 3)[3]} HTTP/1.1")
    sent = {name.lower(): value for name, _, value in (line.partition(": ") for line in head.strip().split("\r\n")[1:])}
    assert sent["host"] == request.url.split("/")[2]
    assert {name: sent[name] for name in request.headers} == request.headers
    assert body == encode(request.body)


# Where credentials come from.


def test_what_stands_in_the_environment_is_taken_as_it_is() -> None:
    for environment in (KEYS, {"AWS_BEARER_TOKEN_BEDROCK": "x"}, {"AWS_BEDROCK_SKIP_AUTH": "1"}):
        assert credentials.find_credentials(environment) == environment


@pytest.mark.process
def test_a_profile_is_found_by_botocore(tmp_path: Path) -> None:
    pytest.importorskip("botocore")
    (tmp_path / "credentials").write_text("[work]\naws_access_key_id=AKIDWORK\naws_secret_access_key=s\n")
    (tmp_path / "config").write_text("[profile work]\nregion=eu-north-1\n")
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(Path(api.__file__).parents[2]),
        "AWS_PROFILE": "work",
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials"),
        "AWS_CONFIG_FILE": str(tmp_path / "config"),
    }
    ask = "import os; from tau.llm.aws import find_credentials as find; found = find(os.environ);"
    ask += "print(found['AWS_ACCESS_KEY_ID'], found['AWS_REGION'])"
    done = subprocess.run([sys.executable, "-c", ask], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "AKIDWORK eu-north-1\n"


ROLE = b"""<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>
<AccessKeyId>AKIDROLE</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken>
<Expiration>2100-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>"""


@pytest.mark.process
def test_a_role_is_requested_through_the_proxy_of_the_session(tmp_path: Path) -> None:
    pytest.importorskip("botocore")
    asked: list[str] = []

    class Proxy(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.path)
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-length", str(len(ROLE)))
            self.end_headers()
            self.wfile.write(ROLE)

        def log_message(self, format: str, *args: object) -> None:
            pass

    (tmp_path / "credentials").write_text("[base]\naws_access_key_id=AKIDBASE\naws_secret_access_key=s\n")
    (tmp_path / "config").write_text(
        "[profile work]\nregion=eu-north-1\nrole_arn=arn:aws:iam::1:role/r\nsource_profile=base\n"
    )
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(Path(api.__file__).parents[2]),
        "AWS_PROFILE": "work",
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials"),
        "AWS_CONFIG_FILE": str(tmp_path / "config"),
        "AWS_ENDPOINT_URL_STS": "http://sts.invalid",
    }
    ask = "import os, sys; from tau.llm.aws import find_credentials as find;"
    ask += "print(find({**os.environ, 'HTTP_PROXY': sys.argv[1]})['AWS_ACCESS_KEY_ID'])"
    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        program = [sys.executable, "-c", ask, f"http://127.0.0.1:{server.server_port}"]
        done = subprocess.run(program, env=environment, capture_output=True, text=True, check=True)
        server.shutdown()
    assert (done.stdout, asked) == ("AKIDROLE\n", ["http://sts.invalid/"])


# What comes back.


def read(*events: bytes, model: Model = MODEL) -> Reading:
    return Reading(api, model, events).end()


def test_an_answer_is_complete_with_its_stop_reason_even_without_usage() -> None:
    assert read(*RECORDED[:-1]).done.message.content == ANSWER.content


@pytest.mark.parametrize(
    ("bad", "said", "transient"),
    [
        (aws("throttlingException", {"message": "slow"}, "exception"), "Throttling error: slow", None),
        (aws("validationException", {"message": "no"}, "exception"), "Validation error: no", False),
        (aws("modelStreamErrorException", {"message": "x"}, "exception"), "Model stream error: x", None),
        (aws("zorkException", {"message": "x"}, "exception"), "zorkException: x", None),
        (
            frame(b"", message_type="error", error_code="InternalFailure", error_message="Oops"),
            "InternalFailure: Oops",
            None,
        ),
    ],
)
@pytest.mark.parametrize("model", [MODEL, MESSAGES], ids=["converse", "messages"])
def test_an_exception_in_the_stream_is_reported(bad: bytes, said: str, transient: bool | None, model: Model) -> None:
    error, _ = fails(api, model, [], bad)
    assert (str(error), error.transient) == (said, transient)


def test_events_of_a_newer_api_are_passed_over() -> None:
    reading = read(aws("weather", {"sky": "blue"}), delta(0, text="hi"), delta(0, citation={}), stop("end_turn"), USED)
    assert reading.done.message.content == [Text("hi")]


# Claude's own events, packed.


def packed(event: bytes) -> bytes:
    data = next(line for line in event.split(b"\n") if line.startswith(b"data: ")).removeprefix(b"data: ")
    return aws("chunk", {"bytes": b64encode(data).decode(), "p": "abc"})


CLAUDE = [packed(event) for event in recorded("anthropic")]


@pytest.mark.parametrize("portions", ways(CLAUDE), ids=["whole", "events", "bytes"])
def test_packed_events_are_those_of_anthropic(portions: list[bytes]) -> None:
    reading = Reading(api, MESSAGES, portions)
    plain = Reading(anthropic, MESSAGES, recorded("anthropic"))
    assert reading.deltas == plain.deltas
    assert reading.done == plain.done
    assert reading.done.message.usage == Usage(50, 9, 40, 3, 102)


@pytest.mark.parametrize("count", range(len(CLAUDE)))
def test_packed_events_cut_anywhere_are_an_error(count: int) -> None:
    assert fails(api, MESSAGES, CLAUDE[:count])[0].transient is True


@pytest.mark.parametrize("data", [{}, {"bytes": 5}, {"bytes": "no base64!"}, {"bytes": "/w=="}, []])
def test_what_cannot_be_unpacked_is_an_error(data: Any) -> None:
    assert fails(api, MESSAGES, [], aws("chunk", data))[0].transient is True
    assert fails(api, MESSAGES, [], aws("surprise", data))[0].transient is True

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau.llm.sigv4 import Credentials, sign_headers, timestamp

try:  # at once: urllib3 binds a socket when it is imported, which no unit test may do
    from botocore import auth, awsrequest, credentials
except ImportError:
    auth = None

NOW = 1_769_904_000_123  # 2026-02-01T00:00:00.123Z
WHO = Credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")


@given(st.integers(0, 253402300799999))
def test_a_time_is_written_as_aws_writes_it(now: int) -> None:
    assert timestamp(now) == datetime.fromtimestamp(now // 1000, UTC).strftime("%Y%m%dT%H%M%SZ")


@pytest.mark.parametrize("day", ["1970-01-01", "2000-02-29", "2023-12-31", "2024-02-29", "2024-03-01", "2100-02-28"])
def test_calendars_are_hard(day: str) -> None:
    when = datetime.fromisoformat(f"{day}T23:59:59+00:00")
    assert timestamp(int(when.timestamp()) * 1000) == f"{day.replace('-', '')}T235959Z"


def by_botocore(url: str, headers: dict[str, str], body: bytes, who: Credentials) -> dict[str, str]:
    if auth is None:
        pytest.skip("botocore is not installed")
    request = awsrequest.AWSRequest("POST", url, headers=headers, data=body)
    signer = auth.SigV4Auth(credentials.Credentials(who.key_id, who.secret, who.token or None), "bedrock", "eu-west-1")
    signer.add_auth(request)
    return {name.lower(): value for name, value in request.headers.items()}


@pytest.mark.parametrize("who", [WHO, WHO._replace(token="FwoGZXIvYXdzEXAMPLE//token==")], ids=["key", "token"])
@pytest.mark.parametrize(
    "url",
    [
        "https://bedrock-runtime.eu-west-1.amazonaws.com/model/anthropic.claude-v2:1/converse-stream",
        "https://bedrock-runtime.eu-west-1.amazonaws.com/model/anthropic.claude-v2%3A1/converse-stream",
        "https://bedrock-runtime.eu-west-1.amazonaws.com/model/arn:aws:bedrock:eu-west-1:1:x%2Fy/converse-stream",
        "https://example.com:443/model/a~b_c-d.e/invoke",
        "http://127.0.0.1:8080/model/%C3%A9/invoke",
        "https://example.com/",
        "https://example.com",
        "https://example.com/x?b=2&a=1",
    ],
)
@pytest.mark.parametrize("body", [b"", b'{"a":"\xc3\xa9"}'], ids=["empty", "json"])
def test_a_signature_is_the_one_of_botocore(url: str, body: bytes, who: Credentials) -> None:
    headers = {"content-type": "application/json", "x-team": "  two   spaces "}
    theirs = by_botocore(url, headers, body, who)
    moment = datetime.strptime(theirs["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    now = int(moment.timestamp()) * 1000
    assert sign_headers(url, headers, body, who, region="eu-west-1", service="bedrock", now=now) == theirs


def test_what_may_change_on_the_way_is_not_signed() -> None:
    def signature(**headers: str) -> str:
        return sign_headers("https://example.com/", headers, b"", WHO, region="us-east-1", service="bedrock", now=NOW)[
            "authorization"
        ]

    assert signature() == signature(accept="x", connection="close")
    assert signature() != signature(host2="x")

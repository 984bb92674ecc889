from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau.core.checks.secrets import encoded_forms, header_secrets, mask_secrets, redact_model, redact_url, url_secrets
from tau.records.base import replace
from tau.records.models import Model

SECRET = 'sk-"a/b+c&d=e\\f<g>é'
MODEL = Model("m", "M", "openai-completions", "p", "https://host/v1")


@pytest.mark.parametrize(
    "told",
    [
        SECRET,
        json.dumps(SECRET)[1:-1],
        json.dumps(SECRET, ensure_ascii=False)[1:-1],
        json.dumps(SECRET)[1:-1].replace("/", "\\/"),
        html.escape(SECRET),
        html.escape(SECRET).replace("&#x27;", "&#39;"),
        quote(SECRET),
        quote(SECRET, safe=""),
        quote_plus(SECRET),
        re.sub("%..", lambda mark: mark[0].lower(), quote(SECRET, safe="")),
    ],
)
def test_a_secret_is_known_in_every_notation(told: str) -> None:
    assert mask_secrets(f"you sent <{told}>, which is wrong", [SECRET]) == "you sent <***>, which is wrong"


@pytest.mark.parametrize("before", ["", "x", "xy", "user:"])
@pytest.mark.parametrize("pack", [base64.b64encode, base64.urlsafe_b64encode])
def test_a_secret_is_known_in_base64_wherever_it_begins(before: str, pack: Callable[[bytes], bytes]) -> None:
    secret = "a-long-password?>~!"
    packed = pack(f"{before}{secret}".encode()).decode()
    told = mask_secrets(f"Basic {packed}.", [secret])
    assert "***" in told and len(told) < len(packed)


def test_notations_inside_notations_are_no_help() -> None:
    key = "sk-ant-0123456789/abcdef+ghijkl"
    told = json.dumps(json.dumps({"x": html.escape(html.escape(f"<{key}>"))}))
    assert "0123456789" not in mask_secrets(told, [key])


@pytest.mark.parametrize("left", range(8, len("sk-0123456789abcdef")))
def test_the_beginning_of_a_secret_at_the_end_of_a_text_is_a_secret(left: int) -> None:
    assert mask_secrets(f"you sent {'sk-0123456789abcdef'[:left]}", ["sk-0123456789abcdef"]) == "you sent ***"


# Keys that a server cuts off.

PREFIXES = [
    "",
    "sk-",
    "sk-proj-",
    "sk-ant-api03-",
    "sk-or-v1-",
    "ghp_",
    "github_pat_",
    "AIza",
    "xai-",
    "hf_",
    "Bearer sk-",
]
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
# Four characters that no word has at the beginning or the end of the part that is secret.
VARIABLE = st.text(ALPHABET, min_size=12, max_size=60).map(lambda middle: f"a7Xb{middle}q9Zk")
AROUND = st.text(st.sampled_from(" .,:;*<>\"'{}[]é\n"), max_size=12)


@given(st.sampled_from(PREFIXES), VARIABLE, AROUND, AROUND, st.data())
def test_a_piece_that_begins_a_key_is_masked_anywhere(
    prefix: str, variable: str, before: str, after: str, data: st.DataObject
) -> None:
    key = prefix + variable
    piece = key[: data.draw(st.integers(max(8, len(prefix) + 4), len(key)))]
    assert mask_secrets(f"{before}{piece}{after}", [key]) == f"{before}***{after}"


@given(st.sampled_from(PREFIXES), VARIABLE, AROUND, AROUND, st.data())
def test_a_piece_that_ends_a_key_is_masked_anywhere(
    prefix: str, variable: str, before: str, after: str, data: st.DataObject
) -> None:
    key = prefix + variable
    piece = key[-data.draw(st.integers(8, len(variable))) :]
    assert mask_secrets(f"{before}{piece}{after}", [key]) == f"{before}***{after}"


@given(st.sampled_from(PREFIXES), VARIABLE, AROUND, AROUND, st.data())
def test_a_piece_is_masked_in_every_notation(
    prefix: str, variable: str, before: str, after: str, data: st.DataObject
) -> None:
    key = f'{prefix}{variable}"/é<'
    written = data.draw(st.sampled_from([json.dumps(key)[1:-1], quote(key, safe=""), html.escape(key)]))
    piece = written[: data.draw(st.integers(max(8, len(prefix) + 4), len(written)))]
    left = mask_secrets(f"{before}{piece}{after}", [key]).removeprefix(before).removesuffix(after)
    assert left.startswith("***") and variable[:4] not in left and variable[-4:] not in left


@given(st.lists(st.text(ALPHABET + " ", min_size=1, max_size=30), max_size=6), st.text(ALPHABET + " ", max_size=200))
def test_nothing_is_masked_that_shares_fewer_than_eight_characters_with_a_secret(keys: list[str], text: str) -> None:
    pieces = {text[at : at + 8] for at in range(max(0, len(text) - 7))}
    if not any(piece in form for key in keys for form in encoded_forms(key) for piece in pieces):
        assert mask_secrets(text, keys) == text


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("sk-ant-api03-a7XbQ2n5mW9r", "keys look like sk-ant-api03-... and sk-ant-api03-xxxx"),
        ("production-db-password", "the production database has no password here: production-db."),
        ("correct-horse-battery-staple", "correct-horse and staple"),
        ("Bearer sk-ant-api03-a7XbQ2n5mW9r", "send Bearer sk-ant-api03-YOUR-KEY"),
        ("anthropic-internal-7fK2", "anthropic-internal is the name of the group"),
    ],
)
def test_words_and_public_prefixes_are_left_alone(key: str, text: str) -> None:
    assert mask_secrets(text, [key]) == text


def test_what_many_servers_show_of_a_key_stays() -> None:
    key = "sk-ant-api03-a7XbQ2n5mW9r"
    assert mask_secrets(f"{key[:8]}...{key[-4:]} is wrong", [key]) == f"{key[:8]}...{key[-4:]} is wrong"


def test_the_last_characters_of_a_key_inside_json_are_masked() -> None:
    key = "sk-0123456789abcdefXYZ"
    body = json.dumps({"error": {"message": f"Incorrect API key provided: {key[:14]}"}, "hint": f"...{key[-10:]}"})
    told = mask_secrets(body, [key])
    assert json.loads(told) == {"error": {"message": "Incorrect API key provided: ***"}, "hint": "...***"}


def test_a_long_text_full_of_pieces_is_masked_piece_by_piece() -> None:
    key = "sk-ant-api03-a7XbQ2n5mW9r"
    assert mask_secrets(f"{key[:20]} " * 50_000, [key]) == "*** " * 50_000


def test_what_is_short_is_left_alone() -> None:
    assert mask_secrets("abc sk-0123 and so on", ["abc", "sk-0123", "", None]) == "abc sk-0123 and so on"


def test_the_longest_secret_is_masked_first() -> None:
    assert mask_secrets("0123456789ab 01234567", ["01234567", "0123456789ab"]) == "*** ***"


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("https://host:8080/v1?x=1", "https://host:8080/v1?x=1"),
        ("https://me:pass@host/v1", "https://***@host/v1"),
        ("https://token@host", "https://***@host"),
        ("https://host/v1?api_key=a&x=1&token=b#end", "https://host/v1?api_key=***&x=1&token=***#end"),
        ("https://me:p@ss@host/v1", "https://***@host/v1"),
        ("https://host/v1?x?token=b", "https://host/v1?x?token=***"),
        ("", ""),
        ("no address", "no address"),
    ],
)
def test_an_address_is_shown_without_what_opens_it(url: str, told: str) -> None:
    assert redact_url(url) == told


def test_what_an_address_and_headers_would_give_away() -> None:
    assert set(url_secrets("https://me:p%20w@host/?api_key=k&x=1")) == {"p%20w", "p w", "me:p w", "k"}
    assert set(url_secrets("https://token@host/")) == {"token"}
    assert "pass" in next(url_secrets("http://me:pass@[broken"))
    basic = base64.b64encode(b"me:pass").decode()
    headers = {"Authorization": f"Basic {basic}", "x-api-key": "k", "user-agent": "tau", "cookie": "c"}
    assert set(header_secrets(headers)) == {f"Basic {basic}", basic, "me:pass", "pass", "k", "c"}
    assert set(header_secrets({"x-any": "v"}, all_names=True)) == {"v"}


def test_a_model_is_shown_without_its_secrets_and_otherwise_as_it_is() -> None:
    assert redact_model(MODEL) is MODEL
    secret = replace(MODEL, base_url="https://me:pw@host/v1", headers={"x-team": "a-long-value", "x-key": "k"})
    assert redact_model(secret) == replace(MODEL, base_url="https://***@host/v1")

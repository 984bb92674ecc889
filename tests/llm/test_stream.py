from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from support.loop_kit import for_model, new_draft, user
from support.recorded_streams import BASH, recorded, recorded_frames, sse
from tau import llm
from tau.core.agent.draft import MessageBegun, MessageDone, ResponseStarted, Update
from tau.core.models.thinking import supported_levels
from tau.errors import ModelError
from tau.llm import apis
from tau.llm.catalog import Catalog
from tau.llm.types import Api, CallEnvironment, CallOptions, ModelContext, ModelRequest
from tau.records.models import Model


class Recorded:
    """A network on which one answer is always the same; it remembers what it was asked."""

    def __init__(self, *portions: bytes) -> None:
        self.portions = portions
        self.asked: list[ModelRequest] = []

    async def post(self, request: ModelRequest) -> AsyncIterator[bytes]:
        self.asked.append(request)
        for portion in self.portions:
            yield portion


def stream(
    api: str, network: Recorded, options: CallOptions | None = None, **entry: Any
) -> tuple[list[Any], ModelError | None]:
    async def main() -> tuple[list[Any], ModelError | None]:
        draft = new_draft(Model("m", "M", api, "lab", "http://lab", reasoning=True, **entry))
        context, world, told = ModelContext("", [user("hi")], []), CallEnvironment(network, asyncio.sleep), []
        try:
            async for facts in llm.stream(draft.model, context, options or CallOptions("secret-key"), draft, world):
                told += facts
        except ModelError as error:
            return told, error
        return told, None

    return asyncio.run(main())


ANSWERS = {
    "anthropic-messages": recorded("anthropic"),
    "openai-completions": recorded("openai_chat"),
    "openai-responses": recorded("openai_responses"),
    "google-generative-ai": recorded("google"),
    "bedrock-converse-stream": recorded_frames("bedrock_converse"),
}


@pytest.mark.parametrize("api", ANSWERS)
def test_every_api_is_streamed_from_its_beginning_to_its_end(api: str) -> None:
    told, error = stream(api, Recorded(*ANSWERS[api]))
    assert error is None
    assert isinstance(told[0], MessageBegun) and isinstance(told[-1], MessageDone)
    assert told[1] == ResponseStarted()
    assert all(isinstance(fact, Update) for fact in told[2:-1])
    assert (told[-1].message.text, told[-1].message.stop_reason) == ("Hello, 😀", "toolUse")


def test_what_follows_the_end_of_an_answer_is_not_read() -> None:
    told, error = stream("openai-completions", Recorded(b"".join(ANSWERS["openai-completions"]) + sse("{")))
    assert error is None and isinstance(told[-1], MessageDone)


def test_what_came_before_an_event_that_makes_no_sense_is_reported() -> None:
    """Even if both came in one portion."""
    begin = b"".join(ANSWERS["openai-completions"][:4])
    told, error = stream("openai-completions", Recorded(begin + sse("{")))
    assert error is not None
    assert len(told) == 5


def test_what_needs_a_signature_is_signed() -> None:
    environment = {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "a-long-secret"}
    network = Recorded(*ANSWERS["bedrock-converse-stream"])
    stream("bedrock-converse-stream", network, CallOptions("<authenticated>", environment=environment, now=1))
    assert network.asked[0].headers["authorization"].startswith("AWS4-HMAC-SHA256 Credential=AKID/19700101/")


@pytest.mark.parametrize(
    "options",
    [
        CallOptions("a-long-secret"),
        CallOptions("<authenticated>", environment={"AWS_BEARER_TOKEN_BEDROCK": "a-long-secret"}),
        CallOptions(environment={"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "a-long-secret"}),
        CallOptions(
            environment={"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_SESSION_TOKEN": "a-long-secret"}
        ),
        CallOptions("<authenticated>", environment={"GOOGLE_OAUTH_ACCESS_TOKEN": "a-long-secret"}),
        CallOptions(environment={"https_proxy": "http://me:a-long-secret@proxy:3128"}),
    ],
)
def test_no_error_tells_a_secret(options: CallOptions) -> None:
    said = sse({"error": {"message": "not allowed: a-long-secret"}})
    _, error = stream("openai-completions", Recorded(said), options)
    assert str(error) == '{"error":{"message":"not allowed: ***"}}'


def test_no_error_tells_a_secret_of_the_model_entry() -> None:
    own = {"Authorization": "Bearer a-long-secret", "X-Team-Token": "another-secret"}
    said = sse({"error": {"message": "not allowed: a-long-secret another-secret"}})
    _, error = stream("openai-completions", Recorded(said), headers=own)
    assert str(error) == '{"error":{"message":"not allowed: *** ***"}}'


@pytest.mark.parametrize("name", apis.APIS)
def test_every_api_in_the_table_can_be_loaded(name: str) -> None:
    assert isinstance(apis.load_api(name), Api)


def test_an_api_that_is_not_in_the_table_is_an_error() -> None:
    with pytest.raises(ModelError, match='The API "zork" is not supported'):
        apis.load_api("zork")


def test_a_plain_key_needs_no_credential_lookup() -> None:
    assert apis.credential_finder("openai-completions") is None


@pytest.mark.parametrize("name", apis.CREDENTIALS)
def test_credentials_in_the_environment_need_no_library(name: str) -> None:
    find = apis.credential_finder(name)
    ready = {"AWS_BEARER_TOKEN_BEDROCK": "a", "GOOGLE_CLOUD_API_KEY": "b"}
    assert find is not None and find(ready) == ready


def test_every_model_of_the_catalogue_can_be_asked_at_every_level() -> None:
    catalog = Catalog(environment={})
    environment = {"AZURE_OPENAI_RESOURCE_NAME": "res", "GOOGLE_CLOUD_API_KEY": "k"}
    for model in (model for provider in catalog.providers for model in catalog.models_of(provider)):
        for level in supported_levels(model):
            context = ModelContext("Be nice.", for_model([user("hi")], model), [BASH])
            apis.load_api(model.api).request(model, context, CallOptions("k", level, environment=environment))

"""Requests beside those of pi 0.87.1, for each provider and family of models.

tests/golden/requests/pi-0.87.1.jsonl contains facts about pi's requests, recorded by scripts/pi_requests/record.mjs.
The functions below say where tau differs on purpose.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.loop_kit import user
from support.recorded_streams import Offered
from tau.llm import apis
from tau.llm.types import CallOptions, HttpApi, ModelContext
from tau.records.base import convert, parse, to_builtins
from tau.records.models import Model

RECORDED = Path(__file__).parent.parent / "golden" / "requests" / "pi-0.87.1.jsonl"
FAMILIES = [parse(line) for line in RECORDED.read_bytes().splitlines()]
SESSION = "0198c0de-0000-7000-8000-000000000001"
ENVIRONMENT = {
    "AWS_REGION": "us-east-1",
    "AZURE_OPENAI_BASE_URL": "https://lab.openai.azure.com",
    "GOOGLE_CLOUD_API_KEY": "k",
}
LS = Offered("ls", "list", {"type": "object", "properties": {"path": {"type": "string"}}, "required": []})
HEADERS = re.compile(r"anthropic-beta|x-session-.*|session[_-]id|x-client-request-id|x-affinity")
LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxTokens", "maxOutputTokens")
# What tau does not do: system messages and tools that change within a conversation, and models of last resort.
OTHER_BETAS = re.compile(r"(?:mid-conversation|thinking-binding|server-side-fallback)[\w-]*,?")
# These hosts of open models get a role that every chat template knows, and no field that only OpenAI has.
SYSTEM_ROLE = ("groq", "huggingface")
SNAKE = {
    "maxTokens": "max_tokens",
    "promptCacheKey": "prompt_cache_key",
    "promptMode": "prompt_mode",
    "reasoningEffort": "reasoning_effort",
}


def markers(value: Any, path: str = "") -> Iterator[str]:
    """The places of cache markers, counted from the end of a list, and how long they hold."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in ("cache_control", "cachePoint"):
                yield f"{path} {inner.get('ttl', '5m')}"
            else:
                yield from markers(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from markers(inner, f"{path}[{at - len(value)}]")


def facts_of_tau(model: Model, level: Any, retention: str) -> dict[str, Any]:
    api = apis.load_api(model.api)
    assert isinstance(api, HttpApi)
    context = ModelContext("Be nice.", [user("hi")], [LS])
    environment = {**ENVIRONMENT, **({"PI_CACHE_RETENTION": "long"} if retention == "long" else {})}
    request = api.request(model, context, CallOptions("key", level, session_id=SESSION, environment=environment))
    body = to_builtins(request.body)
    tools = body.get("tools")
    tool = tools[0] if tools and "functionDeclarations" not in tools[0] else None
    first = (body.get("messages") or body.get("input") or [{}])[0]
    shape: dict[str, Any] = {}
    if "system" not in body and first.get("role") and "contents" not in body and model.api != BEDROCK:
        shape["role"] = first["role"]
    if tool is not None:
        shape["tool"] = sorted(name for name in tool.get("function", tool) if name != "cache_control")
    conversation = ("model", "messages", "input", "contents", "system", "systemInstruction", "tools", "toolConfig")
    return {
        "url": request.url,
        "headers": {name: value for name, value in request.headers.items() if HEADERS.fullmatch(name)},
        "fields": {name: value for name, value in body.items() if name not in conversation},
        "shape": shape,
        "cache": sorted(markers(body)),
    }


BEDROCK = "bedrock-converse-stream"


def facts_of_pi(model: Model, recorded: dict[str, Any]) -> dict[str, Any]:
    """What pi sends, in the form in which it leaves the process, without what tau does not do."""
    fields = {name: value for name, value in recorded["fields"].items() if name not in ("betas", "fallbacks")}
    if model.api == "mistral-conversations":
        fields = {SNAKE.get(name, name): value for name, value in fields.items()}
    compat = model.compat or {}
    if compat.get("supportsMidConvoEffort"):
        fields["thinking"].pop("block_binding")
        levels = model.thinking_level_map or {}
        default = {"minimal": "low"}.get(recorded["level"], recorded["level"])
        fields["output_config"] = {"effort": levels.get(recorded["level"], default)}
    cache = recorded["cache"]
    if model.api == "anthropic-messages":
        # A placeholder follows the tools, and a system message with the effort the conversation.
        moved = {"tools[-2]": "tools[-1]", "messages[-2]": "messages[-1]"}
        cache = [re.sub(r"\w+\[-2\]", lambda found: moved[found[0]], place) for place in cache]
    shape = dict(recorded["shape"])
    if model.provider in SYSTEM_ROLE:
        shape["role"] = "system"
    if model.api == "openai-responses":
        shape["tool"] = sorted({*shape["tool"], "strict"})  # OpenAI's types require it
    if model.provider == "huggingface":
        fields.pop("store", None)
    if model.id.startswith("gemini-2.5-pro") and recorded["level"] == "off":
        fields["generationConfig"]["thinkingConfig"] = {"thinkingBudget": 128}
    headers = dict(recorded.get("headers", {}))
    if betas := OTHER_BETAS.sub("", headers.pop("anthropic-beta", "")).strip(","):
        headers["anthropic-beta"] = betas
    return {
        "url": recorded.get("url", "").removesuffix("?beta=true").replace("%7B", "{").replace("%7D", "}"),
        "headers": headers,
        "fields": fields,
        "shape": shape,
        "cache": cache,
    }


def cases() -> Iterator[Any]:
    for family in FAMILIES:
        model = convert({"cost": {"cacheRead": 1}, **family["model"]}, Model)
        for recorded in family["requests"]:
            name = f"{model.provider}-{model.id}-{recorded['level']}-{recorded['retention']}"
            yield pytest.param(model, recorded, id=name.replace("/", "_"))


@pytest.mark.parametrize(("model", "recorded"), list(cases()))
def test_a_request_has_the_fields_and_headers_of_pi(model: Model, recorded: dict[str, Any]) -> None:
    found = facts_of_tau(model, recorded["level"], recorded["retention"])
    wanted = facts_of_pi(model, recorded)
    for fields in (found["fields"], wanted["fields"]):
        drop_close_limits(fields, model)
    if not wanted["url"]:  # pi's library for Bedrock hides the address
        found["url"] = ""
    assert found == wanted


def drop_close_limits(fields: dict[str, Any], model: Model) -> None:
    """A limit that is reduced to what the window has left depends on an estimate of the conversation."""
    for holder in (fields, fields.get("generationConfig", {}), fields.get("inferenceConfig", {})):
        for name in LIMITS:
            if name in holder and model.context_window - holder[name] < 4096 + 200:
                del holder[name]
    for name in ("generationConfig", "inferenceConfig"):
        if fields.get(name) == {}:
            del fields[name]

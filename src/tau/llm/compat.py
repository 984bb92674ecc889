"""Differences between servers of the openai-completions API.

Many servers implement this API, each slightly differently. The table below has the known ones, found by provider name
or URL; fields under `compat` in the model's configuration override it one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from tau.core.models.thinking import level_value
from tau.errors import ModelError
from tau.llm.anthropic import BUDGETS
from tau.llm.types import CallOptions
from tau.records.base import BadRecord, Record, Value, decode, encode
from tau.records.models import Model

ThinkingFormat = Literal[
    "openai",
    "openrouter",
    "ant-ling",
    "deepseek",
    "together",
    "baseten",
    "zai",
    "qwen",
    "qwen-chat-template",
    "chat-template",
    "string-thinking",
    "mistral",
]


class Compat(Record):
    supports_store: bool = True
    supports_developer_role: bool = True
    supports_reasoning_effort: bool = True
    supports_usage_in_streaming: bool = True
    supports_strict_mode: bool = False
    supports_finish_reason: bool = True
    supports_long_cache_retention: bool = True
    max_tokens_field: Literal["max_completion_tokens", "max_tokens"] = "max_completion_tokens"
    requires_tool_result_name: bool = False
    requires_assistant_after_tool_result: bool = False
    requires_thinking_as_text: bool = False
    requires_reasoning_content_on_assistant_messages: bool = False
    thinking_format: ThinkingFormat = "openai"
    thinking_token_budget_field: str | None = None
    reasoning_effort_map: dict[str, str] = {}
    chat_template_kwargs: dict[str, Any] = {}
    chat_template_args: dict[str, Any] = {}
    zai_tool_stream: bool = False
    cache_control_format: Literal["anthropic"] | None = None
    send_session_affinity_headers: bool = False
    session_affinity_format: str = "openai"
    open_router_routing: dict[str, Any] = {}
    vercel_gateway_routing: dict[str, Any] = {}


class ServerQuirks(Value):
    """A known server: its provider names, parts of its URLs, and its differences."""

    providers: tuple[str, ...]
    addresses: tuple[str, ...]
    differs: Mapping[str, Any]


# No `store` and no role `developer`.
_PLAIN = {"supportsStore": False, "supportsDeveloperRole": False}
_OLDER = {**_PLAIN, "maxTokensField": "max_tokens"}
_NO_LONG_CACHE = {"supportsLongCacheRetention": False}
_MISTRAL = {
    **_OLDER,
    "requiresToolResultName": True,
    "supportsUsageInStreaming": False,
    "supportsStrictMode": True,
    "thinkingFormat": "mistral",
}
SERVERS = (
    ServerQuirks(("cerebras",), ("cerebras.ai",), _PLAIN),
    ServerQuirks(("xai",), ("api.x.ai",), {**_PLAIN, "supportsReasoningEffort": False}),
    ServerQuirks(("chutes",), ("chutes.ai",), _OLDER),
    ServerQuirks(
        ("deepseek",),
        ("deepseek.com",),
        {**_OLDER, "thinkingFormat": "deepseek", "requiresReasoningContentOnAssistantMessages": True},
    ),
    ServerQuirks(
        ("zai", "zai-coding-cn"),
        ("api.z.ai", "bigmodel.cn"),
        {**_OLDER, "supportsReasoningEffort": False, "thinkingFormat": "zai"},
    ),
    ServerQuirks(("opencode", "opencode-go"), ("opencode.ai",), _PLAIN),
    ServerQuirks(
        ("openrouter",),
        ("openrouter.ai",),
        {
            "supportsDeveloperRole": False,
            "thinkingFormat": "openrouter",
            "sendSessionAffinityHeaders": True,
            "sessionAffinityFormat": "openrouter",
        },
    ),
    ServerQuirks(
        ("together",),
        ("together.ai", "together.xyz"),
        {**_OLDER, **_NO_LONG_CACHE, "supportsReasoningEffort": False, "thinkingFormat": "together"},
    ),
    ServerQuirks(
        ("moonshotai", "moonshotai-cn", "kimi-coding"),
        ("moonshot.ai", "moonshot.cn", "kimi.com"),
        {**_OLDER, "supportsReasoningEffort": False},
    ),
    ServerQuirks(("mistral",), ("mistral.ai",), _MISTRAL),
    ServerQuirks(("nvidia",), ("nvidia.com",), {**_OLDER, **_NO_LONG_CACHE, "supportsReasoningEffort": False}),
    ServerQuirks(
        ("ant-ling",),
        ("api.ant-ling.com",),
        {**_OLDER, **_NO_LONG_CACHE, "supportsReasoningEffort": False, "thinkingFormat": "ant-ling"},
    ),
    ServerQuirks(("huggingface",), ("huggingface.co",), _PLAIN),
    ServerQuirks(("cloudflare-workers-ai",), ("api.cloudflare.com",), {**_PLAIN, **_NO_LONG_CACHE}),
    ServerQuirks(
        ("cloudflare-ai-gateway",),
        ("gateway.ai.cloudflare.com",),
        {**_OLDER, **_NO_LONG_CACHE, "supportsReasoningEffort": False},
    ),
    ServerQuirks(("groq",), ("groq.com",), {"supportsDeveloperRole": False}),
    # Chat templates of open models have no role `developer`.
    ServerQuirks(("ollama", "llama.cpp", "llamacpp", "lmstudio", "lm-studio", "vllm", "sglang", "local"), (), _OLDER),
)


def compat(model: Model) -> Compat:
    differs: dict[str, Any] = {}
    for server in SERVERS:
        if model.provider in server.providers or any(part in model.base_url for part in server.addresses):
            differs.update(server.differs)
    if model.provider == "groq" and model.id == "qwen/qwen3-32b":
        # It can only switch thinking on or off.
        differs["reasoningEffortMap"] = dict.fromkeys(("minimal", "low", "medium", "high", "xhigh", "max"), "default")
    if differs.get("thinkingFormat") == "openrouter" and model.id.startswith(("anthropic/", "openai/")):
        differs["supportsDeveloperRole"] = True
    if model.provider == "openrouter" and model.id.startswith("anthropic/"):
        differs["cacheControlFormat"] = "anthropic"
    try:
        return decode(Compat, encode({**differs, **(model.compat or {})}))
    except BadRecord as error:
        raise ModelError(f"compat of {model.provider}/{model.id}: {error}", transient=False) from None


class ThinkingChoice(Value):
    """The chosen thinking level. `effort` is the server's name for it, None if it has none."""

    on: bool
    effort: str | None
    model: Model
    options: CallOptions
    can: Compat


EFFORTS = {"minimal": "minimal", "low": "low", "medium": "medium", "high": "high", "xhigh": "high", "max": "high"}


def thinking(model: Model, options: CallOptions, can: Compat) -> dict[str, Any]:
    """The fields for the thinking level, in the format of the server."""
    if not model.reasoning:
        return {}
    level = options.thinking
    effort = level_value(level, model, {**EFFORTS, **can.reasoning_effort_map})
    choice = ThinkingChoice(level != "off", effort, model, options, can)
    fields = FORMATS[can.thinking_format](choice)
    if choice.on and can.thinking_token_budget_field:
        fields[can.thinking_token_budget_field] = options.budgets.get(level, BUDGETS[level])
    return fields


def _effort(choice: ThinkingChoice) -> dict[str, Any]:
    return {"reasoning_effort": choice.effort} if choice.effort and choice.can.supports_reasoning_effort else {}


def _with_effort(parameters: dict[str, Any], choice: ThinkingChoice) -> dict[str, Any]:
    return {**parameters, **_effort(choice)} if choice.on else parameters


def _openrouter(choice: ThinkingChoice) -> dict[str, Any]:
    effort = choice.effort
    if not choice.on and "off" not in (choice.model.thinking_level_map or {}):
        effort = "none"
    return {"reasoning": {"effort": effort}} if effort else {}


def _ant_ling(choice: ThinkingChoice) -> dict[str, Any]:
    mapped = (choice.model.thinking_level_map or {}).get(choice.options.thinking)
    return {"reasoning": {"effort": mapped}} if mapped else {}


def _deepseek(choice: ThinkingChoice) -> dict[str, Any]:
    return _with_effort({"thinking": {"type": "enabled" if choice.on else "disabled"}}, choice)


def _together(choice: ThinkingChoice) -> dict[str, Any]:
    return _with_effort({"reasoning": {"enabled": choice.on}}, choice)


def _baseten(choice: ThinkingChoice) -> dict[str, Any]:
    return {"chat_template_args": _fill_template_values(choice.can.chat_template_args, choice), **_effort(choice)}


def _zai(choice: ThinkingChoice) -> dict[str, Any]:
    thinking = {"type": "enabled", "clear_thinking": False} if choice.on else {"type": "disabled"}
    return _with_effort({"thinking": thinking}, choice)


def _qwen(choice: ThinkingChoice) -> dict[str, Any]:
    return _with_effort({"enable_thinking": choice.on}, choice)


def _qwen_template(choice: ThinkingChoice) -> dict[str, Any]:
    return {"chat_template_kwargs": {"enable_thinking": choice.on, "preserve_thinking": True}}


def _template(choice: ThinkingChoice) -> dict[str, Any]:
    return {"chat_template_kwargs": _fill_template_values(choice.can.chat_template_kwargs, choice)}


def _string(choice: ThinkingChoice) -> dict[str, Any]:
    return {"thinking": choice.effort or choice.options.thinking}


def _mistral(choice: ThinkingChoice) -> dict[str, Any]:
    """Newer models take an effort, which is in their catalogue entries; older ones only a mode."""
    if choice.model.thinking_level_map:
        return _effort(choice)
    return {"prompt_mode": "reasoning"} if choice.on else {}


def _fill_template_values(values: Mapping[str, Any], choice: ThinkingChoice) -> dict[str, Any]:
    """`values` with {"$var": "thinking.…"} replaced by its value."""
    level, budgets = choice.options.thinking, choice.options.budgets
    known = {
        "thinking.enabled": choice.on,
        "thinking.effort": choice.effort,
        "thinking.budget": budgets.get(level, BUDGETS.get(level)),
    }
    filled: dict[str, Any] = {}
    for name, value in values.items():
        if not isinstance(value, dict) or "$var" not in value:
            filled[name] = value
        elif (choice.on or value.get("omitWhenOff") is not True) and known.get(value["$var"]) is not None:
            filled[name] = known[value["$var"]]
    return filled


FORMATS: dict[ThinkingFormat, Callable[[ThinkingChoice], dict[str, Any]]] = {
    "openai": _effort,
    "openrouter": _openrouter,
    "ant-ling": _ant_ling,
    "deepseek": _deepseek,
    "together": _together,
    "baseten": _baseten,
    "zai": _zai,
    "qwen": _qwen,
    "qwen-chat-template": _qwen_template,
    "chat-template": _template,
    "string-thinking": _string,
    "mistral": _mistral,
}

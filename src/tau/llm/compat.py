"""What a server that speaks openai-completions can do, and what it wants told differently.

Many servers speak this API, each a little in its own way. Known ones are in the
table below, found by the name of the provider or by the address; what the
model's entry says under `compat` wins, field by field.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from tau.core.models.thinking import sent
from tau.errors import ModelError
from tau.llm.anthropic import BUDGETS
from tau.llm.types import Options
from tau.records.base import BadRecord, Record, decode, encode
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
    supports_strict_mode: bool = True
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


class Server(NamedTuple):
    """A known server: providers that are it, parts of addresses where it is, and how it differs."""

    providers: tuple[str, ...]
    addresses: tuple[str, ...]
    differs: Mapping[str, Any]


# Neither `store` nor the role `developer`.
_PLAIN = {"supportsStore": False, "supportsDeveloperRole": False}
_OLDER = {**_PLAIN, "maxTokensField": "max_tokens"}
_MISTRAL = {
    **_OLDER,
    "requiresToolResultName": True,
    "supportsUsageInStreaming": False,
    "supportsStrictMode": False,
    "thinkingFormat": "mistral",
}
SERVERS = (
    Server(("cerebras",), ("cerebras.ai",), _PLAIN),
    Server(("xai",), ("api.x.ai",), {**_PLAIN, "supportsReasoningEffort": False}),
    Server(("chutes",), ("chutes.ai",), _OLDER),
    Server(
        ("deepseek",),
        ("deepseek.com",),
        {**_OLDER, "thinkingFormat": "deepseek", "requiresReasoningContentOnAssistantMessages": True},
    ),
    Server(
        ("zai", "zai-coding-cn"),
        ("api.z.ai", "bigmodel.cn"),
        {**_PLAIN, "supportsReasoningEffort": False, "thinkingFormat": "zai"},
    ),
    Server(("opencode", "opencode-go"), ("opencode.ai",), _PLAIN),
    Server(
        ("openrouter",),
        ("openrouter.ai",),
        {
            "supportsDeveloperRole": False,
            "thinkingFormat": "openrouter",
            "sendSessionAffinityHeaders": True,
            "sessionAffinityFormat": "openrouter",
        },
    ),
    Server(("together",), ("together.ai", "together.xyz"), {**_OLDER, "thinkingFormat": "together"}),
    Server(("moonshotai", "moonshotai-cn", "kimi-coding"), ("moonshot.ai", "moonshot.cn", "kimi.com"), _OLDER),
    Server(("mistral",), ("mistral.ai",), _MISTRAL),
    Server(("nvidia",), ("nvidia.com",), _OLDER),
    Server(("huggingface",), ("huggingface.co",), _PLAIN),
    Server(("cloudflare-workers-ai",), ("api.cloudflare.com",), _OLDER),
    Server(("groq",), ("groq.com",), {"supportsDeveloperRole": False}),
    # Templates of open models know no `developer`.
    Server(("ollama", "llama.cpp", "llamacpp", "lmstudio", "lm-studio", "vllm", "sglang", "local"), (), _OLDER),
)


def compat(model: Model) -> Compat:
    differs: dict[str, Any] = {}
    for server in SERVERS:
        if model.provider in server.providers or any(part in model.base_url for part in server.addresses):
            differs.update(server.differs)
    if model.provider == "groq" and model.id == "qwen/qwen3-32b":
        # It thinks or it does not; there is no more or less.
        differs["reasoningEffortMap"] = dict.fromkeys(("minimal", "low", "medium", "high", "xhigh", "max"), "default")
    if model.provider == "openrouter" and model.id.startswith("anthropic/"):
        differs["cacheControlFormat"] = "anthropic"
    try:
        return decode(Compat, encode({**differs, **(model.compat or {})}))
    except BadRecord as error:
        raise ModelError(f"compat of {model.provider}/{model.id}: {error}", transient=False) from None


# How hard to think.


class Wish(NamedTuple):
    """`effort` is the server's word for the level, None if it has none."""

    on: bool
    effort: str | None
    model: Model
    options: Options
    can: Compat


EFFORTS = {"minimal": "minimal", "low": "low", "medium": "medium", "high": "high", "xhigh": "high", "max": "high"}


def thinking(model: Model, options: Options, can: Compat) -> dict[str, Any]:
    """The fields that say how hard to think, in the manner of the server."""
    if not model.reasoning:
        return {}
    level = options.thinking
    effort = sent(level, model, {**EFFORTS, **can.reasoning_effort_map})
    wish = Wish(level != "off", effort, model, options, can)
    fields = FORMATS[can.thinking_format](wish)
    if wish.on and can.thinking_token_budget_field:
        fields[can.thinking_token_budget_field] = options.budgets.get(level, BUDGETS[level])
    return fields


def _effort(wish: Wish) -> dict[str, Any]:
    return {"reasoning_effort": wish.effort} if wish.effort and wish.can.supports_reasoning_effort else {}


def _switched(switch: dict[str, Any], wish: Wish) -> dict[str, Any]:
    return {**switch, **_effort(wish)} if wish.on else switch


def _openrouter(wish: Wish) -> dict[str, Any]:
    effort = wish.effort
    if not wish.on and "off" not in (wish.model.thinking_level_map or {}):
        effort = "none"
    return {"reasoning": {"effort": effort}} if effort else {}


def _ant_ling(wish: Wish) -> dict[str, Any]:
    mapped = (wish.model.thinking_level_map or {}).get(wish.options.thinking)
    return {"reasoning": {"effort": mapped}} if mapped else {}


def _deepseek(wish: Wish) -> dict[str, Any]:
    return _switched({"thinking": {"type": "enabled" if wish.on else "disabled"}}, wish)


def _together(wish: Wish) -> dict[str, Any]:
    return _switched({"reasoning": {"enabled": wish.on}}, wish)


def _baseten(wish: Wish) -> dict[str, Any]:
    return {"chat_template_args": _filled(wish.can.chat_template_args, wish), **_effort(wish)}


def _zai(wish: Wish) -> dict[str, Any]:
    return {"thinking": {"type": "enabled" if wish.on else "disabled"}}


def _qwen(wish: Wish) -> dict[str, Any]:
    return {"enable_thinking": wish.on}


def _qwen_template(wish: Wish) -> dict[str, Any]:
    return {"chat_template_kwargs": {"enable_thinking": wish.on, "preserve_thinking": True}}


def _template(wish: Wish) -> dict[str, Any]:
    return {"chat_template_kwargs": _filled(wish.can.chat_template_kwargs, wish)}


def _string(wish: Wish) -> dict[str, Any]:
    return {"thinking": wish.effort or wish.options.thinking}


def _mistral(wish: Wish) -> dict[str, Any]:
    """Newer models take an effort, which their entries name; older ones only a mode."""
    if wish.model.thinking_level_map:
        return _effort(wish)
    return {"prompt_mode": "reasoning"} if wish.on else {}


def _filled(values: Mapping[str, Any], wish: Wish) -> dict[str, Any]:
    """`values` with {"$var": "thinking.…"} replaced by what it stands for."""
    level, budgets = wish.options.thinking, wish.options.budgets
    known = {
        "thinking.enabled": wish.on,
        "thinking.effort": wish.effort,
        "thinking.budget": budgets.get(level, BUDGETS.get(level)),
    }
    filled: dict[str, Any] = {}
    for name, value in values.items():
        if not isinstance(value, dict) or "$var" not in value:
            filled[name] = value
        elif (wish.on or value.get("omitWhenOff") is not True) and known.get(value["$var"]) is not None:
            filled[name] = known[value["$var"]]
    return filled


FORMATS: dict[ThinkingFormat, Callable[[Wish], dict[str, Any]]] = {
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

"""The moments extensions can take part in, and how several answers become one.

A fold takes what the next handler will be shown, the result so far and one
handler's answer; it returns both anew, and whether the round is over. A hook that
is a gate counts a handler that fails, or is late, as a refusal: whoever guards
something must not let it pass by breaking.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

Payload = Mapping[str, Any]
Fold = Callable[[Payload, dict[str, Any], Any], tuple[Payload, dict[str, Any], bool]]


class Hook(NamedTuple):
    fold: Fold
    gate: bool = False
    streaming: bool = False  # told without waiting for an answer; only the newest matters


def observe(payload: Payload, result: dict[str, Any], answer: Any) -> tuple[Payload, dict[str, Any], bool]:
    """For hooks that only tell."""
    return payload, result, False


def until(stop: str) -> Fold:
    """The last answer counts, and the first that says `stop` ends the round."""

    def fold(payload: Payload, result: dict[str, Any], answer: Any) -> tuple[Payload, dict[str, Any], bool]:
        if not isinstance(answer, Mapping) or not answer:
            return payload, result, False
        return payload, dict(answer), bool(answer.get(stop))

    return fold


def gate(payload: Payload, result: dict[str, Any], answer: Any) -> tuple[Payload, dict[str, Any], bool]:
    """The first refusal ends the round; arguments that a handler changed are what the next one sees."""
    if not isinstance(answer, Mapping):
        return payload, result, False
    if answer.get("block"):
        return payload, dict(answer), True
    if isinstance(answer.get("input"), Mapping):
        payload = {**payload, "input": dict(answer["input"])}
        result = {**result, "input": payload["input"]}
    return payload, result, False


def patch(*keys: str) -> Fold:
    """What an answer says about `keys` replaces it, for the next handler and in the result."""

    def fold(payload: Payload, result: dict[str, Any], answer: Any) -> tuple[Payload, dict[str, Any], bool]:
        if not isinstance(answer, Mapping):
            return payload, result, False
        said = {key: answer[key] for key in keys if answer.get(key) is not None}
        return {**payload, **said}, {**result, **said}, False

    return fold


def whole(key: str) -> Fold:
    """Any answer replaces `key` altogether."""

    def fold(payload: Payload, result: dict[str, Any], answer: Any) -> tuple[Payload, dict[str, Any], bool]:
        if answer is None:
            return payload, result, False
        return {**payload, key: answer}, {**result, key: answer}, False

    return fold


def gather(*keys: str) -> Fold:
    """Lists of all answers, one after the other."""

    def fold(payload: Payload, result: dict[str, Any], answer: Any) -> tuple[Payload, dict[str, Any], bool]:
        if isinstance(answer, Mapping):
            more = {key: [*result.get(key, ()), *answer[key]] for key in keys if isinstance(answer.get(key), list)}
            result = {**result, **more}
        return payload, result, False

    return fold


def first(*keys: str) -> Fold:
    """The first answer that says one of `keys` is the result."""

    def fold(payload: Payload, result: dict[str, Any], answer: Any) -> tuple[Payload, dict[str, Any], bool]:
        if isinstance(answer, Mapping) and any(answer.get(key) is not None for key in keys):
            return payload, dict(answer), True
        return payload, result, False

    return fold


def decide(payload: Payload, result: dict[str, Any], answer: Any) -> tuple[Payload, dict[str, Any], bool]:
    """`project_trust`: the first yes or no; whoever is undecided leaves it to the next."""
    if isinstance(answer, Mapping) and answer.get("trusted") in ("yes", "no"):
        return payload, dict(answer), True
    return payload, result, False


def rewrite(payload: Payload, result: dict[str, Any], answer: Any) -> tuple[Payload, dict[str, Any], bool]:
    """`input`: text and images may be changed on the way, or the whole be taken over."""
    if not isinstance(answer, Mapping):
        return payload, result, False
    if answer.get("action") == "handled":
        return payload, {"action": "handled"}, True
    if answer.get("action") == "transform" and isinstance(answer.get("text"), str):
        said = {key: answer[key] for key in ("text", "images") if answer.get(key) is not None}
        return {**payload, **said}, {**result, **said, "action": "transform"}, False
    return payload, result, False


def introduce(payload: Payload, result: dict[str, Any], answer: Any) -> tuple[Payload, dict[str, Any], bool]:
    """`before_agent_start`: messages are collected, the system prompt goes from hand to hand."""
    if not isinstance(answer, Mapping):
        return payload, result, False
    if isinstance(answer.get("message"), Mapping):
        result = {**result, "messages": [*result.get("messages", ()), answer["message"]]}
    if isinstance(answer.get("systemPrompt"), str):
        payload = {**payload, "systemPrompt": answer["systemPrompt"]}
        result = {**result, "systemPrompt": answer["systemPrompt"]}
    return payload, result, False


HOOKS: dict[str, Hook] = {
    "session_start": Hook(observe),
    "session_shutdown": Hook(observe),
    "session_before_switch": Hook(until("cancel")),
    "session_switch": Hook(observe),
    "session_before_fork": Hook(until("cancel")),
    "session_fork": Hook(observe),
    "session_before_compact": Hook(until("cancel")),
    "session_compact": Hook(observe),
    "session_compact_failed": Hook(observe),
    "session_before_tree": Hook(until("cancel")),
    "session_tree": Hook(observe),
    "session_info_changed": Hook(observe),
    "resources_discover": Hook(gather("skillPaths", "promptPaths", "themePaths")),
    "project_trust": Hook(decide),
    "input": Hook(rewrite),
    "before_agent_start": Hook(introduce),
    "agent_start": Hook(observe),
    "agent_end": Hook(observe),
    "agent_settled": Hook(observe),
    "turn_start": Hook(observe),
    "turn_end": Hook(observe),
    "message_start": Hook(observe),
    "message_update": Hook(observe, streaming=True),
    "message_end": Hook(observe),
    "tool_execution_start": Hook(observe),
    "tool_execution_update": Hook(observe, streaming=True),
    "tool_execution_end": Hook(observe),
    "context": Hook(patch("messages")),
    "before_provider_headers": Hook(patch("headers")),
    "before_provider_request": Hook(whole("payload")),
    "after_provider_response": Hook(observe),
    "model_select": Hook(observe),
    "thinking_level_select": Hook(observe),
    "tool_call": Hook(gate, gate=True),
    "tool_result": Hook(patch("content", "details", "isError")),
    "user_bash": Hook(first("result"), gate=True),
    "ui_prompt_start": Hook(observe),
    "ui_prompt_end": Hook(observe),
}

"""The hooks of extensions, and how the answers of several handlers are combined.

A fold receives the payload for the next handler, the result so far and the answer of one handler. It returns the new
payload, the new result, and True if no more handlers are to be called. A hook that is a gate fails closed: a handler
that raises or times out counts as a refusal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Payload = Mapping[str, Any]
Fold = Callable[[Payload, dict[str, Any], Any], tuple[Payload, dict[str, Any], bool]]


class Hook:
    """A plain class: to create a NamedTuple takes ten times as long."""

    def __init__(self, fold: Fold, gate: bool = False, streaming: bool = False) -> None:
        self.fold = fold
        self.gate = gate
        self.streaming = streaming  # sent without waiting for an answer; only the newest event matters


def observe(payload: Payload, result: dict[str, Any], answer: Any) -> tuple[Payload, dict[str, Any], bool]:
    """Ignore answers: the hook only notifies."""
    return payload, result, False


def last_until(stop: str) -> Fold:
    """Use the last answer; the first one with `stop` set ends the calls."""

    def fold(payload: Payload, result: dict[str, Any], answer: Any) -> tuple[Payload, dict[str, Any], bool]:
        if not isinstance(answer, Mapping) or not answer:
            return payload, result, False
        return payload, dict(answer), bool(answer.get(stop))

    return fold


def gate(payload: Payload, result: dict[str, Any], answer: Any) -> tuple[Payload, dict[str, Any], bool]:
    """The first refusal ends the calls; the next handler receives arguments as changed by the previous ones."""
    if not isinstance(answer, Mapping):
        return payload, result, False
    if answer.get("block"):
        return payload, dict(answer), True
    if isinstance(answer.get("input"), Mapping):
        payload = {**payload, "input": dict(answer["input"])}
        result = {**result, "input": payload["input"]}
    return payload, result, False


def patch(*keys: str) -> Fold:
    """Replace `keys` by their values in an answer, for the next handler and in the result."""

    def fold(payload: Payload, result: dict[str, Any], answer: Any) -> tuple[Payload, dict[str, Any], bool]:
        if not isinstance(answer, Mapping):
            return payload, result, False
        changes = {key: answer[key] for key in keys if answer.get(key) is not None}
        return {**payload, **changes}, {**result, **changes}, False

    return fold


def replace_key(key: str) -> Fold:
    """Replace `key` by the whole answer."""

    def fold(payload: Payload, result: dict[str, Any], answer: Any) -> tuple[Payload, dict[str, Any], bool]:
        if answer is None:
            return payload, result, False
        return {**payload, key: answer}, {**result, key: answer}, False

    return fold


def concatenate(*keys: str) -> Fold:
    """Concatenate the lists of all answers."""

    def fold(payload: Payload, result: dict[str, Any], answer: Any) -> tuple[Payload, dict[str, Any], bool]:
        if isinstance(answer, Mapping):
            more = {key: [*result.get(key, ()), *answer[key]] for key in keys if isinstance(answer.get(key), list)}
            result = {**result, **more}
        return payload, result, False

    return fold


def first(*keys: str) -> Fold:
    """Use the first answer that has one of `keys`."""

    def fold(payload: Payload, result: dict[str, Any], answer: Any) -> tuple[Payload, dict[str, Any], bool]:
        if isinstance(answer, Mapping) and any(answer.get(key) is not None for key in keys):
            return payload, dict(answer), True
        return payload, result, False

    return fold


def decide_trust(payload: Payload, result: dict[str, Any], answer: Any) -> tuple[Payload, dict[str, Any], bool]:
    """`project_trust`: use the first yes or no; an undecided handler leaves the decision to the next."""
    if isinstance(answer, Mapping) and answer.get("trusted") in ("yes", "no"):
        return payload, dict(answer), True
    return payload, result, False


def transform_input(payload: Payload, result: dict[str, Any], answer: Any) -> tuple[Payload, dict[str, Any], bool]:
    """`input`: handlers may change text and images, or handle the input completely."""
    if not isinstance(answer, Mapping):
        return payload, result, False
    if answer.get("action") == "handled":
        return payload, {"action": "handled"}, True
    if answer.get("action") == "transform" and isinstance(answer.get("text"), str):
        changes = {key: answer[key] for key in ("text", "images") if answer.get(key) is not None}
        return {**payload, **changes}, {**result, **changes, "action": "transform"}, False
    return payload, result, False


def start_agent(payload: Payload, result: dict[str, Any], answer: Any) -> tuple[Payload, dict[str, Any], bool]:
    """`before_agent_start`: messages are collected; each handler receives the system prompt of the previous one."""
    if not isinstance(answer, Mapping):
        return payload, result, False
    if isinstance(answer.get("message"), Mapping):
        result = {**result, "messages": [*result.get("messages", ()), answer["message"]]}
    if isinstance(answer.get("systemPrompt"), str):
        payload = {**payload, "systemPrompt": answer["systemPrompt"]}
        result = {**result, "systemPrompt": answer["systemPrompt"]}
    if isinstance(answer.get("systemPromptOptions"), Mapping):
        payload = {**payload, "systemPromptOptions": answer["systemPromptOptions"]}
        result = {**result, "systemPromptOptions": answer["systemPromptOptions"]}
    return payload, result, False


HOOKS: dict[str, Hook] = {
    "session_start": Hook(observe),
    "session_shutdown": Hook(observe),
    "session_before_switch": Hook(last_until("cancel")),
    "session_switch": Hook(observe),
    "session_before_fork": Hook(last_until("cancel")),
    "session_fork": Hook(observe),
    "session_before_compact": Hook(last_until("cancel")),
    "session_compact": Hook(observe),
    "session_compact_failed": Hook(observe),
    "session_before_tree": Hook(last_until("cancel")),
    "session_tree": Hook(observe),
    "session_info_changed": Hook(observe),
    "resources_discover": Hook(concatenate("skillPaths", "promptPaths", "themePaths")),
    "project_trust": Hook(decide_trust),
    "input": Hook(transform_input),
    "before_agent_start": Hook(start_agent),
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
    "before_provider_request": Hook(replace_key("payload")),
    "after_provider_response": Hook(observe),
    "model_select": Hook(observe),
    "thinking_level_select": Hook(observe),
    "tool_call": Hook(gate, gate=True),
    "tool_result": Hook(patch("content", "details", "isError")),
    "user_bash": Hook(first("result"), gate=True),
    "ui_prompt_start": Hook(observe),
    "ui_prompt_end": Hook(observe),
}

"""Answers of extensions to hooks: what they may contain, and their conversion.

`check_*` raise ExtensionFailure for an invalid answer; fields that a hook does not know are ignored. Hooks that can
refuse are stricter: an answer without any field that they know is invalid, because it may be a refusal with a mistake
in it. `read_*` convert a part of an answer that has been checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, get_args

from tau.errors import ExtensionFailure
from tau.records.base import (
    MAX_RECEIVED_NESTING,
    UNSET,
    BadRecord,
    Record,
    UnsetType,
    attach_source,
    decode,
    encode,
)
from tau.records.lines import read_message
from tau.records.messages import AnyMessage, Custom, Image, StoredMessage, Text, Usage
from tau.records.replies import BashResult

ROLES = {str(kind.__struct_config__.tag) for kind in get_args(AnyMessage)}
Content = str | list[Text | Image]


class SummaryGiven(Record):
    summary: str
    details: Any = UNSET
    usage: Usage | UnsetType = UNSET


class CompactionGiven(Record):
    summary: str
    first_kept_entry_id: str
    tokens_before: int | UnsetType = UNSET
    details: Any = UNSET
    usage: Usage | UnsetType = UNSET


# Checks.


def _convert(kind: Any, value: Any, place: str) -> Any:
    try:
        return decode(kind, encode(value), MAX_RECEIVED_NESTING)
    except (BadRecord, TypeError) as error:
        raise ExtensionFailure(f"{place}: {error}") from None


def _check_field(answer: Any, name: str, kind: Any) -> None:
    if isinstance(answer, Mapping) and answer.get(name) is not None:
        _convert(kind, answer[name], name)


def check_input(answer: Any) -> None:
    _check_field(answer, "images", list[Image])


def check_start(answer: Any) -> None:
    if isinstance(answer, Mapping) and answer.get("message") is not None:
        read_custom(answer["message"], 0)
    _check_field(answer, "systemPrompt", str)


def check_context(answer: Any) -> None:
    if not isinstance(answer, Mapping) or answer.get("messages") is None:
        return
    if not isinstance(answer["messages"], list):
        raise ExtensionFailure("messages: expected a list")
    for at, message in enumerate(answer["messages"]):
        read_one_message(message, f"messages[{at}]")


def check_headers(answer: Any) -> None:
    _check_field(answer, "headers", dict[str, str | None])


def check_body(answer: Any) -> None:
    _convert(dict[str, Any], answer, "payload")


def check_tool_call(answer: Any) -> None:
    """An empty dict is no answer. A reason without "block" is refused: it is meant to block."""
    _check_gate("tool_call", answer, ("block", "input"), '"block", "reason", "input"')
    if answer.get("input") is not None and not isinstance(answer["input"], Mapping):
        raise ExtensionFailure(f"tool_call: input: expected a dict but got {type(answer['input']).__name__}")


def _check_gate(hook: str, answer: Any, required: tuple[str, ...], expected: str) -> None:
    """Check that an answer is a dict, and empty or with one of the `required` fields."""
    if isinstance(answer, Mapping) and (not answer or any(name in answer for name in required)):
        return
    if isinstance(answer, Mapping):
        got = "one with " + ", ".join(f'"{name}"' for name in answer)
    else:
        got = repr(answer) if isinstance(answer, bool) else type(answer).__name__
    raise ExtensionFailure(f"{hook}: expected None or a dict with {expected}, but got {got}")


def check_result(answer: Any) -> None:
    _check_field(answer, "content", Content)
    _check_field(answer, "isError", bool)


def check_compaction(has_entry: Callable[[str], bool]) -> Callable[[Any], None]:
    def check(answer: Any) -> None:
        if isinstance(answer, Mapping) and answer.get("compaction") is not None:
            given = _convert(CompactionGiven, answer["compaction"], "compaction")
            if not has_entry(given.first_kept_entry_id):
                raise ExtensionFailure("compaction.firstKeptEntryId: there is no such entry")

    return check


def check_tree(answer: Any) -> None:
    _check_field(answer, "summary", SummaryGiven)
    _check_field(answer, "customInstructions", str)
    _check_field(answer, "replaceInstructions", bool)
    _check_field(answer, "label", str)


def check_bash(answer: Any) -> None:
    _check_gate("user_bash", answer, ("result", "operations"), '"result"')
    if answer.get("result") is not None:
        read_bash_result(answer["result"])
    elif answer.get("operations") is not None:
        raise ExtensionFailure("operations: not supported here; run the command yourself and answer with its result")


def read_images(given: Any) -> list[Image]:
    return decode(list[Image], encode(given))


def read_blocks(given: Any) -> list[Text | Image]:
    return [Text(given)] if isinstance(given, str) else decode(list[Text | Image], encode(given))


def read_one_message(given: Any, place: str) -> StoredMessage:
    try:
        data = encode(given)
        if isinstance(given, Mapping) and given.get("role") in ROLES:  # read strictly: the author can correct it
            return attach_source(decode(AnyMessage, data), data)  # type: ignore[arg-type]
        return read_message(data)
    except (BadRecord, TypeError) as error:
        raise ExtensionFailure(f"{place}: {error}") from None


def read_custom(given: Any, now: int) -> Custom:
    """Parse a message of an extension: customType, content, display, optional details. Raises ExtensionFailure."""
    if not isinstance(given, Mapping):
        raise ExtensionFailure("message: expected an object")
    message = {"display": True, **given, "role": "custom", "timestamp": now}
    made = _convert(Custom, message, "message")
    assert isinstance(made, Custom)
    return attach_source(made, encode(made))


def read_bash_result(given: Any) -> BashResult:
    blank = {"output": "", "cancelled": False, "truncated": False, "stdout": "", "stderr": "", "signal": None}
    if not isinstance(given, Mapping):
        raise ExtensionFailure("result: expected an object")
    read = {name: value for name, value in given.items() if value is not None}
    shaped = _convert(dict[str, Any], {**blank, "stdout": given.get("output", ""), **read}, "result")
    exit_code, path = shaped.get("exitCode", UNSET), shaped.get("fullOutputPath", UNSET)
    for name, kind in (("output", str), ("exitCode", int), ("cancelled", bool), ("truncated", bool)):
        if name in shaped and not isinstance(shaped[name], kind):
            raise ExtensionFailure(f"result.{name}: expected {kind.__name__}")
    return BashResult(
        output=shaped["output"],
        exit_code=exit_code,
        cancelled=shaped["cancelled"],
        truncated=shaped["truncated"],
        full_output_path=path,
        stdout=str(shaped["stdout"]),
        stderr=str(shaped["stderr"]),
        signal=shaped["signal"],
    )

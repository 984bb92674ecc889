"""Definitions that servers send: tools, prompts, capabilities. Parsed tolerantly, limited, made safe to show.

Names and descriptions are text of a stranger: characters that cannot be seen are escaped, and everything has a limit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from tau.core.checks.schema import schema_problems, without_patterns
from tau.core.text.terminal_text import escape_hidden
from tau.core.text.truncate import byte_length
from tau.mcp.names import tool_names
from tau.records.base import UNSET, BadRecord, Record, UnsetType, encode, to_builtins

MAX_NAME = 256
MAX_URI = 2048
MAX_DESCRIPTION_BYTES = 4 * 1024
MAX_INSTRUCTIONS_BYTES = 2 * 1024
MAX_DEFINITION_BYTES = 256 * 1024
MAX_PROMPT_ARGUMENTS = 64
_MAX_SCHEMA_LEVELS = 64
LIST_SIGNS = re.compile(r"[][,:;(){}'\"]|\.(?=\s|$)")  # between the items of a list in a text

Era = Literal["legacy", "modern"]


class ToolDefinition(Record):
    """A tool as its server describes it. `unchecked`: why its schema cannot be read; arguments are then passed on."""

    name: str
    description: str = ""
    title: str = ""
    input_schema: dict[str, Any] = {}
    output_schema: dict[str, Any] | UnsetType = UNSET
    read_only: bool = False
    unchecked: str = ""


class PromptArgument(Record):
    name: str
    description: str = ""
    required: bool = False


class PromptDefinition(Record):
    name: str
    description: str = ""
    arguments: list[PromptArgument] = []


class Listing(Record):
    """What is known about a server after a connection; kept in the cache. It contains no secret."""

    era: Era
    version: str
    server: str = ""
    server_version: str = ""
    instructions: str = ""
    tools: list[ToolDefinition] = []
    prompts: list[PromptDefinition] = []
    resources: bool = False
    notes: list[str] = []
    listed_at: float = 0.0
    ttl_ms: int = 0


def parse_tools(items: Iterable[Any]) -> tuple[list[ToolDefinition], list[str]]:
    """The usable tools among the items of `tools/list`, and notes about the others."""
    found: dict[str, ToolDefinition] = {}
    notes: list[str] = []
    for item in items:
        name = item.get("name") if isinstance(item, Mapping) else None
        if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
            notes.append("A tool without a usable name was left out.")
        elif name in found:
            notes.append(f"The tool {shown(name)} is listed twice; the first one is used.")
        elif _size(item) > MAX_DEFINITION_BYTES:
            notes.append(f"The definition of {shown(name)} is larger than {MAX_DEFINITION_BYTES >> 10} KiB: left out.")
        else:
            found[name] = tool = _tool(name, item)
            if tool.unchecked:
                notes.append(f"The arguments of {shown(name)} are not checked: {tool.unchecked}")
    return list(found.values()), notes


def _tool(name: str, item: Mapping[str, Any]) -> ToolDefinition:
    annotations = item.get("annotations")
    schema, problem = _schema(item.get("inputSchema"))
    output = item.get("outputSchema")
    return ToolDefinition(
        name=name,
        description=safe_text(item.get("description"), MAX_DESCRIPTION_BYTES),
        title=safe_text(item.get("title"), MAX_NAME),
        input_schema=schema,
        output_schema=without_patterns(output) if isinstance(output, dict) and not _fatal_problem(output) else UNSET,
        read_only=isinstance(annotations, Mapping) and annotations.get("readOnlyHint") is True,
        unchecked=problem,
    )


def _schema(given: Any) -> tuple[dict[str, Any], str]:
    """The schema for the model, and why arguments cannot be checked against it."""
    if not isinstance(given, dict):
        return {"type": "object", "properties": {}}, "there is no schema" if given is None else "it is not an object"
    problem = _fatal_problem(given)
    if problem:
        return {"type": "object", "properties": {}}, problem
    return {"type": "object", "properties": {}, **_safe_schema(given, 0)}, ""


def _fatal_problem(schema: dict[str, Any]) -> str:
    """Why a schema cannot be applied; keywords that tau does not check are no reason."""
    if schema.get("type", "object") != "object":
        return "/type: must be object"
    for problem in schema_problems(schema):
        if not problem.endswith("this keyword is not supported"):
            return safe_text(problem, 200)
    return ""


def _safe_schema(value: Any, level: int) -> Any:
    """Escape what cannot be seen in the texts of a schema."""
    if level > _MAX_SCHEMA_LEVELS:
        return value
    if isinstance(value, dict):
        return {
            key: safe_text(item, MAX_DESCRIPTION_BYTES)
            if key in ("description", "title") and isinstance(item, str)
            else _safe_schema(item, level + 1)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_safe_schema(item, level + 1) for item in value]
    return value


def parse_prompts(items: Iterable[Any]) -> list[PromptDefinition]:
    found: dict[str, PromptDefinition] = {}
    for item in items:
        name = item.get("name") if isinstance(item, Mapping) else None
        if isinstance(name, str) and 0 < len(name) <= MAX_NAME and name not in found:
            description = safe_text(item.get("description"), MAX_DESCRIPTION_BYTES)
            found[name] = PromptDefinition(name, description, _arguments(item.get("arguments")))
    return list(found.values())


def _arguments(items: Any) -> list[PromptArgument]:
    return [
        PromptArgument(item["name"], safe_text(item.get("description"), MAX_NAME), item.get("required") is True)
        for item in (items if isinstance(items, list) else [])[:MAX_PROMPT_ARGUMENTS]
        if isinstance(item, Mapping) and isinstance(item.get("name"), str)
    ]


def definition_size(name: str, tool: ToolDefinition) -> int:
    """Bytes of a definition as models receive it."""
    return len(name) + byte_length(tool.description) + _size(tool.input_schema)


def changed_tools(before: Iterable[ToolDefinition], now: Iterable[ToolDefinition]) -> tuple[list[str], list[str]]:
    """Names of the tools whose definition differs, and of those that are new or gone."""
    old, new = {tool.name: tool for tool in before}, {tool.name: tool for tool in now}
    changed = [name for name in new if name in old and _fingerprint(new[name]) != _fingerprint(old[name])]
    return changed, [*(name for name in new if name not in old), *(name for name in old if name not in new)]


def changed_names(server: str, before: Sequence[ToolDefinition], now: Sequence[ToolDefinition]) -> list[str]:
    """The names for the model that do not mean what they meant before: another tool, another definition, or none."""
    old, new = (_by_model_name(server, tools) for tools in (before, now))
    return [name for name in {**old, **new} if old.get(name) != new.get(name)]


def _by_model_name(server: str, tools: Sequence[ToolDefinition]) -> dict[str, bytes]:
    names = tool_names(server, [tool.name for tool in tools])
    return {names[tool.name]: _fingerprint(tool) for tool in tools}


def _fingerprint(tool: ToolDefinition) -> bytes:
    """Equal for definitions that mean the same. Some servers list a set, in another order at each start."""
    return encode(_in_order(to_builtins(tool)))


def _in_order(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _in_order(value[name], name) for name in sorted(value)}
    if isinstance(value, list):
        items = [_in_order(item) for item in value]
        return items if any(isinstance(item, dict | list) for item in items) else sorted(items, key=encode)
    if key == "description" and isinstance(value, str):
        return [sorted(map(str.strip, LIST_SIGNS.split(line))) if "," in line else line for line in value.split("\n")]
    return value


def shown(name: str) -> str:
    """A name of a stranger in a message of tau."""
    return escape_hidden(name[:MAX_NAME])


def shown_address(uri: str) -> str:
    """An address of a stranger, whole: a shortened one would be another."""
    return escape_hidden(uri[:MAX_URI])


def safe_text(value: Any, limit: int) -> str:
    """A text of a stranger, limited in bytes, with invisible characters escaped. Line breaks and tabs are kept."""
    if not isinstance(value, str):
        return ""
    text = escape_hidden(value[: limit + 1], "\n\t")
    if byte_length(text) <= limit:
        return text
    return text.encode("utf-8", "replace")[: limit - 3].decode("utf-8", "ignore") + "…"


def _size(value: Any) -> int:
    try:
        return len(encode(value))
    except BadRecord:
        return MAX_DEFINITION_BYTES + 1

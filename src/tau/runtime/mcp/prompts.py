"""Prompts of servers as slash commands: `/mcp__server__prompt words…`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from tau.errors import CommandError
from tau.mcp.definitions import PromptDefinition
from tau.mcp.messages import McpError
from tau.mcp.results import content_parts
from tau.runtime.mcp.server import McpServer


def prompt_arguments(prompt: PromptDefinition, words: str) -> dict[str, str]:
    """The arguments that words mean: in order, or by name with `name=value`. Raises CommandError."""
    try:
        given = shlex.split(words)
    except ValueError:  # an odd quotation mark
        given = words.split()
    names = [argument.name for argument in prompt.arguments]
    values: dict[str, str] = {}
    positional: list[str] = []
    for word in given:
        name, equals, value = word.partition("=")
        if equals and name in names:
            values[name] = value
        else:
            positional.append(word)
    free = [name for name in names if name not in values]
    if free and len(positional) > len(free):  # the rest of a sentence belongs to the last argument
        positional = [*positional[: len(free) - 1], " ".join(positional[len(free) - 1 :])]
    values |= dict(zip(free, positional, strict=False))
    missing = [argument.name for argument in prompt.arguments if argument.required and argument.name not in values]
    if missing:
        raise CommandError(f"The prompt {prompt.name} needs: {', '.join(missing)}")
    return values


async def get_prompt(server: McpServer, prompt: PromptDefinition, words: str) -> list[Any]:
    """The content parts of a prompt's messages. Raises CommandError."""
    params = {"name": prompt.name, "arguments": prompt_arguments(prompt, words)}
    try:
        result = await server.read("prompts/get", params, server.config.timeout)
    except McpError as error:
        raise CommandError(f"The MCP server {server.name}: {error}") from None
    messages = result.get("messages") if isinstance(result, Mapping) else None
    listed = messages if isinstance(messages, list) else []
    contents = [message.get("content") for message in listed if isinstance(message, Mapping)]
    items: list[Any] = []
    for content in contents:
        items += content if isinstance(content, list) else [content]
    parts = content_parts(items)
    if not parts:
        raise CommandError(f"The prompt {prompt.name} of {server.name} is empty.")
    return list(parts)

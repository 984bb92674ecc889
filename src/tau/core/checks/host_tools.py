"""Checks of the tools that a client offers, and of the results that it sends. Errors name the invalid field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tau.core.checks.images import checked_image
from tau.core.checks.schema import tool_problem
from tau.errors import CommandError
from tau.records.base import encode
from tau.records.commands import HostTool, ImageGiven
from tau.records.messages import Image, Text

MAX_TOOLS = 128
MAX_DEFINITION_BYTES = 1024 * 1024  # of all tools together
MAX_TIMEOUT_MS = 2**31 - 1
Content = str | list[Text | Image]


def check_host_tools(tools: Sequence[HostTool], taken: Mapping[str, str], builtin: Sequence[str]) -> None:
    """Raise CommandError for the first tool that cannot be offered.

    `taken` says by name whose the tools of others are; `builtin` are the names that need `replaces`.
    """
    if len(tools) > MAX_TOOLS:
        raise CommandError(f"tools: {len(tools)} tools; at most {MAX_TOOLS} are possible")
    if (size := len(encode(list(tools)))) > MAX_DEFINITION_BYTES:
        raise CommandError(f"tools: {size} bytes; at most {MAX_DEFINITION_BYTES} are possible")
    seen: set[str] = set()
    for at, tool in enumerate(tools):
        if (problem := _problem(tool, taken, builtin, seen)) is not None:
            raise CommandError(f"tools[{at}].{problem}")
        seen.add(tool.name)


def _problem(tool: HostTool, taken: Mapping[str, str], builtin: Sequence[str], seen: set[str]) -> str | None:
    name = tool.name
    if name in seen:
        return f"name: there are two tools named {name}"
    if name in taken:
        return f"name: {name} is a tool of {taken[name]}"
    if name in builtin and tool.replaces is not True:
        return f"name: {name} is a built-in tool; set `replaces` to put this one in its place"
    if tool.timeout_ms is not None and not 1 <= tool.timeout_ms <= MAX_TIMEOUT_MS:
        return f"timeoutMs: must be between 1 and {MAX_TIMEOUT_MS}"
    return tool_problem(name, tool.parameters)


def checked_content(content: Content) -> list[Text | Image]:
    """Return the blocks of a result. Raises CommandError for an image that cannot be shown."""
    if isinstance(content, str):
        return [Text(content)]
    return [
        block
        if isinstance(block, Text)
        else checked_image(ImageGiven("image", block.data, block.mime_type), f"content[{at}]")
        for at, block in enumerate(content)
    ]

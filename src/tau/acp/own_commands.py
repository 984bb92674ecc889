"""Slash commands of this front end: /compact, /name, /export and /session. They are answered without a model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from tau.acp.updates import Command, CommandInput
from tau.records.base import UNSET
from tau.runtime.app.handle import SessionHandle


class OwnCommand(NamedTuple):
    description: str
    hint: str
    run: Callable[[SessionHandle, str], Awaitable[str]]  # returns the answer


async def _compact(handle: SessionHandle, instructions: str) -> str:
    result = await handle.compact(instructions or None)
    return f"Compacted the conversation of {result.tokens_before} tokens."


async def _name(handle: SessionHandle, name: str) -> str:
    if not name:
        return f"The session is named “{handle.tree.name}”." if handle.tree.name else "The session has no name."
    await handle.set_session_name(name)
    return f"The session is now named “{handle.tree.name}”."


async def _export(handle: SessionHandle, path: str) -> str:
    return f"Exported the session to {await handle.export_html(path or None)}"


async def _session(handle: SessionHandle, _: str) -> str:
    stats = handle.stats()
    tokens = stats.tokens
    rows = {
        "Session": stats.session_id,
        "File": stats.session_file or "(in memory)",
        "Messages": f"{stats.user_messages} of the user, {stats.assistant_messages} of the model",
        "Tool calls": str(stats.tool_calls),
        "Tokens": f"{tokens.input} in, {tokens.output} out, {tokens.cache_read} read from the cache",
        "Cost": "unknown" if stats.cost_unknown else f"${stats.cost:.4f}",
    }
    return "\n".join(f"- {name}: {value}" for name, value in rows.items())


OWN_COMMANDS = {
    "compact": OwnCommand("Summarize the older part of the conversation", "instructions", _compact),
    "name": OwnCommand("Name the session", "name", _name),
    "export": OwnCommand("Export the session as an HTML page", "path", _export),
    "session": OwnCommand("Show figures of the session", "", _session),
}


def find_own_command(text: str) -> tuple[OwnCommand, str] | None:
    """The command that a prompt names, and its argument."""
    if not text.startswith("/"):
        return None
    name, _, argument = text[1:].partition(" ")
    found = OWN_COMMANDS.get(name.strip())
    return None if found is None else (found, argument.strip())


async def available_commands(handle: SessionHandle) -> list[Command]:
    """Commands of extensions, templates and skills, then those of this front end that they do not replace."""
    commands = {
        command.name: Command(command.name, command.description or command.name, CommandInput("arguments"))
        for command in await handle.commands()
    }
    for name, own in OWN_COMMANDS.items():
        commands.setdefault(name, Command(name, own.description, CommandInput(own.hint) if own.hint else UNSET))
    return list(commands.values())

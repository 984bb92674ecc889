"""The slash commands of the terminal: a table of names, and what each does with the session.

A command calls the operations of the session; it decides nothing that another front end would have to decide too.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tau.concurrency.threads import run_in_thread
from tau.errors import CommandError
from tau.records.base import UNSET
from tau.records.messages import Text, User
from tau.runtime.app.handle import SessionHandle
from tau.tui.command import Command
from tau.tui.commands_copy import COPY_COMMANDS
from tau.tui.commands_models import MODEL_COMMANDS
from tau.tui.commands_sessions import SESSION_COMMANDS
from tau.tui.commands_settings import HIDDEN_COMMANDS, SETTINGS_COMMANDS
from tau.tui.commands_share import SHARE_COMMANDS
from tau.tui.commands_tree import TREE_COMMANDS
from tau.tui.surface import Surface

if TYPE_CHECKING:
    from tau.runtime.app.permission_control import PermissionState

NEVER_A_COMMAND = "To send it to the model, begin with // or a space."


def find_command(name: str) -> Command | None:
    return _BY_NAME.get(name)


def unknown_command_error(name: str, offered: Sequence[str]) -> str:
    """The error for a slash command that does not exist. `name` and `offered` begin with a slash."""
    meant = difflib.get_close_matches(name, offered, n=1)
    advice = f"Did you mean {meant[0]}?" if meant else "/help lists the commands."
    return f"Unknown command {name}. {advice} {NEVER_A_COMMAND}"


def command_name(line: str) -> str | None:
    """The name of the command that a line calls; None for a prompt, such as one that begins with a path."""
    if not line.startswith("/") or line.startswith("//"):
        return None
    name = line.split(maxsplit=1)[0]
    return name if len(name) > 1 and "/" not in name[1:] else None


# The session.


async def _session(surface: Surface, rest: str) -> None:
    surface.say(session_text(surface.handle))


def session_text(handle: SessionHandle) -> str:
    """File, id, counts, tokens and cost of the session."""
    state, stats = handle.state.current(), handle.stats()
    lines = [
        "Session",
        *([f"Name: {state.session_name}"] if isinstance(state.session_name, str) else []),
        f"File: {state.session_file}" if isinstance(state.session_file, str) else "File: none, only in memory",
        f"Id: {state.session_id}",
        f"Messages: {stats.user_messages} of yours, {_count(stats.assistant_messages, 'answer')}, "
        f"{_count(stats.tool_calls, 'tool call')}, {stats.total_messages} in all",
        f"Tokens: {stats.tokens.input:,} in, {stats.tokens.output:,} out, {stats.tokens.cache_read:,} from the cache, "
        f"{stats.tokens.total:,} in all",
    ]
    if stats.cost:
        lines.append(f"Cost: ${stats.cost:.4f}")
    usage = handle.context_usage()
    if usage is not None and usage.tokens is not None:
        lines.append(f"Context: {usage.tokens:,} of {usage.context_window:,} tokens")
    return "\n".join(lines)


def _count(number: int, name: str) -> str:
    return f"{number:,} {name}{'' if number == 1 else 's'}"


async def _compact(surface: Surface, rest: str) -> None:
    result = await surface.handle.compact(rest or None)
    surface.say(f"Compacted {result.tokens_before:,} tokens to a summary of {len(result.summary):,} characters.")


async def _retry(surface: Surface, rest: str) -> None:
    """Send the last prompt again."""
    for message in reversed(surface.handle.log.messages):
        if isinstance(message, User):
            content = message.content
            text = (
                content
                if isinstance(content, str)
                else "".join(block.text for block in content if isinstance(block, Text))
            )
            await surface.submit(text)
            return
    surface.say("There is no prompt to send again.")


# The program.


async def _reload(surface: Surface, rest: str) -> None:
    state = surface.handle.state.current()
    if state.is_streaming or state.is_compacting:
        raise CommandError("Reload when the run has ended.")
    await surface.handle.settings_control.reload()
    await surface.handle.reload()
    for problem in surface.looks.reload(surface.handle.settings) if surface.looks is not None else ():
        surface.say(problem, "warning")
    surface.say("Reloaded settings, keys, themes, extensions, skills, prompt templates and context files.")


async def _sandbox(surface: Surface, rest: str) -> None:
    level = surface.handle.state.current().sandbox
    if level is UNSET:
        surface.say("There is no sandbox: commands have the rights of your user. `tau --sandbox workspace` starts one.")
        return
    reach = "read the rest of the system" if level == "workspace" else "read nothing of the rest that is yours"
    surface.say(f"Sandbox {level}: commands and file tools change only the working folder, and {reach}.")


async def _permissions(surface: Surface, rest: str) -> None:
    """Show the rules and what was allowed; make them stricter, or take something back."""
    control = surface.handle.permissions
    word, _, given = rest.partition(" ")
    number = given.strip()
    if word == "revoke" and number.isdecimal() and len(number) < 10:
        control.revoke(int(number))
    elif word == "off":
        control.turn_off()
    elif word:
        await run_in_thread(lambda: control.add(rest), "permission rules")
    surface.say(permissions_text(control.state()))


def permissions_text(state: PermissionState) -> str:
    if state.mode == "off":
        return "No permissions: tools run without a question. /permissions ask asks before a tool does more than read."
    lines = [f"Permissions: {state.mode}"]
    lines += [f"Rules: {rules.source}" for rules in state.rules if rules.text]
    lines += [f"Allowed for this session, {grant.id}: {grant.text}" for grant in state.grants]
    if state.grants:
        lines.append("/permissions revoke NUMBER takes one back.")
    return "\n".join(lines)


async def _help(surface: Surface, rest: str) -> None:
    rows = [(f"/{command.name} {command.hint}".strip(), command.about) for command in COMMANDS]
    for offered in await surface.handle.commands():
        about = offered.description if isinstance(offered.description, str) else ""
        rows.append((f"/{offered.name}", " ".join(about.split())))
    surface.say(table_text(rows))


def table_text(rows: Sequence[tuple[str, str]], max_width: int = 24) -> str:
    """Names and what they mean, in two columns; after a name that is too wide, on a line of its own."""
    width = min(max(len(name) for name, _ in rows), max_width)
    lines = []
    for name, about in rows:
        between = "  " if len(name) <= width else f"\n{' ' * (width + 2)}"
        lines.append(f"{name:<{width}}{between}{about}")
    return "\n".join(lines)


async def _redraw(surface: Surface, rest: str) -> None:
    surface.redraw()


async def _quit(surface: Surface, rest: str) -> None:
    surface.quit()


COMMANDS: tuple[Command, ...] = (
    *SETTINGS_COMMANDS,
    *MODEL_COMMANDS,
    *SESSION_COMMANDS,
    *COPY_COMMANDS,
    *SHARE_COMMANDS,
    Command("session", "show file, tokens and cost of the session", _session),
    *TREE_COMMANDS,
    Command("compact", "replace the older conversation by a summary", _compact, "[what to focus on]"),
    Command("reload", "reload settings, keys, themes, extensions, skills and prompts", _reload),
    Command("retry", "send the last prompt again", _retry),
    Command("permissions", "show the permissions, or make them stricter", _permissions, "[ask|rules FILE|revoke N]"),
    Command("sandbox", "show what commands may do", _sandbox),
    Command("redraw", "draw the screen again", _redraw),
    Command("help", "list the commands", _help),
    Command("quit", "exit", _quit),
)
ALIASES = {"exit": "quit", "clear": "new"}
_BY_NAME = {command.name: command for command in (*COMMANDS, *HIDDEN_COMMANDS)}
_BY_NAME |= {alias: _BY_NAME[name] for alias, name in ALIASES.items()}

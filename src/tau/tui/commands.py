"""The slash commands of the terminal: a table of names, and what each does with the session.

A command calls the operations of the session; it decides nothing that another front end would have to decide too.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from tau.concurrency.threads import run_in_thread
from tau.core.models.thinking import supported_levels
from tau.core.text.terminal_text import escape_for_display
from tau.errors import CommandError
from tau.records.base import UNSET
from tau.records.messages import Text, User
from tau.runtime.app.handle import SessionHandle
from tau.runtime.app.permission_control import PermissionState
from tau.tui.command import Command
from tau.tui.commands_settings import HIDDEN_COMMANDS, SETTINGS_COMMANDS
from tau.tui.surface import Surface

SHOWN_AFTER_FORK = 20  # lines
NEVER_A_COMMAND = "To send it to the model, begin with // or a space."


def find_command(name: str) -> Command | None:
    return _BY_NAME.get(name)


def unknown_command_error(name: str, offered: Sequence[str]) -> str:
    """The error for a slash command that does not exist. `name` and `offered` begin with a slash."""
    meant = get_close_matches(name, offered, n=1)
    advice = f"Did you mean {meant[0]}?" if meant else "/help lists the commands."
    return f"Unknown command {name}. {advice} {NEVER_A_COMMAND}"


def command_name(line: str) -> str | None:
    """The name of the command that a line calls; None for a prompt, such as one that begins with a path."""
    if not line.startswith("/") or line.startswith("//"):
        return None
    name = line.split(maxsplit=1)[0]
    return name if len(name) > 1 and "/" not in name[1:] else None


# Models and thinking.


async def _model(surface: Surface, rest: str) -> None:
    handle = surface.handle
    if rest:
        await handle.choose_model(rest)
    elif len(names := _model_names(handle)) > 1:
        current = handle.models.current
        at = names.index(name) if current and (name := f"{current.provider}/{current.id}") in names else 0
        chosen = await surface.choose("Model", names, at)
        if chosen is None:
            return
        await handle.choose_model(names[chosen])
    model = handle.models.current
    surface.say(f"{model.provider}/{model.id}, thinking {handle.models.level}" if model else "No model is selected.")


async def _thinking(surface: Surface, rest: str) -> None:
    handle = surface.handle
    levels = supported_levels(handle.models.current) if handle.models.current else ()
    if not rest:
        if len(levels) < 2:
            surface.say("This model does not support thinking.")
            return
        level = handle.models.level
        chosen = await surface.choose("Thinking level", list(levels), levels.index(level) if level in levels else 0)
        if chosen is None:
            return
        rest = levels[chosen]
    match = next((level for level in levels if level == rest.lower()), None)
    if match is None:
        raise CommandError(f"Unknown thinking level: {rest}. The model supports {', '.join(levels) or 'none'}.")
    surface.say(f"Thinking: {await handle.set_thinking_level(match)}")


# Sessions.


async def _new(surface: Surface, rest: str) -> None:
    if await surface.handle.new_session(None):
        surface.show_session("new session", 0)


async def _resume(surface: Surface, rest: str) -> None:
    rows = await surface.handle.sessions(everywhere=False)
    rows = [row for row in rows if row.id != surface.handle.state.current().session_id]
    if not rows:
        surface.say("There is no other session of this project.")
        return
    names = [escape_for_display(" ".join((row.name or row.first_message or row.id).split())) for row in rows]
    chosen = await surface.choose("Resume", names)
    if chosen is not None and await surface.handle.switch_session(rows[chosen].path):
        surface.show_session(names[chosen], surface.handle.settings.resume_lines)


async def _fork(surface: Surface, rest: str) -> None:
    points = surface.handle.tree.fork_points()
    if not points:
        surface.say("There is no message to fork from.")
        return
    names = [escape_for_display(" ".join(point.text.split())) for point in points]
    chosen = await surface.choose("Fork before", names, len(names) - 1)
    if chosen is None:
        return
    text, done = await surface.handle.fork(points[chosen].entry_id)
    if done:
        surface.show_session("fork", SHOWN_AFTER_FORK)
        surface.set_editor_text(text)


async def _clone(surface: Surface, rest: str) -> None:
    if await surface.handle.clone():
        surface.show_session("copy of the session", 0)


async def _name(surface: Surface, rest: str) -> None:
    if rest:
        await surface.handle.set_session_name(rest)
    name = surface.handle.state.current().session_name
    surface.say(f"Session name: {name}" if name else "The session has no name. /name NAME sets it.")


async def _session(surface: Surface, rest: str) -> None:
    surface.say(session_text(surface.handle))


def session_text(handle: SessionHandle) -> str:
    """File, id, counts, tokens and cost of the session."""
    state, stats = handle.state.current(), handle.stats()
    lines = [
        *([f"Name: {state.session_name}"] if isinstance(state.session_name, str) else []),
        f"File: {state.session_file}" if isinstance(state.session_file, str) else "File: none, only in memory",
        f"Id: {state.session_id}",
        f"Messages: {stats.user_messages} of yours, {stats.assistant_messages} answers, "
        f"{stats.tool_calls} tool calls, {stats.total_messages} in all",
        f"Tokens: {stats.tokens.input:,} in, {stats.tokens.output:,} out, {stats.tokens.cache_read:,} from the cache, "
        f"{stats.tokens.total:,} in all",
    ]
    if stats.cost:
        lines.append(f"Cost: ${stats.cost:.4f}")
    usage = handle.context_usage()
    if usage is not None and usage.tokens is not None:
        lines.append(f"Context: {usage.tokens:,} of {usage.context_window:,} tokens")
    return "\n".join(lines)


async def _compact(surface: Surface, rest: str) -> None:
    result = await surface.handle.compact(rest or None)
    surface.say(f"Compacted {result.tokens_before:,} tokens to a summary of {len(result.summary):,} characters.")


async def _export(surface: Surface, rest: str) -> None:
    handle = surface.handle
    if not rest.endswith(".jsonl"):
        surface.say(f"Exported to {await handle.export_html(rest or None)}")
        return
    source = handle.log.path
    if source is None or not source.exists():
        raise CommandError("The session has no file yet: it is written with the first answer.")
    target = Path(handle.cwd, os.path.expanduser(rest))
    try:
        shutil.copyfile(source, target)
    except (OSError, shutil.SameFileError) as error:
        raise CommandError(f"Cannot write {target}: {error.strerror or error}") from None
    surface.say(f"Exported to {target}")


async def _copy(surface: Surface, rest: str) -> None:
    text = surface.handle.last_assistant_text()
    if text is None:
        surface.say("There is no answer to copy.")
        return
    surface.say(f"Copied {len(text):,} characters {await surface.copy(text)}.")


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
    if word == "revoke" and given.strip().isdigit():
        control.revoke(int(given))
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
    width = min(max(len(name) for name, _ in rows), 24)
    surface.say("\n".join(f"{name:<{width}}  {about}" for name, about in rows))


async def _redraw(surface: Surface, rest: str) -> None:
    surface.redraw()


async def _quit(surface: Surface, rest: str) -> None:
    surface.quit()


def _model_names(handle: SessionHandle) -> list[str]:
    return [f"{model.provider}/{model.id}" for model in handle.models.available]


def _levels(handle: SessionHandle) -> list[str]:
    return list(supported_levels(handle.models.current)) if handle.models.current else []


COMMANDS: tuple[Command, ...] = (
    *SETTINGS_COMMANDS,
    Command("model", "choose the model", _model, "[provider/model]", _model_names),
    Command("thinking", "choose the thinking level", _thinking, "[level]", _levels),
    Command("export", "export the session as HTML, or as .jsonl", _export, "[file]"),
    Command("copy", "copy the last answer", _copy),
    Command("name", "name the session", _name, "[name]"),
    Command("session", "show file, tokens and cost of the session", _session),
    Command("fork", "continue from an earlier message in a new session", _fork),
    Command("clone", "continue in a copy of the session", _clone),
    Command("new", "start a new session", _new),
    Command("compact", "replace the older conversation by a summary", _compact, "[what to focus on]"),
    Command("resume", "open another session of this project", _resume),
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

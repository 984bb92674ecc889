"""Slash commands that open another session: a picker over the session files, a new one, a copy, an imported file."""

from __future__ import annotations

from tau.core.text.terminal_text import escape_for_display
from tau.errors import CommandError
from tau.runtime.app.handle import SessionHandle
from tau.tui.argument_value import ArgumentValue
from tau.tui.command import Command
from tau.tui.surface import Surface


async def _resume(surface: Surface, rest: str) -> None:
    from tau.tui.session_picking import pick_session

    await pick_session(surface, rest)


async def _sessions(handle: SessionHandle) -> list[ArgumentValue]:
    from tau.tui.session_picking import session_values

    return await session_values(handle)


async def _new(surface: Surface, rest: str) -> None:
    if await surface.handle.new_session(None):
        surface.show_session("new session", 0)


async def _clone(surface: Surface, rest: str) -> None:
    if await surface.handle.clone():
        surface.show_session("copy of the session", 0)


async def _import(surface: Surface, rest: str) -> None:
    if not rest:
        raise CommandError("Which file? /import PATH imports a session file (.jsonl) and opens it.")
    from tau.tui.session_picking import open_session

    importing = surface.handle.session_files.import_file(rest.strip("\"'"))
    await open_session(surface, importing, f"imported from {escape_for_display(rest)}")


async def _name(surface: Surface, rest: str) -> None:
    if rest:
        await surface.handle.set_session_name(rest)
    name = surface.handle.state.current().session_name
    surface.say(f"Session name: {name}" if name else "The session has no name. /name NAME sets it.")


SESSION_COMMANDS = (
    Command("import", "import a session file and open it", _import, "<path>"),
    Command("name", "name the session", _name, "[name]"),
    Command("clone", "continue in a copy of the session", _clone),
    Command("new", "start a new session", _new),
    Command("resume", "open another session", _resume, "[search]", _sessions),
)

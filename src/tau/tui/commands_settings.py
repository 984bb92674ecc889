"""Slash commands for settings. What they need is loaded with their first use."""

from __future__ import annotations

from tau.concurrency.threads import run_in_thread
from tau.runtime.app.handle import SessionHandle
from tau.screen.modals.hotkey_list import HotkeyList
from tau.tui.command import Command
from tau.tui.surface import Surface


async def _settings(surface: Surface, rest: str) -> None:
    from tau.tui.settings_menu import run_settings

    await run_settings(surface, rest)


def _setting_names(handle: SessionHandle) -> list[str]:
    from tau.tui.settings_menu import setting_names

    return setting_names()


async def _hotkeys(surface: Surface, rest: str) -> None:
    rows = surface.hotkeys()
    if surface.looks is not None:
        await surface.open(HotkeyList(rows))
        return
    width = max((len(row.keys) for row in rows), default=0)
    surface.say("\n".join(f"{row.keys:<{width}}  {row.about}" for row in rows))


async def _login(surface: Surface, rest: str) -> None:
    from tau.tui.login_menu import log_in

    await log_in(surface, rest)


async def _logout(surface: Surface, rest: str) -> None:
    from tau.tui.login_menu import log_out

    await log_out(surface, rest)


async def _terminal(surface: Surface, rest: str) -> None:
    from tau.tui.terminal_diagnosis import show_terminal

    await show_terminal(surface)


async def _trust(surface: Surface, rest: str) -> None:
    from tau.tui.trust_menu import decide_trust

    await decide_trust(surface)


async def _changelog(surface: Surface, rest: str) -> None:
    from tau.tui.changelog import changelog_text

    surface.say(await run_in_thread(changelog_text, "changelog"))


async def _debug(surface: Surface, rest: str) -> None:
    from tau.tui.terminal_diagnosis import write_debug_file

    await write_debug_file(surface)


SETTINGS_COMMANDS = (
    Command("settings", "change the settings", _settings, "[name] [value]", _setting_names),
    Command("hotkeys", "show the keys", _hotkeys),
    Command("login", "store an API key, or log in", _login, "[provider]"),
    Command("logout", "remove a stored key or login", _logout, "[provider]"),
    Command("trust", "decide if this project is trusted", _trust),
    Command("changelog", "show what is new", _changelog),
    Command("terminal", "show what this terminal can do", _terminal),
)
HIDDEN_COMMANDS = (Command("debug", "write the screen to a file", _debug),)

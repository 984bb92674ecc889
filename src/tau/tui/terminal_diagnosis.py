"""/terminal: what the terminal was asked, what it answered, and what to change for more. /debug: the same in a file."""

from __future__ import annotations

import os
from collections.abc import Mapping

from tau import __version__
from tau.concurrency.threads import run_in_thread
from tau.errors import CommandError
from tau.records.settings import Settings
from tau.runtime.tmux import tmux_options
from tau.screen.terminal_report import TMUX_OPTIONS, TerminalNote, answer_notes, environment_notes
from tau.tui.surface import Surface
from tau.tui.terminal_facts import TerminalFacts, supports_hyperlinks

DEBUG_FILE = "tau-debug.log"


async def show_terminal(surface: Surface) -> None:
    surface.say(await _report(surface))


async def _report(surface: Surface) -> str:
    environment = dict(os.environ)
    tmux = await run_in_thread(lambda: tmux_options(environment, TMUX_OPTIONS), "tmux options")
    facts = surface.looks.terminal_facts() if surface.looks is not None else None
    notes = terminal_notes(surface.handle.settings, environment, tmux, facts)
    return "\n".join(f"{'✓' if note.good else '!'} {note.text}" for note in notes)


def terminal_notes(
    settings: Settings, environment: Mapping[str, str], tmux: Mapping[str, str], facts: TerminalFacts | None
) -> list[TerminalNote]:
    notes = environment_notes(environment, settings.terminal.true_color, tmux)
    if facts is not None:
        notes += answer_notes(facts.answers, complete=facts.complete, extended_keys=facts.extended_keys)
    links = "yes" if supports_hyperlinks(environment) else "no, addresses are printed"
    clipboard = "by the terminal (OSC 52)" if environment.get("SSH_CONNECTION") else "by a program, else by OSC 52"
    return [*notes, TerminalNote(True, f"Links: {links}"), TerminalNote(True, f"Copying: {clipboard}")]


async def write_debug_file(surface: Surface) -> None:
    """Write what is on the screen, and what is known of the terminal, for a report of a wrong picture."""
    shown = surface.looks.screen_text() if surface.looks is not None else "(plain mode)"
    text = f"tau {__version__}\n\n{await _report(surface)}\n\n{shown}\n"
    path = surface.handle.settings_control.agent_dir / DEBUG_FILE

    def write() -> None:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(text)

    try:
        await run_in_thread(write, "debug file")
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror or error}") from None
    surface.say(f"Written to {path}. It contains what is on the screen: look at it before you send it to anybody.")

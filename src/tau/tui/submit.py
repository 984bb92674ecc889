"""What becomes of a submitted text: a command of the terminal, a shell command, or a prompt."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tau.core.agent.queues import QueueName
from tau.errors import CommandError, TauError
from tau.records.messages import Image
from tau.screen.full_screen import full_screen_program
from tau.tui.commands import ALIASES, COMMANDS, command_name, find_command, unknown_command_error
from tau.tui.surface import Surface


async def submit(surface: Surface, text: str, images: Sequence[Image] = (), queue: QueueName = "steer") -> None:
    """Carry out what was typed. `queue` is where a prompt waits while a run is active. Errors become notices."""
    try:
        if text.startswith("!"):
            await _bash(surface, text)
        elif (name := command_name(text)) is not None:
            await _command(surface, name, text, images, queue)
        else:
            await send_prompt(surface, text.removeprefix("/") if text.startswith("//") else text, images, queue)
    except TauError as error:
        surface.say(f"Error: {error}", "error")


async def _bash(surface: Surface, text: str) -> None:
    exclude = text.startswith("!!")
    command = text.lstrip("!").strip() if exclude else text[1:].strip()
    if (program := full_screen_program(command)) is not None:
        raise CommandError(f"{program} needs the whole terminal. Run it in another one, or press Ctrl+Z first.")
    if command:
        await surface.run_bash(command, exclude=exclude)


async def _command(surface: Surface, name: str, text: str, images: Sequence[Image], queue: QueueName) -> None:
    command = find_command(name.removeprefix("/"))
    if command is not None:
        await command.run(surface, text[len(name) :].strip())
        return
    offered = [f"/{one.name}" for one in await surface.handle.commands()]
    if name not in offered:
        raise CommandError(unknown_command_error(name, [*(f"/{one.name}" for one in COMMANDS), *offered, *_aliases()]))
    await surface.handle.submit(text, images, queue)


def _aliases() -> list[str]:
    return [f"/{alias}" for alias in ALIASES]


async def send_prompt(surface: Surface, text: str, images: Sequence[Image], queue: QueueName) -> None:
    """Send a prompt without the space around it; a space that keeps it from being a command stays."""
    handle = surface.handle
    text = text.rstrip() if text.lstrip().startswith("/") else text.strip()
    resize = handle.settings.images.auto_resize
    loop = asyncio.get_running_loop()
    expanded, attached = text, list[Image]()
    if "@" in text:
        from tau.tui.attachments import attach_files

        expanded, attached = await loop.run_in_executor(None, lambda: attach_files(text, handle.cwd, resize=resize))
    if handle.models.current is None and surface.looks is not None:
        from tau.tui.login_menu import choose_first_model

        if not await choose_first_model(surface):
            surface.set_editor_text(text)
            return
    if expanded.strip() or images or attached:
        waits = handle.retry_attempt > 0  # it joins the run that is tried again, and is not a prompt after it
        await handle.submit(expanded, [*images, *attached], queue, queue_only=waits)

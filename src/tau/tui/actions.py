"""The program's own keys: what each id of keybindings.json that begins with "app." does.

Escape stops one thing, the innermost: the completion list, a question, a shell command, the wait for a retry, a
compaction, the answer. What was said stays; queued texts return to the editor.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from tau.tui.command import Command
from tau.tui.commands import find_command
from tau.tui.surface import Surface
from tau.tui.view import View

DOUBLE_PRESS_S = 0.5


class Interface(Surface, Protocol):
    """What the keys need of the program, beyond what commands may do."""

    view: View

    @property
    def bash_running(self) -> int: ...  # shell commands of the person

    def start(self, work: Coroutine[Any, Any, None]) -> None: ...
    def changed(self) -> None: ...
    def take_submission(self, *, follow_up: bool) -> None: ...
    def deny_question(self) -> bool: ...
    def suspend(self) -> None: ...
    def show_help(self) -> None: ...
    def command_ended(self) -> None: ...
    async def edit_externally(self) -> None: ...
    async def paste_image(self) -> None: ...
    def now(self) -> float: ...


class Actions:
    def __init__(self, interface: Interface) -> None:
        self._interface = interface
        self._escape_at = -DOUBLE_PRESS_S
        self._clear_at = -DOUBLE_PRESS_S
        run = self._command
        self.table: dict[str, Callable[[], None]] = {
            "app.interrupt": self.interrupt,
            "app.clear": self.clear,
            "app.exit": interface.quit,
            "app.suspend": interface.suspend,
            "app.editor.external": lambda: interface.start(interface.edit_externally()),
            "app.clipboard.pasteImage": lambda: interface.start(interface.paste_image()),
            "app.session.new": run("new"),
            "app.session.fork": run("fork"),
            "app.session.resume": run("resume"),
            "app.session.tree": run("tree"),
            "app.model.select": run("model"),
            "app.model.cycleForward": lambda: interface.start(self._cycle_model()),
            "app.model.cycleBackward": lambda: interface.start(self._cycle_model(backward=True)),
            "app.thinking.cycle": lambda: interface.start(self._cycle_thinking()),
            "app.thinking.toggle": self._toggle_thinking,
            "app.tools.expand": self._toggle_expanded,
            "app.message.copy": run("copy"),
            "app.message.followUp": lambda: interface.take_submission(follow_up=True),
            "app.message.dequeue": lambda: interface.start(self.dequeue()),
            "app.transcript.open": run("transcript"),
            "app.redraw": run("redraw"),
            "app.help": interface.show_help,
            "tui.input.submit": lambda: interface.take_submission(follow_up=False),
        }

    # Escape and Ctrl+C.

    def interrupt(self) -> None:
        interface, now = self._interface, self._interface.now()
        if interface.deny_question() or self.stop_innermost():
            return
        if any(interface.view.queued):  # left of a run that failed, or that ended while they were sent
            interface.start(self.dequeue())
            return
        if interface.view.editor.empty:
            if now - self._escape_at <= DOUBLE_PRESS_S:
                action = interface.handle.settings.double_escape_action
                if action != "none":
                    self._command(action)()
            self._escape_at = now

    def stop_innermost(self) -> bool:
        """Stop a shell command, the wait for a retry, a compaction or the answer. Returns False if nothing runs."""
        interface, handle = self._interface, self._interface.handle
        activity = interface.view.working.state
        if interface.bash_running:
            handle.abort_bash()
        elif activity.retry is not None:
            interface.start(self._abort_retry())
        elif activity.compacting_since is not None:
            interface.start(handle.abort_compaction())
        elif activity.since is not None:
            interface.start(self._abort())
        else:
            return False
        interface.changed()
        return True

    async def _abort_retry(self) -> None:
        await self.dequeue()
        await self._interface.handle.abort_retry()
        await self.dequeue()

    async def _abort(self) -> None:
        await self.dequeue()
        await self._interface.handle.abort()
        await self.dequeue()  # what was queued while the run came to its end

    def clear(self) -> None:
        interface, now = self._interface, self._interface.now()
        if now - self._clear_at <= DOUBLE_PRESS_S:
            interface.quit()
            return
        self._clear_at = now
        if not interface.view.editor.empty:
            interface.view.editor.clear()
            interface.view.prompt.completion.close()
        elif not self.stop_innermost():
            interface.say("Press Ctrl+C again to exit.")
        interface.changed()

    # Queues.

    async def dequeue(self) -> None:
        """Return the queued messages to the editor, before what stands there."""
        cleared = await self._interface.handle.clear_queues()
        texts = [*cleared.steering, *cleared.follow_up]
        if texts:
            editor = self._interface.view.editor
            text = editor.text
            editor.set_text("\n".join([*texts, *([text] if text else [])]))
            self._interface.changed()

    # Models and looks.

    async def _cycle_model(self, *, backward: bool = False) -> None:
        interface = self._interface
        chosen = await interface.handle.cycle_model(backward=backward, save=False)
        if chosen is None:
            interface.say("There is only one model to choose from.")
            return
        model, level, _ = chosen
        interface.say(f"{model.provider}/{model.id}, thinking {level}")
        interface.command_ended()

    async def _cycle_thinking(self) -> None:
        level = await self._interface.handle.cycle_thinking_level(save=False)
        if level is None:
            self._interface.say("This model does not support thinking.")
        self._interface.changed()

    def _toggle_thinking(self) -> None:
        transcript = self._interface.view.transcript
        transcript.hide_thinking = not transcript.hide_thinking
        self._interface.changed()

    def _toggle_expanded(self) -> None:
        transcript = self._interface.view.transcript
        transcript.expanded = not transcript.expanded
        self._interface.changed()

    def _command(self, name: str) -> Callable[[], None]:
        def run() -> None:
            command = find_command(name)
            if command is not None:
                self._interface.start(self._run(command))

        return run

    async def _run(self, command: Command) -> None:
        try:
            await command.run(self._interface, "")
        finally:
            self._interface.command_ended()

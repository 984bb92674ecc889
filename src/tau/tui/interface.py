"""The interface: one session on one terminal. Implements what slash commands and keys may ask for (Surface)."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any

from tau import __version__
from tau.core.agent.draft import Update
from tau.core.agent.queues import QueueName
from tau.core.checks.exit_codes import ANSWERED
from tau.records.dialogs import Confirm, Editor, Input, Select, UiRequest
from tau.records.events import (
    AgentSettled,
    CompactionEnd,
    Event,
    MessageEnd,
    QueueUpdate,
    SessionInfoChanged,
    ThinkingLevelChanged,
    ToolEnd,
)
from tau.records.messages import BashExecution, Image
from tau.runtime.app.batch import Prompt
from tau.runtime.app.factory import SessionFactory
from tau.runtime.app.handle import SessionHandle
from tau.runtime.app.process import GarbageCollector, StopRequest
from tau.runtime.models.readable_errors import readable_error
from tau.screen.completion import Proposal, Query
from tau.screen.hotkeys import Hotkey, hotkeys
from tau.screen.input_events import Focus, InputEvent, Paste, Reply
from tau.screen.modals import Modal, Outcome
from tau.screen.modals.hotkey_list import HotkeyList
from tau.screen.modals.search_list import ListRow, SearchList
from tau.screen.renderers import DrawRequest, Renderers
from tau.screen.transcript import Transcript
from tau.screen.working import Working
from tau.tui.actions import Actions
from tau.tui.background import BackgroundTasks
from tau.tui.commands import command_name, find_command
from tau.tui.display import Display
from tau.tui.extension_calls import ExtensionCalls
from tau.tui.extension_front_end import ScreenFrontEnd
from tau.tui.extension_ui import ExtensionUi
from tau.tui.keyboard import Keyboard
from tau.tui.looks import ScreenLooks
from tau.tui.modals import Modals
from tau.tui.prompt_input import PromptInput
from tau.tui.questions import Questions
from tau.tui.session_facts import SessionFacts
from tau.tui.submit import submit
from tau.tui.surface import NoticeKind
from tau.tui.terminal import Terminal
from tau.tui.terminal_facts import supports_hyperlinks
from tau.tui.theme_choice import ThemeChoice, theme_places
from tau.tui.view import View

Dialog = Select | Confirm | Input | Editor
# Events after which the footer may say something else.
FOOTER_EVENTS = (MessageEnd, ToolEnd, AgentSettled, CompactionEnd, SessionInfoChanged, ThinkingLevelChanged)


class Interface:
    def __init__(self, handle: SessionHandle, factory: SessionFactory, terminal: Terminal, stop: StopRequest) -> None:
        self.handle = handle
        self._terminal = terminal
        self._stop = stop
        self.bash_running = 0
        self._extensions_started = asyncio.Event()
        self._collector = GarbageCollector()
        self._tasks = BackgroundTasks(lambda text: self.say(text, "error"))
        settings, loop = factory.settings, asyncio.get_running_loop()
        self._extension_calls = calls = ExtensionCalls(handle.extensions)
        transcript = Transcript(
            readable=lambda text: readable_error(text, handle.models),
            renderers=Renderers(calls.renders_tool, calls.renders_message),
            hyperlinks=supports_hyperlinks(os.environ),
        )
        transcript.hide_thinking = settings.hide_thinking_block
        self._input = PromptInput(handle, factory.config.agent_dir, self._on_offer, self._extension_calls)
        self.view = View(transcript, self._input.prompt, Working(factory.options.budget.max_cost))
        self._themes = ThemeChoice(settings.theme, lambda: theme_places(factory), settings.terminal.true_color)
        self._display = Display(terminal, self._themes.palette(), self.view, os.environ)
        self.looks = self._make_looks()
        self._modals = Modals(self._show_modal)
        self._questions = Questions(handle.dialogs, loop.time, self._at_rest, self.changed)
        self.view.panels = self._questions
        self._display.on_clock(self._questions.next_change)
        self._display.on_frame(self._draw_by_extensions)
        front_end = ScreenFrontEnd(self.view, self._themes, self._use_palette, self._update_title)
        self._extension_ui = ExtensionUi(handle.dialogs, front_end, loop.time, self.changed)
        self.view.extension_ui = self._extension_ui.state
        self._facts = SessionFacts(handle, factory)
        self._keyboard = Keyboard(
            self._input.prompt,
            self._input.load_bindings(),
            Actions(self).table,
            self._questions,
            self._modals,
            insert=self._input.paste,
            shortcut=self._run_shortcut,
            ask=self._input.completions.ask,
            submit=lambda: self.take_submission(follow_up=False),
        )
        terminal.on_input(self._on_input)
        terminal.on_suspend(self.suspend)

    def _make_looks(self) -> ScreenLooks:
        return ScreenLooks(
            self._themes,
            self._use_palette,
            self._follow_settings,
            self._reload_keys,
            lambda: self._terminal.facts,
            self._display.text,
        )

    # Life cycle.

    def show(self) -> None:
        """Draw the first frame. What was typed before is in the terminal's input."""
        if not self.handle.settings.quiet_startup:
            model = self.handle.models.current
            name = f"{model.provider}/{model.id}" if model else "no model"
            self.view.transcript.add_notice(f"tau {__version__}, {name}. /help lists the commands, Ctrl+C twice exits.")
        if self.handle.log.message_count:
            self.view.transcript.add_entries(list(self.handle.log.messages), self.handle.settings.resume_lines)
        for warning in [*self._input.problems, *self._themes.problems]:
            self.view.transcript.add_notice(warning, "warning")
        self._update_footer()
        self._display.paint()
        self.start(self.looks.watch(lambda text: self.say(text, "warning")))

    async def start_session(self, prompts: Sequence[Prompt]) -> None:
        """Start the extensions and send the prompts of the command line; then keys and events drive everything."""
        self.handle.on_exit_request(self.quit)
        await self.handle.start()
        self._extensions_started.set()
        await self._input.commands.update()
        threading.Thread(target=self._preload, name="preload", daemon=True).start()
        for prompt in prompts:
            await self.handle.submit(prompt.text, prompt.images, "follow_up")

    def _preload(self) -> None:
        """Load what the first prompt needs, while the person thinks about it."""
        self._input.index.refresh()
        with suppress(OSError):  # out of descriptors; it is loaded again on first use
            self.handle.preload()

    def leave(self) -> None:
        """Erase the box; the transcript stays."""
        self._tasks.cancel()
        self._display.erase_box()

    # Events of the session.

    def on_event(self, event: Event | Update | UiRequest) -> None:
        now = asyncio.get_running_loop().time()
        if isinstance(event, Dialog):
            self._questions.add(event)
            return
        if isinstance(event, UiRequest):
            self._extension_ui.show(event)
            return
        self.view.transcript.apply(event, now)
        self.view.working.apply(event, now)
        if isinstance(event, QueueUpdate):
            self.view.queued = event.steering, event.follow_up
        elif isinstance(event, FOOTER_EVENTS):
            self._update_footer()
            if isinstance(event, AgentSettled):
                self._collector.settled(self.handle.log.id)
        self._display.changed()

    def _use_palette(self) -> None:
        self._display.use_palette(self._themes.palette())

    def _follow_settings(self) -> None:
        """Settings have changed: use those that concern the screen."""
        settings = self.handle.settings
        self.view.transcript.hide_thinking = settings.hide_thinking_block
        self._input.prompt.completion.show_rows(settings.autocomplete_max_visible)
        self._update_footer()
        self.changed()

    def _reload_keys(self) -> Sequence[str]:
        """Read keybindings.json again. Returns the mistakes in it."""
        self._input.problems.clear()
        self._keyboard.bindings = self._input.load_bindings()
        return self._input.problems

    def _update_title(self) -> None:
        self._terminal.set_title(self.view.extension_ui.title or "tau")

    def _update_footer(self) -> None:
        self.view.footer = self._facts.footer()

    # Keys.

    def _on_input(self, events: list[InputEvent]) -> None:
        for event in events:
            if isinstance(event, Reply) and event.name in ("background", "colorScheme"):
                self.looks.background(event.value)
        self._keyboard.handle([event for event in events if not isinstance(event, Reply | Focus)])
        self.changed()

    def _on_offer(self, query: Query, proposals: Sequence[Proposal]) -> None:
        self._keyboard.offer(query, proposals)
        self.changed()

    def _show_modal(self, modal: Modal | None) -> None:
        self.view.modal = modal
        self.changed()

    def _at_rest(self) -> bool:
        """True if a question may take the focus: nothing is typed, and nothing else is open."""
        return self.view.editor.empty and not self._modals.open

    def _run_shortcut(self, key: str) -> bool:
        """Run the shortcut that an extension has for a key."""
        if key not in self._extension_calls.shortcuts:
            return False
        self.start(self._press(key))
        return True

    async def _press(self, key: str) -> None:
        await self._extension_calls.press(key)

    def _draw_by_extensions(self) -> None:
        """Ask extensions for the parts of the transcript that they draw; the answers come in later frames."""
        for request in self.view.transcript.renderers.take_requests():
            self.start(self._draw(request))

    async def _draw(self, request: DrawRequest) -> None:
        calls, options = self._extension_calls, request.options
        if request.part == "message":
            lines = await calls.render_message(request.name, request.data, request.width, options)
        else:
            lines = await calls.render_tool(request.name, request.part, request.data, request.width, options)
        request.answer(lines)
        self._display.changed()

    def changed(self) -> None:
        self._display.changed(at_once=True)

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.start(work)

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def take_submission(self, *, follow_up: bool) -> None:
        prompt, entry = self._input.take()
        if entry is not None:
            self.start(self._input.save(entry))
        self._questions.submitted()
        self.changed()
        if prompt.text.strip() or prompt.images:
            self.start(self._submit(prompt.text, prompt.images, "follow_up" if follow_up else "steer"))

    async def _submit(self, text: str, images: Sequence[Image], queue: QueueName) -> None:
        """Carry out what was typed. Extensions see every prompt, also one that was typed before they had started."""
        name = command_name(text)
        if name is None or find_command(name.removeprefix("/")) is None:
            await self._extensions_started.wait()
        try:
            await submit(self, text, images, queue)
        finally:
            self.command_ended()

    def command_ended(self) -> None:
        """A command may have changed what the footer says, such as the model."""
        self._update_footer()
        self.changed()

    def suspend(self) -> None:
        self._terminal.suspend()

    async def edit_externally(self) -> None:
        await self._input.edit_externally(self._terminal.handed_over())
        self.changed()

    async def paste_image(self) -> None:
        await self._input.paste_clipboard()
        self.changed()

    # Surface.

    def say(self, text: str, kind: NoticeKind = "info") -> None:
        self.view.transcript.add_notice(text, kind)
        self._display.changed()

    async def choose(self, title: str, options: Sequence[str], chosen: int = 0) -> int | None:
        outcome = await self._modals.run(SearchList(title, [ListRow(option) for option in options], chosen=chosen))
        return outcome.value if outcome.action == "confirm" else None

    async def open(self, modal: Modal) -> Outcome:
        return await self._modals.run(modal)

    def key_label(self, action: str) -> str:
        return self._keyboard.bindings.label(action)

    def set_editor_text(self, text: str) -> None:
        self.view.editor.set_text(text)
        self.changed()

    async def copy(self, text: str) -> str:
        return await self._input.copy(text, self._terminal.write)

    def show_session(self, title: str, lines: int) -> None:
        self.view.transcript.add_rule(title)
        if lines:
            self.view.transcript.add_entries(list(self.handle.log.messages), lines)
        self._update_footer()
        self.changed()

    async def submit(self, text: str) -> None:
        await submit(self, text)

    async def run_bash(self, command: str, *, exclude: bool) -> None:
        self.bash_running += 1
        self.view.transcript.start_bash(command, self.now(), hidden=exclude)
        self.changed()
        try:
            result = await self.handle.bash(command, exclude=exclude)
            execution = BashExecution(
                command,
                result.output,
                result.exit_code,
                cancelled=result.cancelled,
                truncated=result.truncated,
            )
            self.view.transcript.end_bash(execution, self.now())
        finally:
            self.bash_running -= 1
            self._update_footer()
            self.changed()

    def redraw(self) -> None:
        self._display.redraw()

    def quit(self) -> None:
        self._stop.ask(ANSWERED)

    def hotkeys(self) -> Sequence[Hotkey]:
        return hotkeys(self._keyboard.bindings, extended=self._terminal.facts.extended_keys)

    def show_help(self) -> None:
        """Show the keys until the next character, which is then in the editor, after the one that opened the list."""
        self._modals.peek(HotkeyList(self.hotkeys(), peek=True), self._on_help_closed)

    def _on_help_closed(self, outcome: Outcome) -> None:
        if outcome.action == "type":
            opened_by = "?" if "?" in self._keyboard.bindings.keys("app.help") else ""
            self._keyboard.handle([Paste(opened_by + outcome.value)])

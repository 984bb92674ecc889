"""The interface: one session on one terminal. Implements what slash commands and keys may ask for (Surface)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any

from tau.concurrency.threads import run_in_thread
from tau.core.agent.draft import Update
from tau.core.agent.queues import QueueName
from tau.core.checks.exit_codes import ANSWERED
from tau.errors import TauError
from tau.records.dialogs import Confirm, Editor, Input, Select, UiRequest
from tau.records.events import Event
from tau.records.messages import Image
from tau.runtime.app.batch import Prompt
from tau.runtime.app.factory import SessionFactory
from tau.runtime.app.handle import SessionHandle
from tau.runtime.app.process import StopRequest
from tau.runtime.models.readable_errors import readable_error
from tau.screen.completion import Proposal, Query
from tau.screen.hotkeys import Hotkey, hotkeys
from tau.screen.input_events import Focus, InputEvent, Paste, Reply
from tau.screen.modals import Modal, Outcome
from tau.screen.modals.hotkey_list import HotkeyList
from tau.screen.modals.search_list import ListRow, SearchList
from tau.screen.renderers import Renderers
from tau.screen.transcript import Transcript
from tau.screen.working import Working
from tau.tui.actions import Actions
from tau.tui.background import BackgroundTasks
from tau.tui.commands import command_name, find_command
from tau.tui.display import Display
from tau.tui.extension_calls import ExtensionCalls
from tau.tui.extension_front_end import ScreenFrontEnd
from tau.tui.extension_screen import ExtensionScreen
from tau.tui.greeting import greeting
from tau.tui.keyboard import Keyboard
from tau.tui.looks import ScreenLooks
from tau.tui.modals import Modals
from tau.tui.notices import Notices
from tau.tui.prompt_input import PromptInput
from tau.tui.questions import Questions
from tau.tui.session_facts import SessionFacts
from tau.tui.session_screen import SessionScreen
from tau.tui.submit import submit
from tau.tui.surface import NoticeKind
from tau.tui.terminal import Terminal
from tau.tui.terminal_facts import supports_hyperlinks
from tau.tui.theme_choice import ThemeChoice, theme_places
from tau.tui.view import View

Dialog = Select | Confirm | Input | Editor
WARM_UP_AFTER_S = 0.1


class Interface:
    def __init__(self, handle: SessionHandle, factory: SessionFactory, terminal: Terminal, stop: StopRequest) -> None:
        self.handle = handle
        self._terminal = terminal
        self._stop = stop
        self._extensions_started = asyncio.Event()
        self._tasks = BackgroundTasks(lambda text: self.say(text, "error"))
        settings, clock = factory.settings, asyncio.get_running_loop().time
        calls = ExtensionCalls(handle.extensions)
        self._input = PromptInput(handle, factory.config.agent_dir, self._on_offer, calls)
        self.view = _view(handle, factory, calls, self._input)
        themes = ThemeChoice(settings.theme, lambda: theme_places(factory), settings.terminal.true_color)
        self._display = display = Display(terminal, themes.palette(), self.view, os.environ)
        self._notices = Notices(terminal, clock, os.environ, factory.options.program)
        self._screen = SessionScreen(handle, SessionFacts(handle, factory), self.view, display, self._notices)

        def use_palette() -> None:
            display.use_palette(themes.palette())

        self.looks = ScreenLooks(
            themes, use_palette, self._follow_settings, self._reload_keys, lambda: terminal.facts, display.text
        )
        self._modals = Modals(self._show_modal)
        self._questions = Questions(handle.dialogs, clock, self._at_rest, self.changed, lambda: terminal.input_waits)
        self.view.panels = self._questions
        front_end = ScreenFrontEnd(self.view, themes, use_palette, self._screen.update_title)
        self._extensions = ExtensionScreen(
            handle.dialogs, calls, self.view, front_end, clock, start=self.start, changed=display.changed
        )
        self._keyboard = self._make_keyboard()
        self._set_hints()
        self._use_terminal_settings()
        display.on_clock(self._next_change)
        display.on_frame(self._after_frame)
        terminal.on_input(self._on_input)
        terminal.on_suspend(self.suspend)

    def _make_keyboard(self) -> Keyboard:
        return Keyboard(
            self._input.prompt,
            self._input.load_bindings(),
            Actions(self).table,
            self._questions,
            self._modals,
            insert=self._input.paste,
            shortcut=self._extensions.run_shortcut,
            echo=self._display.echo,
            ask=self._input.completions.ask,
            submit=lambda: self.take_submission(follow_up=False),
        )

    def _set_hints(self) -> None:
        """Cards name the keys that are bound, and files relative to the folder of the session."""
        label = self._keyboard.bindings.label
        self.view.transcript.set_look(
            cwd=self.handle.cwd,
            expand_key=label("app.tools.expand") or "/transcript",
            viewer_key=label("app.transcript.open") or "/transcript",
        )

    # Life cycle.

    def show(self) -> None:
        """Draw the first frame. What was typed before is in the terminal's input."""
        if not self.handle.settings.quiet_startup:
            for text in greeting(self.handle, self.key_label):
                self.view.transcript.add_notice(text)
        if self.handle.log.message_count:
            self._screen.show_last_lines(self.handle.settings.resume_lines)
        for warning in [*self._input.problems, *self.looks.problems]:
            self.view.transcript.add_notice(warning, "warning")
        self._screen.update_footer()
        self._display.paint()
        self.start(self.looks.watch(lambda text: self.say(text, "warning")))

    async def start_session(self, prompts: Sequence[Prompt], *, pick_session: bool = False) -> None:
        """Start the extensions and send the prompts of the command line; then keys and events drive everything.

        With `pick_session`, the person chooses a session first.
        """
        self.handle.on_exit_request(self.quit)
        await self.handle.start()
        self._extensions_started.set()
        await self._input.update_commands()
        for warning in self._extensions.shortcut_warnings(self._keyboard.bindings):
            self.say(warning, "warning")
        self.start(self._warm_up())
        if pick_session and not await self._pick_session():
            return
        for prompt in prompts:
            await self.handle.submit(prompt.text, prompt.images, "follow_up")

    async def _pick_session(self) -> bool:
        """Let the person choose the session to continue. If none is chosen, the program ends."""
        from tau.tui.session_picking import pick_session

        try:
            chosen = await pick_session(self, "")
        except TauError as error:
            self.say(f"Error: {error}", "error")
            return False
        if not chosen:
            self.say("No session was chosen.")
            self.quit()
        return chosen

    def _preload(self) -> None:
        """Load what the first prompt needs, while the person thinks about it."""
        self._input.completions.index.refresh()
        with suppress(OSError):  # out of descriptors; it is loaded again on first use
            self.handle.preload()

    async def _warm_up(self) -> None:
        """Load what an answer needs while the person reads or types."""
        await asyncio.sleep(WARM_UP_AFTER_S)
        from tau.screen.warm_up import warm_up

        await run_in_thread(self._preload, "preload")
        await run_in_thread(warm_up, "warm-up")

    def leave(self) -> None:
        """Erase the box; the transcript stays."""
        self._tasks.cancel()
        self._display.erase_box()

    # Events of the session.

    def on_event(self, event: Event | Update | UiRequest) -> None:
        if not isinstance(event, UiRequest):
            self._screen.on_event(event)
        elif isinstance(event, Dialog):
            self._questions.add(event)
        else:
            self._extensions.show(event)

    def _follow_settings(self) -> None:
        """Settings have changed: use those that concern the screen."""
        settings = self.handle.settings
        self.view.transcript.hide_thinking = settings.hide_thinking_block
        self._input.prompt.completion.show_rows(settings.autocomplete_max_visible)
        self._use_terminal_settings()
        self.start(
            self._input.update_commands()
        )  # of skills that a setting turns off, or of files that were read again
        self._screen.update_footer()
        self.changed()

    def _use_terminal_settings(self) -> None:
        settings = self.handle.settings
        self._notices.setting = settings.notifications
        self._notices.show_progress(settings.terminal.show_terminal_progress)
        self._terminal.facts.reflow_setting = settings.terminal.reflow

    def _reload_keys(self) -> Sequence[str]:
        """Read keybindings.json again. Returns the mistakes in it."""
        self._input.problems.clear()
        self._keyboard.bindings = self._input.load_bindings()
        return self._input.problems

    def _next_change(self) -> float | None:
        """When the screen changes by itself: a question counts down, or has waited long enough to notify."""
        due = [self._questions.next_change(), self._notices.next_change()]
        return min((time for time in due if time is not None), default=None)

    def _after_frame(self) -> None:
        self._extensions.draw()
        self._notices.show_questions(len(self._questions))
        self._notices.update()

    # Keys.

    def _on_input(self, events: list[InputEvent]) -> None:
        if self._stop.asked:
            return  # the session is being closed: what is typed now is not for it
        self._keyboard.handle([event for event in events if not self._is_from_terminal(event)])
        self._display.changed(at_once=True, in_turn=not self._input.completions.pending)

    def _is_from_terminal(self, event: InputEvent) -> bool:
        """Take what the terminal itself tells; the rest was typed or pasted."""
        if isinstance(event, Focus):
            self._notices.on_focus(event.gained)
            return True
        if not isinstance(event, Reply):
            return False
        if event.name in ("background", "colorScheme"):
            self.looks.background(event.value)
        return True

    def _on_offer(self, query: Query, proposals: Sequence[Proposal]) -> None:
        self._keyboard.offer(query, proposals)
        self.changed()

    def _show_modal(self, modal: Modal | None) -> None:
        full = modal is not None and getattr(modal, "full_screen", False)
        self.view.modal = None if full else modal
        self._display.show_full_screen(modal if full else None)

    def _at_rest(self) -> bool:
        """True if a question may take the focus: nothing is typed, and nothing else is open."""
        return self.view.editor.empty and not self._modals.open

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
        elif self.view.working.state.retry is not None:
            self.start(self.handle.retry_now())

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
        self._screen.update_footer()
        self.changed()

    def deny_question(self) -> bool:
        """Deny or cancel the question that is shown above the editor. Returns False if there is none."""
        return self._questions.escape()

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

    @property
    def has_screen(self) -> bool:
        return True

    def set_editor_text(self, text: str, *, replace: bool = True) -> None:
        if replace or self.view.editor.empty:
            self.view.editor.set_text(text)
        self.changed()

    async def copy(self, text: str) -> str:
        return await self._input.copy(text, self._terminal.write)

    def show_session(self, title: str, lines: int) -> None:
        self._input.use_folder()
        self._screen.show_session(title, lines)

    def show_messages(self, title: str, messages: Sequence[object], lines: int) -> None:
        self._screen.show_messages(title, messages, lines)

    async def show_transcript(self) -> None:
        from tau.tui.transcript_viewer import Run, view_transcript

        active = self.view.working.agent_active
        if not active and not self.handle.log.message_count:
            self.say("The session is empty.")
            return
        run = Run(self._screen.feed, active, self._questions.__len__)
        await view_transcript(self, self.view.transcript, run, self._show_externally)

    async def _show_externally(self, text: str) -> None:
        await self._input.show_externally(text, self._terminal.handed_over())

    async def submit(self, text: str) -> None:
        await submit(self, text)

    async def run_bash(self, command: str, *, exclude: bool) -> None:
        await self._screen.run_bash(command, exclude=exclude)

    @property
    def bash_running(self) -> int:
        return self._screen.bash_running

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


def _view(handle: SessionHandle, factory: SessionFactory, calls: ExtensionCalls, input: PromptInput) -> View:
    def readable(text: str) -> str:
        return readable_error(text, handle.models)

    transcript = Transcript(
        readable=readable,
        renderers=Renderers(calls.renders_tool, calls.renders_message),
        hyperlinks=supports_hyperlinks(os.environ),
    )
    transcript.hide_thinking = factory.settings.hide_thinking_block
    return View(transcript, input.prompt, Working(readable=readable, budget=factory.options.budget))

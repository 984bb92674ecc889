"""Plain mode: lines only, for screen readers and simple terminals. Nothing moves the cursor.

The user types or pastes a prompt, the answer streams, each tool call is one line. Slash commands are those of the
screen; a choice is a numbered list. A command that does not exist is refused, not sent to the model; `//text` and a
leading space send it.

The terminal belongs to the main thread, where readline works; the agent runs in an event loop in another thread, so
that its background work continues while the user is typing. Only the main thread knows what a Ctrl-C refers to. Other
signals are handled in the event loop, through a wakeup pipe: the main thread may be waiting for a line and would
handle them only after it.

    Ctrl-C    stops the answer, also while it waits for a dialog; while a line is typed, discards the line
    Ctrl-D    exits

Without a terminal (`tau attach` in a script) each line of the input is a prompt or a command, and never the answer to a
question: other clients of the session answer it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import readline
import signal
import termios
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from tau import __version__
from tau.core.agent.draft import Update
from tau.core.checks.exit_codes import ANSWERED, FAILED, USAGE, exit_code_of_signal
from tau.core.text.terminal_text import escape_for_display
from tau.errors import CommandError, TauError
from tau.records.dialogs import UiRequest
from tau.records.events import Event
from tau.runtime.app.batch import Prompt
from tau.runtime.app.handle import SessionHandle
from tau.runtime.app.process import SHUTDOWN_TIMEOUT_S, leave
from tau.runtime.extensions.dialogs import Question
from tau.runtime.models.readable_errors import readable_error
from tau.runtime.services import Client
from tau.runtime.terminal import complain, say
from tau.store.files import make_folder
from tau.store.paths import agent_dir
from tau.tui.commands import find_command
from tau.tui.line_input import LineInput, PipedInput, accept_pastes
from tau.tui.plain_dialogs import TerminalDialogs
from tau.tui.plain_output import PlainOutput
from tau.tui.plain_surface import PlainSurface
from tau.tui.submit import submit

logger = logging.getLogger(__name__)

PROMPT = "> "
HISTORY_LINES = 1000
RESEND_AFTER_S = 0.1
OpenOrConnect = Callable[[Client], SessionHandle | Awaitable[SessionHandle]]


def serve(open_session: OpenOrConnect, prompts: Sequence[Prompt]) -> NoReturn:
    """Chat until the user exits. The process ends here."""
    code = ANSWERED
    chat: Chat | None = None
    try:
        chat = Chat(open_session)
        chat.talk(prompts)
    except TauError as error:
        complain(f"Error: {error}")
        code = USAGE
    except Exception:
        logger.exception("the chat ended unexpectedly")
        code = FAILED
    except KeyboardInterrupt:  # while the session is being opened
        code = exit_code_of_signal(signal.SIGINT)
    finally:
        if chat is not None:
            chat.end()
        leave(code)


class Chat:
    def __init__(self, open_session: OpenOrConnect) -> None:
        self._at_terminal = os.isatty(0) and os.isatty(1)
        self._loop = asyncio.new_event_loop()
        self._desk = TerminalDialogs(self._loop.call_soon_threadsafe)
        self._screen = PlainOutput(self._on_question)
        self._stopping: asyncio.Future[None] | None = None
        self._typing = False  # the user is typing a line
        self._discarded = 0  # number of discarded lines
        self._in_dialog = False  # a dialog is open
        self._quitting = False
        threading.Thread(target=self._loop.run_forever, name="tau-agent", daemon=True).start()
        self._handle: SessionHandle = self._wait(_open(open_session, self._screen.show, self._desk))
        self._surface = PlainSurface(self._handle, self._screen, self._quit)
        self._screen.readable = lambda text: readable_error(text, self._handle.models)
        self._history = agent_dir() / "tau_history"
        self._terminal = termios.tcgetattr(0) if self._at_terminal else None
        self._input = LineInput(PROMPT, _is_command) if self._at_terminal else PipedInput()
        self._wakeup, wakeup_write = os.pipe()
        os.set_blocking(wakeup_write, False)
        signal.set_wakeup_fd(wakeup_write, warn_on_full_buffer=False)
        for name in ("SIGTERM", "SIGHUP", "SIGINT"):
            signal.signal(getattr(signal, name), self._on_interrupt)
        self._loop.call_soon_threadsafe(self._loop.add_reader, self._wakeup, self._on_signal)

    def talk(self, prompts: Sequence[Prompt]) -> None:
        model = self._handle.models.current
        if self._at_terminal:
            say(f"tau {__version__}, {model.id if model else 'no model'}. /help lists the commands; Ctrl-D exits.")
        if self._at_terminal:
            _load_history(self._history)
            accept_pastes()
        for prompt in prompts:
            self._say(prompt)
        while not self._quitting and (line := self._line()) is not None:
            for question in self._desk.take_queued():
                self._answer(question)
            if line.strip():
                self._handle_line(line)

    def end(self) -> None:
        """Stop the run and save the history."""
        if self._at_terminal:
            _save_history(self._history)
        with suppress(Exception):
            self._start(self._handle.close(SHUTDOWN_TIMEOUT_S)).result(2 * SHUTDOWN_TIMEOUT_S)
        self._handle.kill()

    def _handle_line(self, line: str) -> None:
        self._run(_run_line(self._surface, line))

    def _quit(self) -> None:
        self._quitting = True

    def _say(self, prompt: Prompt) -> None:
        self._run(_ask(self._handle, prompt))

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            self._wait(work)
        except CommandError as error:
            say(f"Error: {error}")

    def _wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine in the agent's loop and return its result. Dialogs are shown meanwhile."""
        future = self._start(work)
        future.add_done_callback(lambda _: self._desk.wake())
        while (question := self._desk.next()) is not None:
            self._answer(question)
        return future.result()

    def _on_question(self, question: Question) -> None:
        """Runs in the agent's loop."""
        if not self._at_terminal:
            self._screen.say(f"\nA question waits for another client: {escape_for_display(question.title)}\n")
            return
        self._desk.put(question)
        if self._typing:
            self._screen.say("\nThere is a question. Press Enter to see it.\n")

    def _answer(self, question: Question) -> None:
        self._in_dialog = True
        self._screen.hold()
        try:
            self._desk.ask(question)
        finally:
            self._in_dialog = False
            self._screen.go_on()

    def _line(self) -> str | None:
        """The next line; None at the end of input."""
        while True:
            self._typing = True
            try:
                return self._input.read()
            except KeyboardInterrupt:
                if not self._at_terminal:
                    raise
                self._discarded += 1
                say()
            except EOFError:
                if self._at_terminal:
                    say()
                return None
            finally:
                self._typing = False

    def _on_interrupt(self, number: int, frame: object) -> None:
        """Runs in the main thread, which knows what a Ctrl-C refers to."""
        if number != signal.SIGINT:
            return
        if self._typing:
            raise KeyboardInterrupt
        self._loop.call_soon_threadsafe(self._stop_answer)

    def _stop_answer(self) -> None:
        self._stopping = asyncio.ensure_future(_abort(self._handle))

    def _on_signal(self) -> None:
        """Runs in the agent's loop when signals have arrived."""
        for number in os.read(self._wakeup, 64):
            if number in (signal.SIGTERM, signal.SIGHUP):
                self._stopping = asyncio.ensure_future(self._leave(exit_code_of_signal(number)))
            elif number == signal.SIGINT and self._typing:
                self._loop.call_later(RESEND_AFTER_S, self._resend_interrupt, self._discarded)
            elif number == signal.SIGINT and self._in_dialog:  # the main thread may be blocked in a system call
                self._stop_answer()

    def _resend_interrupt(self, discarded: int) -> None:
        """Send SIGINT again: readline misses one that arrives just before it begins to wait for a key."""
        if self._typing and self._discarded == discarded:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    async def _leave(self, code: int) -> None:
        await self._handle.close(SHUTDOWN_TIMEOUT_S)
        if self._terminal is not None:
            with suppress(termios.error):  # the terminal may be gone
                termios.tcsetattr(0, termios.TCSANOW, self._terminal)
        leave(code)

    def _start(self, work: Coroutine[Any, Any, Any]) -> Future[Any]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)


def _is_command(line: str) -> bool:
    word = line.strip().partition(" ")[0]
    return word.startswith("/") and find_command(word[1:]) is not None


def _load_history(path: Path) -> None:
    readline.set_history_length(HISTORY_LINES)
    with suppress(OSError):
        readline.read_history_file(path)


def _save_history(path: Path) -> None:
    with suppress(OSError):
        make_folder(path.parent)
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))  # private: the file contains the user's prompts
        readline.write_history_file(path)


# The coroutines below run in the agent's loop.


async def _open(
    open_session: OpenOrConnect, client: Callable[[Event | Update | UiRequest], None], dialogs: TerminalDialogs
) -> SessionHandle:
    opened = open_session(client)
    handle = opened if isinstance(opened, SessionHandle) else await opened
    dialogs.attach(handle.dialogs)
    await handle.start()
    return handle


async def _run_line(surface: PlainSurface, line: str) -> None:
    """Carry out a line, and wait until everything it started has ended."""
    await submit(surface, line)
    await surface.handle.settled()


async def _ask(session: SessionHandle, prompt: Prompt) -> None:
    await session.submit(prompt.text, prompt.images, None)
    await session.settled()


async def _abort(session: SessionHandle) -> None:
    session.abort_bash()
    await session.abort()

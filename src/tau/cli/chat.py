"""A plain chat at a terminal: a line is asked, the answer streams, a line for every tool call.

The terminal belongs to the main thread, where readline works; the agent lives in
a loop of its own beside it, so that what it has to do in the background is done
while a person thinks. What a Ctrl-C is meant for, the main thread knows. Other
signals are heeded in the loop, by way of a pipe: the main thread may be in the
middle of a line, and would not hear them before its end.

    Ctrl-C    stops the answer, also while it waits for one of ours; while a line is written, drops the line
    Ctrl-D    leaves
"""

from __future__ import annotations

import asyncio
import logging
import os
import readline
import signal
import termios
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from tau import __version__
from tau.cli.progress import call, one_line, width
from tau.cli.terminal_dialogs import Desk
from tau.core.agent.draft import Update
from tau.core.checks.exit_codes import ANSWERED, FAILED, USAGE, signalled
from tau.core.text.terminal_text import Cleaner, message
from tau.errors import CommandError, TauError, UsageError
from tau.records.deltas import TextDelta, TextEnd
from tau.records.dialogs import Confirm, Editor, Input, Notify, Select, UiRequest
from tau.records.events import AutoRetryStart, CompactionStart, Event, MessageEnd, ToolEnd, ToolStart
from tau.records.messages import Assistant, Text
from tau.runtime.app.batch import Open, Prompt, settled
from tau.runtime.app.process import FAREWELL, leave, within
from tau.runtime.extensions.dialogs import Question
from tau.runtime.session.session import Session
from tau.runtime.terminal import complain, say, stream
from tau.store.files import make_folder
from tau.store.paths import agent_dir

log = logging.getLogger(__name__)

ASK = "> "
REMEMBERED = 1000  # lines of history
AGAIN = 0.1


def serve(open_session: Open, prompts: Sequence[Prompt]) -> NoReturn:
    """Chat until the person leaves. The process ends here."""
    code = ANSWERED
    chat: Chat | None = None
    try:
        chat = Chat(open_session)
        chat.talk(prompts)
    except TauError as error:
        complain(f"Error: {error}")
        code = USAGE
    except Left:
        pass
    except Exception:
        log.exception("the chat broke off")
        code = FAILED
    except KeyboardInterrupt:  # while the session was opened
        code = signalled(signal.SIGINT)
    finally:
        if chat is not None:
            chat.end()
        leave(code)


class Left(Exception):
    """Somebody said /quit."""


class Chat:
    def __init__(self, open_session: Open) -> None:
        self._loop = asyncio.new_event_loop()
        self._desk = Desk(self._loop.call_soon_threadsafe)
        self._screen = Screen(self._asked)
        self._stopping: asyncio.Future[None] | None = None
        self._writing = False  # a line is being written
        self._dropped = 0  # lines that were not sent
        self._answering = False  # a question
        threading.Thread(target=self._loop.run_forever, name="tau-agent", daemon=True).start()
        opened = self._wait(_opened(open_session, self._screen.show, self._desk))
        self._session, self._machine, _ = opened
        self._history = agent_dir() / "tau_history"
        self._terminal = termios.tcgetattr(0)
        self._heard, told = os.pipe()
        os.set_blocking(told, False)
        signal.set_wakeup_fd(told, warn_on_full_buffer=False)
        for name in ("SIGTERM", "SIGHUP", "SIGINT"):
            signal.signal(getattr(signal, name), self._interrupted)
        self._loop.call_soon_threadsafe(self._loop.add_reader, self._heard, self._heed)

    def talk(self, prompts: Sequence[Prompt]) -> None:
        model = self._session.models.current
        say(f"tau {__version__}, {model.id if model else 'no model'}. /help tells what can be said; Ctrl-D leaves.")
        _recall(self._history)
        for prompt in prompts:
            self._say(prompt)
        while (line := self._line()) is not None:
            for question in self._desk.here():
                self._answer(question)
            if line.strip() and not self._obey(line.strip()):
                self._say(Prompt(line))

    def end(self) -> None:
        """Stop what runs, and keep what was said."""
        _keep(self._history)
        with suppress(Exception):
            self._started(within(FAREWELL, self._session.close())).result(2 * FAREWELL)
        self._machine.kill_all()

    def _obey(self, line: str) -> bool:
        """Whether it was a command of ours; everything else is said to the agent."""
        name, _, rest = line.partition(" ")
        if name not in COMMANDS:
            return False
        _, what = COMMANDS[name]
        self._do(what(self._session, rest.strip()))
        return True

    def _say(self, prompt: Prompt) -> None:
        self._do(_ask(self._session, prompt))

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            self._wait(work)
        except CommandError as error:
            say(f"Error: {error}")

    def _wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        """What comes of it. Questions that it has are asked meanwhile."""
        doing = self._started(work)
        doing.add_done_callback(lambda _: self._desk.nudge())
        while (question := self._desk.next()) is not None:
            self._answer(question)
        return doing.result()

    def _asked(self, question: Question) -> None:
        """In the agent's loop."""
        self._desk.put(question)
        if self._writing:
            self._screen.say("\nThere is a question. Press Enter to see it.\n")

    def _answer(self, question: Question) -> None:
        self._answering = True
        self._screen.hold()
        try:
            self._desk.ask(question)
        finally:
            self._answering = False
            self._screen.go_on()

    def _line(self) -> str | None:
        """The next line, None when there are no more."""
        while True:
            self._writing = True
            try:
                return input(ASK)
            except KeyboardInterrupt:
                self._dropped += 1
                say()
            except EOFError:
                say()
                return None
            finally:
                self._writing = False

    # Signals.

    def _interrupted(self, number: int, frame: object) -> None:
        """In the main thread, which knows what a Ctrl-C was meant for."""
        if number != signal.SIGINT:
            return
        if self._writing:
            raise KeyboardInterrupt
        self._loop.call_soon_threadsafe(self._stop_answer)

    def _stop_answer(self) -> None:
        self._stopping = asyncio.ensure_future(_abort(self._session))

    def _heed(self) -> None:
        """In the agent's loop: signals came."""
        for number in os.read(self._heard, 64):
            if number in (signal.SIGTERM, signal.SIGHUP):
                self._stopping = asyncio.ensure_future(self._leave(signalled(number)))
            elif number == signal.SIGINT and self._writing:
                self._loop.call_later(AGAIN, self._remind, self._dropped)
            elif number == signal.SIGINT and self._answering:  # the main thread may not hear it where it waits
                self._stop_answer()

    def _remind(self, dropped: int) -> None:
        """A signal that comes just before readline begins to wait is not heard there until a key is pressed."""
        if self._writing and self._dropped == dropped:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    async def _leave(self, code: int) -> None:
        await within(FAREWELL, self._session.close())
        self._machine.kill_all()
        with suppress(termios.error):  # it may be gone
            termios.tcsetattr(0, termios.TCSANOW, self._terminal)
        leave(code)

    def _started(self, work: Coroutine[Any, Any, Any]) -> Future[Any]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)


class Screen:
    """Events, as a person reads them. A model's words must not steer a terminal."""

    def __init__(self, asked: Callable[[Question], None]) -> None:
        self._asked = asked
        self._cleaner = Cleaner()
        self._lock = threading.Lock()
        self._held: list[str] | None = None

    def show(self, event: Event | Update | UiRequest) -> None:
        match event:
            case Update(delta=TextDelta(delta=piece)):
                self.say(self._cleaner.feed(piece))
            case Update(delta=TextEnd()):
                self._cleaner.end()
                self.say("\n")
            case ToolStart():
                self.say(f"* {call(event)[: width(1) - 2]}\n")
            case ToolEnd(is_error=True, result=result):
                said = " ".join(block.text for block in result.content if isinstance(block, Text))
                self.say(f"  failed: {one_line(said)[: width(1) - 10]}\n")
            case MessageEnd(message=Assistant(failed=True) as answer):
                why = "Stopped." if answer.stop_reason == "aborted" else message(f"Error: {answer.error_message}")
                self.say(f"\n{why}\n")
            case MessageEnd(message=Assistant(stop_reason="length")):
                self.say("\nThe answer was cut off at the limit of its length.\n")
            case AutoRetryStart():
                self.say(f"Try {event.attempt} of {event.max_attempts} follows in {event.delay_ms / 1000:.0f} s.\n")
            case CompactionStart():
                self.say("The conversation is being summarised.\n")
            case Select() | Confirm() | Input() | Editor():
                self._asked(event)
            case Notify(message=text):
                self.say(f"{message(text)}\n")

    def say(self, text: str) -> None:
        with self._lock, suppress(OSError):
            if self._held is not None:
                self._held.append(text)
                return
            stream(text)

    def hold(self) -> None:
        """Say nothing: somebody reads a question."""
        with self._lock:
            self._held = []

    def go_on(self) -> None:
        with self._lock:
            held, self._held = self._held or [], None
        self.say("".join(held))


# The terminal.


def _recall(path: Path) -> None:
    readline.set_history_length(REMEMBERED)
    with suppress(OSError):
        readline.read_history_file(path)


def _keep(path: Path) -> None:
    with suppress(OSError):
        make_folder(path.parent)
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))  # what one asks is nobody else's business
        readline.write_history_file(path)


# What is done in the agent's loop.


async def _opened(open_session: Open, client: Callable[[Event | Update | UiRequest], None], desk: Desk) -> Any:
    opened = open_session(client)
    desk.attend(opened[0].dialogs)
    if opened[0].guests.expected:
        await opened[0].guests.begin()
    return opened


async def _ask(session: Session, prompt: Prompt) -> None:
    await session.hearing.hear(prompt.text, prompt.images, None)
    await settled(session)


async def _abort(session: Session) -> None:
    await session.abort()


async def _help(session: Session, rest: str) -> None:
    for name, (about, _) in COMMANDS.items():
        say(f"{name:<12}{about}")


async def _new(session: Session, rest: str) -> None:
    await session.moves.to_new(None)
    say("A new session.")


async def _model(session: Session, rest: str) -> None:
    if rest:
        try:
            level = None if ":" in rest else session.models.level
            for warning in session.models.choose(session.settings, pattern=rest, level=level):
                say(f"Warning: {warning}")
        except UsageError as error:
            raise CommandError(str(error)) from None
        assert session.models.current is not None
        session.log.set_model(session.models.current)
        session.kept_soon()
    model = session.models.current
    say(f"{model.provider}/{model.id}, thinking {session.models.level}" if model else "No model is chosen.")


async def _compact(session: Session, rest: str) -> None:
    result = await session.compactor.compact(rest or None)
    session.kept_soon()
    say(f"Done: {result.tokens_before} tokens became a summary of {len(result.summary)} characters.")


async def _quit(session: Session, rest: str) -> None:
    raise Left


Command = Callable[[Session, str], Coroutine[Any, Any, None]]
COMMANDS: dict[str, tuple[str, Command]] = {
    "/help": ("what can be said", _help),
    "/new": ("begin a new session", _new),
    "/model": ("which model answers; with a name, choose another", _model),
    "/compact": ("summarise the conversation so far; words after it say what matters", _compact),
    "/quit": ("leave, as Ctrl-D does", _quit),
}

"""argv to a door. Everything heavy is loaded behind the door that needs it."""

from __future__ import annotations

import gc
import os
import signal
import sys
from functools import partial
from importlib import import_module
from typing import Any, NoReturn

from tau import __version__
from tau.cli.flags import Given, help_text, parse
from tau.core.checks.exit_codes import ANSWERED, FAILED, USAGE, signalled
from tau.errors import UsageError

# What `pi --version` says: clients look for a release of pi whose protocol they know.
PI_VERSION = "0.87.1"
DOORS = {
    "text": "tau.cli.print_mode",
    "json": "tau.rpc.json_mode",
    "rpc": "tau.rpc.stdio",
    "chat": "tau.cli.chat",
}
MODES = ("text", "json", "rpc")  # those that can be named; a chat is what is left
# Flags that do something else than to run the agent.
TASKS = {"list-models": "tau.cli.models", "export": "tau.cli.export"}
# Only under the name tau: to pi, a word is something to say to the model.
COMMANDS = {
    "completion": "tau.cli.completion",
    "doctor": "tau.cli.doctor",
    "extension": "tau.cli.extension",
    "trust": "tau.cli.trust",
}
NOTHING_ASKED = "There is nothing to answer: no message was given, and nothing came in on stdin."


def pi() -> None:
    _process("pi")


def tau() -> None:
    _process("tau")


def _process(program: str) -> NoReturn:
    sys.excepthook = lambda *found: _terminal().uncaught(*found)
    for number, stream in enumerate((sys.stdin, sys.stdout, sys.stderr)):
        if stream is None:  # closed: else the next file that is opened takes its number, and what is meant for it
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
    sys.exit(main(program, sys.argv[1:]))


def _terminal() -> Any:
    return import_module("tau.runtime.terminal")


def main(program: str, argv: list[str]) -> int:
    try:
        code = run(program, parse(argv))
        if sys.stdout is None:
            _terminal().complain("Error: the output could not be written: stdout is closed.")
            return FAILED
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # who read us has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return ANSWERED
    except KeyboardInterrupt:
        return signalled(signal.SIGINT)
    except UsageError as error:
        _terminal().complain(f"Error: {error}")
        return USAGE
    finally:
        gc.enable()  # also if the start went wrong: who called us may go on


def run(program: str, given: Given) -> int:
    flags = given.flags
    if "help" in flags:
        print(help_text(program))
        return ANSWERED
    if "version" in flags:
        print(__version__ if program != "pi" else pi_version(flags.get("dialect")))
        return ANSWERED
    command = COMMANDS.get(given.words[0]) if program == "tau" and given.words else None
    task = next((TASKS[name] for name in TASKS if name in flags), command)
    if task is not None:
        if given.unknown:
            raise UsageError(import_module("tau.cli.suggestions").refusal(given.unknown))
        _terminal().log_to_stderr()
        done: int = import_module(task).main(given)
        return done
    enter(mode_of(flags, at_a_terminal=os.isatty(0) and os.isatty(1)), given)


def mode_of(flags: dict[str, str], *, at_a_terminal: bool) -> str:
    """A mode that is named counts, whatever else is said. Without a terminal there is nobody to chat with."""
    mode = flags.get("mode")
    if mode is not None:
        if mode not in MODES:
            raise UsageError(f'Unknown mode "{mode}". There are --mode text, json and rpc.')
        return mode
    return "chat" if at_a_terminal and "print" not in flags else "text"


def enter(mode: str, given: Given) -> NoReturn:
    """Open a door and go through it. The process ends behind it."""
    flags = given.flags
    if "result" in flags and mode != "json":
        raise UsageError("--result is for --mode json")
    if mode == "rpc" and any(word.startswith("@") for word in given.words):
        raise UsageError("@file arguments are not supported in RPC mode")
    signal.signal(signal.SIGTERM, _stopped)
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # as nohup sets it
        signal.signal(signal.SIGHUP, _stopped)
    _load_quickly()
    # Before anything else is read: who pipes something in may be about to write the session that we go on with.
    piped = import_module("tau.cli.prompts").read_pipe() if mode in ("text", "json") else ""
    opening = import_module("tau.cli.session_options").opening(given)
    if given.unknown and not opening.extensions:  # else one of them may know it
        raise UsageError(import_module("tau.cli.suggestions").refusal(given.unknown))
    door: Any = import_module(DOORS[mode])
    gc.freeze()
    gc.enable()
    if mode == "rpc":
        door.serve(opening.session, opening.dialect)
    open_session = partial(opening.session, mode="json" if mode == "json" else "print")
    resize = opening.settings.images.auto_resize
    asked = import_module("tau.cli.prompts").gathered(given.words, piped=piped, resize=resize)
    if mode == "text" and not asked:
        raise UsageError(NOTHING_ASKED)
    if mode == "json":
        door.serve(open_session, asked, opening.dialect, result="result" in flags)
    door.serve(open_session, asked)
    raise AssertionError("a door ends with its process")


def _load_quickly() -> None:
    """Spare the start what it would pay for nothing."""
    gc.disable()  # what is loaded stays, so there is nothing to collect until it is
    if "typing_extensions" not in sys.modules:
        # If it is installed, msgspec loads it, for names that Python has by itself since 3.11. That takes 10 ms.
        sys.modules["typing_extensions"] = None  # type: ignore[assignment]
        import_module("tau.records.base")
        del sys.modules["typing_extensions"]


def _stopped(number: int, frame: object) -> NoReturn:
    """Until the door has handlers of its own: we may wait long for what is piped in."""
    sys.exit(signalled(number))


def pi_version(dialect: str | None) -> str:
    """The release of pi that clients may take us for. What is read for it is looked for first: this is asked often."""
    chosen = dialect or os.environ.get("PI_DIALECT")
    folder = os.environ.get("PI_CODING_AGENT_DIR") or os.path.join("~", ".pi", "agent")
    if chosen is None and not os.path.exists(os.path.join(os.path.expanduser(folder), "settings.json")):
        return PI_VERSION
    told: str = import_module("tau.cli.session_options").dialect(chosen).pi
    return told

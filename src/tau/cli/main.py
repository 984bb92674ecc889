"""Entry points of `pi` and `tau`: parse the arguments and start a mode or a task.

Each mode is a module that is loaded only when it is needed.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from functools import partial
from importlib import import_module
from typing import Any, NoReturn

from tau import __version__
from tau.cli.flags import ParsedArguments, help_text, parse
from tau.core.checks.exit_codes import ANSWERED, FAILED, OWN_FLAGS, USAGE, exit_code_of_signal
from tau.errors import SessionFolderGone, UsageError

FRONT_ENDS = {
    "text": "tau.cli.print_mode",
    "json": "tau.rpc.json_mode",
    "rpc": "tau.rpc.stdio",
    "plain": "tau.tui.plain",
    "tui": "tau.tui.app",
    "bridge": "tau.rpc.bridge",
    "attached": "tau.tui.attached",
    "acp": "tau.acp.stdio",
}
MODES = ("text", "json", "rpc", "acp")  # values of --mode; tui is the default at a terminal
# Flags that do not run the agent.
TASKS = {"list-models": "tau.cli.models", "export": "tau.cli.export"}
# Commands of the program tau; pi has those of FIRST_WORDS.
COMMANDS = {
    "acp": "tau.acp.stdio",
    "attach": "tau.cli.attach",
    "completion": "tau.cli.completion",
    "config": "tau.cli.packages",
    "doctor": "tau.cli.doctor",
    "extension": "tau.cli.extension",
    "fleet": "tau.fleet.command",
    "install": "tau.cli.packages",
    "list": "tau.cli.packages",
    "login": "tau.cli.login",
    "logout": "tau.cli.login",
    "mcp": "tau.cli.mcp",
    "remove": "tau.cli.packages",
    "serve": "tau.serve.command",
    "sessions": "tau.cli.sessions",
    "trust": "tau.cli.trust",
    "uninstall": "tau.cli.packages",
    "update": "tau.cli.packages",
}
PACKAGE_COMMANDS = ("install", "remove", "uninstall", "update", "list", "config")
FIRST_WORDS = (*PACKAGE_COMMANDS, "auth", "mcp")  # commands of both programs, as in pi: never a prompt
SESSION_FLAGS = ("continue", "resume", "session", "session-id", "fork", "name")  # they choose or name a session
OWN_ARGUMENTS = (*FIRST_WORDS, "fleet")  # commands that parse what follows them themselves, so they stand first
NO_PROMPT = "There is no prompt: give a message, or pipe text to stdin."


def pi() -> None:
    process("pi")


def tau() -> None:
    process("tau")


def process(program: str) -> NoReturn:
    """Run the program as this process, and end it."""
    sys.excepthook = lambda *found: _terminal().uncaught(*found)
    for number, stream in enumerate((sys.stdin, sys.stdout, sys.stderr)):
        if stream is None:  # closed: the next opened file would get its descriptor, and the data meant for it
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
    sys.exit(main(program, sys.argv[1:]))


def _terminal() -> Any:
    return import_module("tau.runtime.terminal")


def main(program: str, argv: list[str]) -> int:
    try:
        first = argv[0] if argv else ""
        is_command = first in COMMANDS and (program == "tau" or first in FIRST_WORDS)
        if is_command and first in OWN_ARGUMENTS:
            _terminal().log_to_stderr()
            module: Any = import_module(COMMANDS[first])
            code: int = module.main(argv if first in PACKAGE_COMMANDS else argv[1:])
        else:
            code = run(parse(argv, program))
        if sys.stdout is None:
            _terminal().complain("Error: the output could not be written: stdout is closed.")
            return FAILED
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            _discard_output()
        return code
    except BrokenPipeError:  # the reader closed the pipe
        _discard_output()
        return ANSWERED
    except KeyboardInterrupt:
        return exit_code_of_signal(signal.SIGINT)
    except SessionFolderGone as error:  # as pi words it
        for line in str(error).split("\n"):
            _terminal().complain(line)
        return FAILED
    except UsageError as error:
        _terminal().complain(f"Error: {error}")
        return USAGE
    finally:
        gc.enable()  # also after a failed start: the calling process may continue


def _discard_output() -> None:
    """What is still in the buffer goes nowhere when the process ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _command(arguments: ParsedArguments) -> str:
    """The command to run, or "". A word that is a command elsewhere, or not like this, is refused: it is not a prompt.

    Raises UsageError. Commands that read their own arguments stand first; with -p or --mode no command is meant.
    """
    program, word, words = arguments.program, arguments.command, arguments.words
    prompts = not arguments.flags.keys().isdisjoint(("print", "mode"))
    if program == "tau" and word in COMMANDS and word not in OWN_ARGUMENTS and not prompts:
        return word
    if word.replace("-", "a").isalpha():
        check: Any = import_module("tau.cli.suggestions").check_command
        check(program, word, FIRST_WORDS, list(COMMANDS), alone=len(words) == 1)
    return ""


def run(arguments: ParsedArguments) -> int:
    flags, program = arguments.flags, arguments.program
    if "help" in flags:
        known = program == "tau" and arguments.command in COMMANDS
        texts: Any = import_module("tau.cli.command_help").COMMAND_HELP if known else {}
        print(texts[arguments.command] if known else help_text(program))
        return ANSWERED
    if "version" in flags:
        print(__version__ if program != "pi" else pi_version(flags.get("dialect")))
        return ANSWERED
    name = "" if TASKS.keys() & flags.keys() else _command(arguments)
    if name == "acp":
        start_acp(arguments)
    if name == "attach":
        _start_connected("attached", arguments)
    task = next((TASKS[flag] for flag in TASKS if flag in flags), COMMANDS.get(name))
    if task is not None:
        if "export" in flags or name == "serve":
            load_quickly()
        module = import_module(task)
        if name == "serve":
            gc.enable()  # it stays for long
        unknown = [word for word in arguments.unknown if word not in getattr(module, "OWN_FLAGS", ())]
        if unknown:
            raise UsageError(import_module("tau.cli.suggestions").unknown_flags_error(unknown))
        _terminal().log_to_stderr()
        done: int = module.main(arguments)
        return done
    start_mode(mode_of(flags, at_a_terminal=os.isatty(0) and os.isatty(1)), arguments)


def mode_of(flags: dict[str, str], *, at_a_terminal: bool) -> str:
    """An explicit `--mode` always wins. Chat needs a terminal."""
    mode = flags.get("mode")
    if mode is not None:
        if mode not in MODES:
            raise UsageError(f'Unknown mode "{mode}". Use --mode text, json, rpc or acp.')
        return mode
    if not at_a_terminal or "print" in flags:
        return "text"
    plain = "plain" in flags or os.environ.get("TERM", "") in ("", "dumb") or os.environ.get("TAU_SCREEN_READER") == "1"
    return "plain" if plain else "tui"


def start_mode(mode: str, arguments: ParsedArguments) -> NoReturn:
    """Start a mode. It ends the process."""
    flags = arguments.flags
    if mode == "acp":
        start_acp(arguments)
    if "result" in flags and mode != "json":
        raise UsageError("--result is for --mode json")
    if mode == "rpc" and any(word.startswith("@") for word in arguments.words):
        raise UsageError("@file arguments are not supported in RPC mode")
    _exit_on_signals()
    load_quickly()
    if "connect" in flags:
        _start_connected("bridge", arguments)
    import_module("tau.runtime.machine.core_dumps").forbid_core_dumps()
    # Before anything else is read: the writing process may be about to write the session that is continued.
    piped = import_module("tau.cli.prompts").read_pipe() if mode in ("text", "json") else ""
    strict = mode in ("text", "plain", "tui")  # clients of the other modes rely on a warning
    picks = mode == "tui" and flags.pop("resume", None) is not None  # the interface lets the person choose a session
    factory = import_module("tau.cli.session_options").create_factory(
        arguments, strict=strict, asks=mode in ("plain", "tui")
    )
    if arguments.unknown and not factory.extensions:  # else an extension may define it
        raise UsageError(import_module("tau.cli.suggestions").unknown_flags_error(arguments.unknown))
    if arguments.program == "pi" and mode != "tui":
        import_module("tau.cli.models_store").write_models_store(factory.config.agent_dir, factory.models.available)
    front_end: Any = import_module(FRONT_ENDS[mode])
    gc.freeze()
    gc.enable()
    if mode == "rpc":
        front_end.serve(factory.open, factory.dialect)
    resize = factory.settings.images.auto_resize
    prompts = []
    if arguments.words or piped:
        prompts = import_module("tau.cli.prompts").gather_prompts(arguments.words, piped=piped, resize=resize)
    if mode == "tui":
        front_end.serve(factory, prompts, pick_session=picks)
    open_session = partial(factory.open, mode="json" if mode == "json" else "print")
    if mode == "text" and not prompts:
        raise UsageError(NO_PROMPT)
    if mode == "json":
        asked = any(name in flags for name in OWN_FLAGS)
        front_end.serve(open_session, prompts, factory.dialect, result="result" in flags, tells_outcome=asked)
    front_end.serve(open_session, prompts)
    raise AssertionError("a front end ends the process")


def _start_connected(front_end: str, arguments: ParsedArguments) -> NoReturn:
    """Start a front end on a session of a host. It ends the process."""
    module: Any = import_module(FRONT_ENDS[front_end])
    if front_end == "attached":
        target = module.Attachment(*import_module("tau.cli.attach").choose(arguments))
    else:
        target = import_module("tau.cli.connect").target_of(arguments)
    gc.enable()
    module.serve(target)
    raise AssertionError("a front end ends the process")


def start_acp(arguments: ParsedArguments) -> NoReturn:
    """Serve an ACP client, or with --setup ask for a key at the terminal. Ends the process.

    The configuration is read with the first session: editors wait for the answer to their first request.
    """
    if "setup" in arguments.flags:
        _terminal().log_to_stderr()
        logins = arguments._replace(words=["login", *arguments.words[1:]])
        sys.exit(import_module("tau.cli.login").main(logins))
    chosen = [flag for flag in SESSION_FLAGS if flag in arguments.flags]
    if chosen:
        raise UsageError(f"--{chosen[0]} is not for tau acp: the client chooses the session.")
    if [word for word in arguments.words if word != "acp"]:
        raise UsageError("tau acp takes no messages: the client sends them.")
    _exit_on_signals()
    load_quickly()
    front_end: Any = import_module(FRONT_ENDS["acp"])
    gc.freeze()
    gc.enable()
    front_end.serve(lambda: import_module("tau.cli.acp_sessions").FlagLoader(arguments))
    raise AssertionError("a front end ends the process")


def load_quickly() -> None:
    """Speed up the start: no garbage collection and no typing_extensions while modules load."""
    gc.disable()  # loaded modules stay, so there is nothing to collect until then
    import_module("tau.cli.quick_imports").install()
    import_module("tau.cli.deferred_modules").defer()
    if "typing_extensions" not in sys.modules:
        # If it is installed, msgspec imports it for names that Python 3.11 has itself. That takes 10 ms.
        sys.modules["typing_extensions"] = None  # type: ignore[assignment]
        import_module("tau.records.base")
        del sys.modules["typing_extensions"]


def _exit_on_signals() -> None:
    signal.signal(signal.SIGTERM, _exit_on_signal)
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # as nohup sets it
        signal.signal(signal.SIGHUP, _exit_on_signal)


def _exit_on_signal(number: int, frame: object) -> NoReturn:
    """Used until the front end installs its own handlers: waiting for piped input may take long."""
    sys.exit(exit_code_of_signal(number))


def pi_version(dialect: str | None) -> str:
    """The release of pi that tau is compatible with: clients look for one whose protocol they know.

    This is called often, so settings are read only if they may choose a dialect.
    """
    chosen = dialect or os.environ.get("PI_DIALECT")
    folder = os.environ.get("PI_CODING_AGENT_DIR") or os.path.join("~", ".pi", "agent")
    if not chosen and os.path.exists(os.path.join(os.path.expanduser(folder), "settings.json")):
        release: str = import_module("tau.cli.session_options").chosen_dialect(None).pi
        return release
    found: str = import_module("tau.wire.releases").find_entry(chosen or "default").pi
    return found

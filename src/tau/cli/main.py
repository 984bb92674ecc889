"""argv to a door. Everything heavy is loaded behind the door that needs it."""

from __future__ import annotations

import os
import sys
from importlib import import_module

from tau import __version__
from tau.cli.flags import Given, help_text, parse
from tau.errors import UsageError

# What `pi --version` says: clients look for a release of pi whose protocol they know.
PI_VERSION = "0.87.1"
DOORS = {"rpc": "tau.rpc.stdio"}
# Only under the name tau: to pi, a word is something to say to the model.
COMMANDS = {"doctor": "tau.cli.doctor", "extension": "tau.cli.extension", "trust": "tau.cli.trust"}


def pi() -> None:
    sys.exit(main("pi", sys.argv[1:]))


def tau() -> None:
    sys.exit(main("tau", sys.argv[1:]))


def main(program: str, argv: list[str]) -> int:
    try:
        code = run(program, parse(argv))
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # who read us has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except UsageError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2


def run(program: str, given: Given) -> int:
    flags = given.flags
    if "help" in flags:
        print(help_text(program))
        return 0
    if "version" in flags:
        print(PI_VERSION if program == "pi" else __version__)
        return 0
    door = DOORS.get(flags.get("mode", ""))
    for word in given.unknown if door is None else ():  # behind a door, an extension may know it
        print(f"Warning: unknown option {word} ignored", file=sys.stderr)
    if "list-models" in flags:
        listed: int = import_module("tau.cli.models").main(given)
        return listed
    if program == "tau" and given.words and given.words[0] in COMMANDS:
        done: int = import_module(COMMANDS[given.words[0]]).main(given)
        return done
    if "export" in flags:
        exported: int = import_module("tau.cli.export").main(given)
        return exported
    mode = flags.get("mode")
    if mode not in DOORS:
        known = ", ".join(DOORS)
        what = f'Unknown mode "{mode}".' if mode else "No mode given."
        raise UsageError(f"{what} This version of tau has: --mode {known}. See {program} --help.")
    if any(word.startswith("@") for word in given.words):
        raise UsageError("@file arguments are not supported in RPC mode")
    opening = import_module("tau.cli.start").opening(given)
    import_module(DOORS[mode]).serve(opening.session)
    return 0

"""Entry points of the programs `pi` and `tau`: hand the job to a warm worker if there is one, else start cold.

This module loads nothing, so that it costs a cold start next to nothing: one look for a file.
"""

# Without `from __future__ import annotations`, which loads a module.
import os
import sys

from tau import ON_WINDOWS


def pi() -> None:
    _start("pi")


def tau() -> None:
    _start("tau")


def _start(program: str) -> None:
    if os.name == "nt":
        sys.stderr.write(f"{ON_WINDOWS}\n")
        sys.exit(2)
    path = warm_socket()
    if path and os.path.exists(path) and sys.argv[1:2] != ["warm"]:
        from tau.cli.warm.launcher import launch

        launch(program, path)  # returns if the start has to be cold
    from tau.cli import main

    main.process(program)


def warm_socket() -> str:
    """The socket of the warm-start server of this user; "" if there can be none."""
    folder = warm_folder()
    return os.path.join(folder, "socket") if folder else ""


def warm_folder() -> str:
    """A folder that only this user can enter: TAU_WARM_DIR, else one in XDG_RUNTIME_DIR, else one in /tmp."""
    given = os.environ.get("TAU_WARM_DIR")
    if given is not None:
        return given
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return os.path.join(runtime, "tau-warm") if runtime else f"/tmp/tau-warm-{os.getuid()}"

"""Entry points of the programs `pi` and `tau`. This module loads nothing, so that it can refuse Windows."""

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
    from tau.cli import main

    main.process(program)

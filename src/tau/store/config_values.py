"""Values in the user's files: plain text, a variable of the environment, or the output of a command.

    !command        what it prints
    $NAME ${NAME}   the variable, also inside a text; $$ is a dollar sign, $! an exclamation mark
    NAME            the variable, if there is one of exactly this name
    anything else   itself

A value that needs a variable that is not set, or a command that fails, is none.
"""

from __future__ import annotations

import logging
import re
import subprocess
from collections.abc import Mapping

log = logging.getLogger(__name__)
COMMAND_TIMEOUT = 10
_running: set[subprocess.Popen[bytes]] = set()
_MARK = r"\$(?:([$!])|\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))"


def is_command(text: str) -> bool:
    """Whether reading it takes time, and so is to be done off the event loop."""
    return text.startswith("!")


def value(text: str, environment: Mapping[str, str]) -> str | None:
    if is_command(text):
        return output(text[1:])
    if missing(text, environment):
        return None
    if environment.get(text):
        return environment[text].strip() or None
    return re.sub(_MARK, lambda mark: mark[1] or environment[mark[2] or mark[3]], text).strip() or None


def missing(text: str, environment: Mapping[str, str]) -> list[str]:
    """The variables that a text needs and that are not set, or empty."""
    if is_command(text):
        return []
    names = [mark[2] or mark[3] for mark in re.finditer(_MARK, text) if not mark[1]]
    return [name for name in names if not environment.get(name)]


def variables(text: str) -> list[str]:
    """The variables that a text may take its value from."""
    return [] if is_command(text) else [text, *(mark[2] or mark[3] for mark in re.finditer(_MARK, text) if not mark[1])]


def output(command: str) -> str | None:
    try:
        said, code = _run(command)
    except (subprocess.SubprocessError, OSError) as error:
        log.warning("a command in a configuration file failed: %s", type(error).__name__)
        return None
    if code != 0:
        # The command may have the secret in it, so it is not shown.
        log.warning("a command in a configuration file failed with exit code %s", code)
        return None
    return said.decode("utf-8", "replace").strip() or None


def _run(command: str) -> tuple[bytes, int]:
    """In our own process group: some ask at the terminal for a password."""
    nothing, pipe = subprocess.DEVNULL, subprocess.PIPE
    with subprocess.Popen(command, shell=True, stdin=nothing, stdout=pipe, stderr=pipe) as process:
        _running.add(process)
        try:
            said, _ = process.communicate(timeout=COMMAND_TIMEOUT)
        except BaseException:
            process.kill()
            raise
        finally:
            _running.discard(process)
    return said, process.returncode


def stop_commands() -> None:
    """At the end of the program, for those who ask in threads of their own."""
    for process in list(_running):
        process.kill()

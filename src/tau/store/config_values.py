"""Configuration values in the user's files: plain text, an environment variable, or the output of a command.

    !command        the output of the command
    $NAME ${NAME}   the variable, also inside a text; $$ is a dollar sign, $! an exclamation mark
    NAME            the variable, if one of exactly this name is set
    anything else   the text itself

A value that refers to a variable that is not set, or to a command that fails, is None.
"""

from __future__ import annotations

import logging
import re
import subprocess
from collections.abc import Mapping

from tau.store.proxy_setting import process_environment

log = logging.getLogger(__name__)
COMMAND_TIMEOUT_S = 10
_running: set[subprocess.Popen[bytes]] = set()
_MARK = r"\$(?:([$!])|\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))"


def is_command(text: str) -> bool:
    """True if the value is a command, which must run in a thread and not in the event loop."""
    return text.startswith("!")


def resolve_value(text: str, environment: Mapping[str, str]) -> str | None:
    if is_command(text):
        return command_output(text[1:], environment)
    if missing_variables(text, environment):
        return None
    if environment.get(text):
        return environment[text].strip() or None
    if "$" in text:
        text = re.sub(_MARK, lambda mark: mark[1] or environment[mark[2] or mark[3]], text)
    return text.strip() or None


def missing_variables(text: str, environment: Mapping[str, str]) -> list[str]:
    """Return the variables that a text refers to and that are unset or empty."""
    if is_command(text):
        return []
    return [name for name in _marked_variables(text) if not environment.get(name)]


def variables_in(text: str) -> list[str]:
    """Return the variables that a text may refer to."""
    return [] if is_command(text) else [text, *_marked_variables(text)]


def _marked_variables(text: str) -> list[str]:
    return [mark[2] or mark[3] for mark in re.finditer(_MARK, text) if not mark[1]] if "$" in text else []


def command_output(command: str, environment: Mapping[str, str]) -> str | None:
    try:
        stdout, code = _run(command, process_environment(environment))
    except (subprocess.SubprocessError, OSError) as error:
        log.warning("a command in a configuration file failed: %s", type(error).__name__)
        return None
    if code != 0:
        # The command may contain the secret, so it is not logged.
        log.warning("a command in a configuration file failed with exit code %s", code)
        return None
    return stdout.decode("utf-8", "replace").strip() or None


def _run(command: str, env: Mapping[str, str] | None) -> tuple[bytes, int]:
    """Run in tau's own process group, because some commands ask for a password at the terminal."""
    nothing, pipe = subprocess.DEVNULL, subprocess.PIPE
    with subprocess.Popen(command, shell=True, stdin=nothing, stdout=pipe, stderr=pipe, env=env) as process:
        _running.add(process)
        try:
            stdout, _ = process.communicate(timeout=COMMAND_TIMEOUT_S)
        except BaseException:
            process.kill()
            raise
        finally:
            _running.discard(process)
    return stdout, process.returncode


def stop_commands() -> None:
    """Kill the commands that still run in threads when the program ends."""
    for process in list(_running):
        process.kill()

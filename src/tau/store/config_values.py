"""Configuration values in the user's files: plain text, an environment variable, or the output of a command.

    !command        the output of the command
    $NAME ${NAME}   the variable, also inside a text; $$ is a dollar sign, $! an exclamation mark
    NAME            the variable, if one of exactly this name is set
    anything else   the text itself

A value that refers to a variable that is not set, or to a command that fails, is None. A key that can only be the name
of a variable (MY_KEY, APIKEY) is one, set or not: its name must not be sent to a server.
"""

from __future__ import annotations

import logging
import re
import subprocess
from collections.abc import Iterable, Mapping

from tau.concurrency.helper_commands import helper_command, program_output
from tau.store.proxy_setting import process_environment

logger = logging.getLogger(__name__)
COMMAND_TIMEOUT_S = 10
MAX_OUTPUT_BYTES = 64 * 1024  # no key or token is longer
# Servers that check no key are given words such as EMPTY, NO_KEY and DUMMY_KEY.
_NAME_OF_KEY = r"(?!(?:NO|NOT|DUMMY|FAKE|UNUSED)_)(?=\w*_|\w+(?:KEY|TOKEN)$)[A-Z][A-Z0-9_]*"
_MARK = r"\$(?:([$!])|\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))"


def is_command(text: str) -> bool:
    """True if the value is a command, which must run in a thread and not in the event loop."""
    return text.startswith("!")


def resolve_value(text: str, environment: Mapping[str, str], *, is_key: bool = False) -> str | None:
    if is_command(text):
        return command_output(text[1:], environment)
    if missing_variables(text, environment, is_key=is_key):
        return None
    if environment.get(text):
        return environment[text].strip() or None
    if "$" in text:
        text = re.sub(_MARK, lambda mark: mark[1] or environment[mark[2] or mark[3]], text)
    return text.strip() or None


def missing_variables(text: str, environment: Mapping[str, str], *, is_key: bool = False) -> list[str]:
    """Return the variables that a text refers to and that are unset or empty."""
    if is_command(text):
        return []
    if is_key and looks_like_a_variable(text) and not environment.get(text):
        return [text]
    return [name for name in _marked_variables(text) if not environment.get(name)]


def looks_like_a_variable(key: str) -> bool:
    """True for a key that can only be the name of a variable."""
    return re.fullmatch(_NAME_OF_KEY, key) is not None


def not_set(names: Iterable[str]) -> str:
    """What is wrong with a value that refers to these variables."""
    listed = " and ".join(names)
    return f"{listed} {'are' if ' and ' in listed else 'is'} not set in the environment"


def variables_in(text: str) -> list[str]:
    """Return the variables that a text may refer to."""
    return [] if is_command(text) else [text, *_marked_variables(text)]


def _marked_variables(text: str) -> list[str]:
    return [mark[2] or mark[3] for mark in re.finditer(_MARK, text) if not mark[1]] if "$" in text else []


def command_output(command: str, environment: Mapping[str, str]) -> str | None:
    try:
        stdout, code = _run(command, process_environment(environment))
    except (subprocess.SubprocessError, OSError, ValueError) as error:  # ValueError: no shell can have such a command
        logger.warning("a command in a configuration file failed: %s", _reason(error))
        return None
    if code != 0:
        # The command may contain the secret, so it is not logged.
        logger.warning("a command in a configuration file failed with exit code %s", code)
        return None
    return stdout.decode("utf-8", "replace").strip() or None


def _reason(error: Exception) -> str:
    """Why a command failed, without the command."""
    if isinstance(error, subprocess.TimeoutExpired):
        return f"it did not end within {COMMAND_TIMEOUT_S:g} s"
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    if isinstance(error, ValueError):
        return "it contains characters that a command line cannot have"
    return str(error)


def _run(command: str, env: Mapping[str, str] | None) -> tuple[bytes, int]:
    """Run in tau's own process group, because some commands ask for a password at the terminal."""
    nothing, pipe, stdout = subprocess.DEVNULL, subprocess.PIPE, b""
    with (
        subprocess.Popen(command, shell=True, stdin=nothing, stdout=pipe, stderr=nothing, env=env) as process,
        helper_command(process),
    ):
        for _, chunk in program_output(process, COMMAND_TIMEOUT_S):
            stdout += chunk
            if len(stdout) > MAX_OUTPUT_BYTES:
                raise subprocess.SubprocessError(f"more than {MAX_OUTPUT_BYTES} bytes of output")
    return stdout, process.returncode

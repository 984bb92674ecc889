"""Messages in the words of the library.

The layers below name options as the command line and the protocol do: `--session-dir`, `streamingBehavior`. A Python
program knows them as parameters, so the library replaces these names in messages.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar

from tau.errors import CommandError, ExtensionFailure, UsageError

C = TypeVar("C", bound=type)

# Parameters by the flags of the command line whose names differ from them in more than the dashes.
PARAMETERS = {
    "approve": "trust",
    "continue": "resume",
    "extension": "extensions",
    "fork": "fork_of",
    "models": "scoped_models",
    "no-context-files": "context_files=False",
    "no-extensions": "find_extensions=False",
    "no-prompt-templates": "templates=False",
    "no-session": "session=False",
    "no-skills": "skills=False",
    "no-tools": "tools=[]",
    "prompt-template": "templates",
    "skill": "skills",
}
VALUES = {"model": "demo|local|scripted", "provider": "ollama", "sandbox": "workspace|strict", "permissions": "ask"}
NAMES = {
    "streamingBehavior": "while_busy",
    "deliverAs": "deliver_as",
    "followUp": "follow_up",
    "nextTurn": "next_turn",
    "outputSchema": "output_schema",
    "maxTurns": "max_turns",
    "maxTokens": "max_tokens",
    "maxCost": "max_cost",
    "timeLimit": "time_limit",
}
_COMMAND_HINT = re.compile(r"Use (--list-models) to see")
_FLAG_WITH_VALUE = re.compile("|".join(f"(?<![\\w-])--({flag}) ({values})\\b" for flag, values in VALUES.items()))
_FLAG_AND_ARGUMENT = re.compile(r"^--([a-z]+(?:-[a-z]+)*) ([^\n:]+): ")
# Not the folders of session files, which are called --home-me-project--.
_FLAG = re.compile(r"(?<![\w-])(?<!tau )(?<!pi )--([a-z]+(?:-[a-z]+)*)(?![^\s/]*--/)")
_NAME = re.compile(rf"\b({'|'.join(NAMES)})\b")


def in_python(text: str) -> str:
    """Replace flags and wire names in a message by the names of parameters."""
    text = _COMMAND_HINT.sub(r"Run `tau \1` to see", text)
    text = _FLAG_WITH_VALUE.sub(_keyword, text)
    text = _FLAG_AND_ARGUMENT.sub(lambda found: f"{parameter_of(found[1])}: {found[2]}: ", text)
    text = text.replace("--script FILE", "--script")
    text = _FLAG.sub(lambda found: parameter_of(found[1]), text)
    return _NAME.sub(lambda found: NAMES[found[1]], text)


def parameter_of(flag: str) -> str:
    """Return the parameter for a flag, which is given without its dashes."""
    return PARAMETERS.get(flag, flag.replace("-", "_"))


def _keyword(found: re.Match[str]) -> str:
    flag, value = (group for group in found.groups() if group is not None)
    return f'{parameter_of(flag)}="{value}"'


@contextmanager
def python_errors() -> Iterator[None]:
    """Errors that pass have their messages in the words of the library."""
    try:
        yield
    except (UsageError, CommandError, ExtensionFailure) as error:
        error.args = (in_python(str(error)),)
        raise


def with_python_errors(owner: C) -> C:
    """Class decorator: errors of all public methods have their messages in the words of the library."""
    for name, method in list(vars(owner).items()):
        if not name.startswith("_") and inspect.isfunction(method):
            setattr(owner, name, _wrapped(method))
    return owner


def _wrapped(method: Callable[..., Any]) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(method):

        @wraps(method)
        async def call_async(*args: Any, **named: Any) -> Any:
            with python_errors():
                return await method(*args, **named)

        return call_async

    @wraps(method)
    def call(*args: Any, **named: Any) -> Any:
        with python_errors():
            return method(*args, **named)

    return call

"""Checks of arguments: what is wrong with them, in a UsageError that begins with the name of the parameter.

Values are shown only for parameters that have a fixed set of values, because others may be secret.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple, get_args

from tau.core.agent.budgets import budget_problem
from tau.core.checks.dialog_handlers import Method
from tau.errors import UsageError
from tau.extension_api.hooks import HOOKS
from tau.extension_api.schemas import positional_count
from tau.library.wording import in_python
from tau.records.budgets import Budget
from tau.records.commands import QueueMode
from tau.records.messages import Image
from tau.records.models import THINKING_LEVELS
from tau.records.settings import SandboxLevel
from tau.tools import Tool


class Check(NamedTuple):
    """`fits` says whether a value is acceptable; `expected` describes acceptable values."""

    fits: Callable[[Any], bool]
    expected: str
    show: bool = False  # the value can be shown


def _is_path(value: Any) -> bool:
    return isinstance(value, str | os.PathLike)


def _is_list(value: Any, fits: Callable[[Any], bool]) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes) and all(map(fits, value))


def _is_string(value: Any) -> bool:
    return isinstance(value, str)


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _is_string_map(value: Any) -> bool:
    return isinstance(value, Mapping) and all(map(_is_string, value)) and all(map(_is_string, value.values()))


def _is_dialog_map(value: Any) -> bool:
    methods = get_args(Method)
    return isinstance(value, Mapping) and all(key in methods and callable(item) for key, item in value.items())


def _are_resources(value: Any) -> bool:
    return isinstance(value, bool) or _is_list(value, _is_path)


def _or_none(check: Check) -> Check:
    return Check(lambda value: value is None or check.fits(value), f"{check.expected} or None", check.show)


def _one_of(values: Iterable[str]) -> Check:
    allowed = tuple(values)
    listed = f"one of {', '.join(repr(one) for one in allowed)},"
    return Check(lambda value: isinstance(value, str) and value in allowed, listed, show=True)


STRING = Check(_is_string, "a string")
PATH = Check(_is_path, "a path")
BOOL = Check(_is_bool, "True or False")
CALLABLE = Check(callable, "a function")
STRINGS = Check(lambda value: _is_list(value, _is_string), "a list of strings")
OPTIONAL_STRING = _or_none(STRING)
STRING_MAP = Check(_is_string_map, "a mapping of strings to strings")
DELIVER = _or_none(_one_of(("steer", "follow_up")))
RESOURCES = Check(_are_resources, "True, False or a list of paths")
IMAGES = Check(lambda value: _is_list(value, lambda one: True), "a list of `tau.Image`s")
IMAGE = Check(lambda value: isinstance(value, Image), "a `tau.Image`")
LEVEL = _one_of(THINKING_LEVELS)
QUEUE_MODE = _one_of(get_args(QueueMode))

OPEN: dict[str, Check] = {
    "cwd": _or_none(PATH),
    "model": _or_none(STRING),
    "provider": _or_none(STRING),
    "scoped_models": STRINGS,
    "thinking": _or_none(LEVEL),
    "tools": _or_none(
        Check(
            lambda value: _is_list(value, lambda one: isinstance(one, str | Tool) or callable(one)),
            "a list of tool names, functions and `tau.Tool`s",
        )
    ),
    "api_key": _or_none(STRING),
    "keys": STRING_MAP,
    "session": Check(lambda value: isinstance(value, bool) or _is_path(value), "True, False, a path or an id"),
    "resume": BOOL,
    "session_id": _or_none(STRING),
    "fork_of": _or_none(PATH),
    "session_dir": _or_none(PATH),
    "name": _or_none(STRING),
    "system_prompt": _or_none(STRING),
    "append_system_prompt": Check(
        lambda value: _is_string(value) or _is_list(value, _is_string), "a string or a list of strings"
    ),
    "context_files": BOOL,
    "skills": RESOURCES,
    "templates": RESOURCES,
    "extensions": Check(
        lambda value: _is_list(value, lambda one: _is_path(one) or callable(one)), "a list of paths and functions"
    ),
    "find_extensions": BOOL,
    "hooks": Check(lambda value: isinstance(value, Mapping), "a mapping of hook names to functions"),
    "permission": _or_none(CALLABLE),
    "permissions": _or_none(Check(lambda value: _is_path(value) or isinstance(value, Mapping), '"ask", a path, rules')),
    "dialogs": _or_none(
        Check(
            lambda value: callable(value) or _is_dialog_map(value),
            f"a function, or a mapping of {', '.join(get_args(Method))} to functions,",
        )
    ),
    "on_event": _or_none(CALLABLE),
    "settings": Check(lambda value: isinstance(value, Mapping), "a mapping of setting names to values"),
    "trust": _or_none(BOOL),
    "budget": Check(lambda value: isinstance(value, Budget), "a `tau.Budget`"),
    "record": _or_none(PATH),
    "replay": _or_none(PATH),
    "sandbox": _or_none(_one_of(get_args(SandboxLevel))),
    "telemetry": _or_none(
        Check(lambda value: _is_bool(value) or hasattr(value, "get_tracer"), "True, False or a tracer provider")
    ),
    "mcp_servers": Check(
        lambda value: isinstance(value, Mapping) and all(isinstance(entry, Mapping) for entry in value.values()),
        "a mapping of server names to entries as in mcp.json",
    ),
    "agent_dir": _or_none(PATH),
    "env": _or_none(STRING_MAP),
    "script": _or_none(
        Check(
            lambda value: isinstance(value, Mapping | Sequence | os.PathLike),
            "a list of answers, a mapping, bytes or a path",
        )
    ),
}
BUDGET: dict[str, tuple[type, ...]] = {
    "max_turns": (int,),
    "max_tokens": (int,),
    "max_cost": (int, float),
    "time_limit": (int, float),
}


def check_open(options: Any) -> None:
    """Check the arguments of `tau.open`. Raises UsageError."""
    for name, check in OPEN.items():
        check_argument(name, getattr(options, name), check)
    for hook, handlers in options.hooks.items():
        check_hook_name(hook, "hooks: ")
        if not callable(handlers) and not _is_list(handlers, callable):
            raise UsageError(f"hooks: {hook}: expected a function or a list of functions")
        for handler in [handlers] if callable(handlers) else handlers:
            check_hook_function(f"hooks: {hook}", handler)
    if options.permission is not None:
        _check_parameters("permission", options.permission, "(tool, input)", 2)
    _check_budget(options.budget)


def check_argument(name: str, value: Any, check: Check) -> None:
    """Raise UsageError unless the value passes the check."""
    if not check.fits(value):
        found = repr(value) if check.show and isinstance(value, str) else type(value).__name__
        raise UsageError(f"{name}: expected {check.expected} but got {found}")


def check_prompt(text: Any, images: Any, while_busy: Any = None) -> None:
    """Check the arguments of a prompt. Raises UsageError."""
    check_argument("text", text, STRING)
    check_argument("images", images, IMAGES)
    for at, image in enumerate(images):
        check_argument(f"images[{at}]", image, IMAGE)
    check_argument("while_busy", while_busy, DELIVER)


def check_hook_function(name: str, handler: Callable[..., Any]) -> None:
    """Raise UsageError unless the handler of a hook can be called with the event, or with the event and `ctx`."""
    _check_parameters(name, handler, "(event) or (event, ctx)", hook_argument_count(handler))


def hook_argument_count(handler: Callable[..., Any]) -> int:
    """Return with how many arguments the handler of a hook is called; one if it has no signature."""
    try:
        return min(max(positional_count(handler, most=2), 1), 2)
    except (TypeError, ValueError):
        return 1


def _check_parameters(name: str, function: Callable[..., Any], expected: str, count: int) -> None:
    """Raise UsageError unless the function accepts so many arguments. One without a signature is accepted."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*range(count))
    except TypeError:
        found = f"({', '.join(signature.parameters)})"
        raise UsageError(f"{name}: expected a function with the parameters {expected} but got {found}") from None


def check_hook_name(name: Any, prefix: str = "") -> None:
    """Raise UsageError if there is no hook of this name."""
    if name not in HOOKS:
        raise UsageError(f"{prefix}there is no hook {name!r}{suggestion(str(name), HOOKS)}")


def check_names(names: Iterable[str], known: Iterable[str]) -> None:
    """Raise UsageError for keyword arguments that `tau.open` does not have."""
    parameters = list(known)
    for name in names:
        if name not in parameters:
            raise UsageError(f"tau.open has no parameter {name!r}{suggestion(name, parameters)}")


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: the names that may be meant, or all of them."""
    names = list(known)
    near = get_close_matches(name, names, 2)
    if near:
        return f". Did you mean {' or '.join(near)}?"
    return f". Available: {', '.join(names)}"


def _check_budget(budget: Budget) -> None:
    for name, kinds in BUDGET.items():
        value = getattr(budget, name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, kinds)):
            wanted = "an integer" if float not in kinds else "a number"
            raise UsageError(f"budget: {name}: expected {wanted} or None but got {type(value).__name__}")
    if (problem := budget_problem(budget)) is not None:
        raise UsageError(f"budget: {in_python(problem)}")

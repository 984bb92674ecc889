"""What the telemetry of all sessions of a process shares, and the rule that it harms nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec

from tau.records.base import Value
from tau.runtime.telemetry.content import Content
from tau.runtime.telemetry.limits import LimitedNames, Masking

logger = logging.getLogger("tau.telemetry")
Parameters = ParamSpec("Parameters")


class Setup(Value):
    sdk: Any
    version: str
    mode: str
    dialect: str
    content: Content
    mask: Masking
    tool_names: LimitedNames
    model_names: LimitedNames
    server_names: LimitedNames
    sandbox: str | None = None
    parent: Any = None  # of the environment, or the workflow that runs belong to
    from_caller: bool = False  # the caller's current span is the parent
    hides_parent: bool = False  # the environment has a parent that commands must not get
    to_commands: bool = False
    to_models: bool = False


def harmless(method: Callable[Parameters, None]) -> Callable[Parameters, None]:
    """A failure of telemetry is logged and harms nothing."""

    @wraps(method)
    def call(*args: Parameters.args, **keywords: Parameters.kwargs) -> None:
        try:
            method(*args, **keywords)
        except Exception:
            logger.debug("telemetry failed", exc_info=True)

    return call

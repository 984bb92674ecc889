"""Telemetry of this process: whether it is asked for, and what its sessions share."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from importlib.util import find_spec
from typing import Any

from tau import __version__
from tau.core.checks.redaction import Redaction
from tau.core.text.install_hints import install_hint
from tau.errors import UsageError
from tau.records.settings import TelemetrySettings
from tau.runtime.telemetry import content
from tau.runtime.telemetry.observer import ObservedSession
from tau.runtime.telemetry.session import SessionTelemetry, Setup

VARIABLE = "TAU_TELEMETRY"
FLEET_TASK = "TAU_FLEET_TASK"  # in the environment of an agent: the task of the fleet it works on
MAX_LOG_BYTES = 4096

Observe = Callable[[ObservedSession], SessionTelemetry]


def is_asked_for(option: Any, settings: TelemetrySettings, environment: Mapping[str, str]) -> bool:
    """By the option of the caller, the environment, or the user's settings; the first that says something decides."""
    if option is not None:
        return option is not False
    if (value := environment.get(VARIABLE, "").strip().lower()) != "":
        return value not in ("0", "false", "no", "off")
    return settings.enabled


def prepare(
    option: Any,
    settings: TelemetrySettings,
    environment: Mapping[str, str],
    *,
    mode: str,
    dialect: str,
    sandbox: str | None,
    offline: bool,
    secrets: Callable[[], Collection[str]],
    warn: Callable[[str], None],
) -> Observe | None:
    """What makes the telemetry of each session. None if it is disabled or cannot be used.

    Raises UsageError if the caller asked for it and OpenTelemetry is not installed, or a variable is wrong.
    """
    if _is_disabled(environment):
        return None
    mode = "fleet" if FLEET_TASK in environment else mode
    if not _is_installed():
        problem = f"Telemetry needs OpenTelemetry: {install_hint('otel')}."
        if option is None and not environment.get(VARIABLE):
            warn(problem)
            return None
        raise UsageError(problem)
    try:
        shared = _shared(option, environment, mode, offline=offline, secrets=secrets)
    except ValueError as error:
        raise UsageError(str(error)) from None
    capture = environment.get(content.CAPTURE, "").strip().upper()
    limit = _limit(environment)
    setup = Setup(
        sdk=shared.sdk,
        version=__version__,
        mode=mode,
        dialect=dialect,
        sandbox=sandbox,
        parent=_parent(shared.sdk, environment),
        from_caller=mode == "library",
        to_commands=settings.propagate_to_commands,
        to_models=settings.propagate_to_models,
        content=content.Content(
            capture,
            limit,
            lambda text: Redaction(secrets(), "").text(text),
            lambda name, span, found: shared.sdk.log(logging.INFO, "", name, span, found),
        ),
    )

    def observe(session: ObservedSession) -> SessionTelemetry:
        shared.sessions += 1
        return SessionTelemetry(session, setup, shared.closed, shared.flush)

    return observe


def sdk_of_fleet(environment: Mapping[str, str]) -> Any:
    """What the attempts of a worker of a fleet share; None if telemetry is off or not installed."""
    if not is_asked_for(None, TelemetrySettings(), environment) or _is_disabled(environment) or not _is_installed():
        return None

    def secrets() -> list[str]:
        return [value for name, value in environment.items() if value and name.endswith(("_KEY", "_TOKEN"))]

    try:
        return _shared(None, environment, "fleet", offline=False, secrets=secrets).sdk
    except ValueError as error:
        raise UsageError(str(error)) from None


def _is_disabled(environment: Mapping[str, str]) -> bool:
    return environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"


def _is_installed() -> bool:
    return find_spec("opentelemetry") is not None and find_spec("opentelemetry.sdk") is not None


class _Shared:
    """The SDK that all sessions of a process use."""

    def __init__(self, sdk: Any) -> None:
        self.sdk = sdk
        self.sessions = 0

    def closed(self) -> None:
        self.sessions -= 1

    def flush(self) -> None:
        if self.sessions <= 0:
            self.sdk.flush()


_of_process: dict[str, _Shared] = {}


def _shared(
    option: Any, environment: Mapping[str, str], mode: str, *, offline: bool, secrets: Callable[[], Collection[str]]
) -> _Shared:
    from tau.runtime.telemetry import sdk

    if option is not None and not isinstance(option, bool):
        return _Shared(sdk.of_provider(option, __version__))
    if mode == "library" and not _has_destination(environment):
        return _Shared(sdk.of_program(__version__))
    if "sdk" not in _of_process:
        _of_process["sdk"] = shared = _Shared(sdk.of_environment(__version__, environment, offline=offline))
        logging.getLogger("tau").addHandler(_LogHandler(shared.sdk, secrets))
    return _of_process["sdk"]


def _has_destination(environment: Mapping[str, str]) -> bool:
    """True if the environment says where to send; else a program that embeds tau has providers of its own."""
    return any(name.startswith("OTEL_EXPORTER_OTLP") or name.endswith("_EXPORTER") for name in environment)


def _parent(sdk: Any, environment: Mapping[str, str]) -> Any:
    given = environment.get("TRACEPARENT", "")
    return sdk.parent_of(given, environment.get("TRACESTATE", "")) if given else None


def _limit(environment: Mapping[str, str]) -> int:
    value = environment.get(content.LIMIT, "")
    if value and not value.isdigit():
        raise UsageError(f"{content.LIMIT}={value} is not a number of bytes.")
    return int(value) if value else content.MAX_BYTES


class _LogHandler(logging.Handler):
    """Warnings and errors of tau's own loggers as log records."""

    def __init__(self, sdk: Any, secrets: Callable[[], Collection[str]]) -> None:
        super().__init__(logging.WARNING)
        self._sdk = sdk
        self._secrets = secrets

    def emit(self, record: logging.LogRecord) -> None:
        if record.name != "tau.telemetry":
            text = Redaction(self._secrets(), "").text(record.getMessage())
            self._sdk.log(record.levelno, text[:MAX_LOG_BYTES], "", None, {})

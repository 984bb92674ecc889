"""Telemetry of this process: whether it is asked for, and what its sessions share."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from importlib.util import find_spec
from typing import Any
from weakref import WeakSet

from tau import __version__
from tau.core.text.install_hints import install_hint
from tau.errors import UsageError
from tau.records.settings import TelemetrySettings
from tau.runtime.telemetry import content
from tau.runtime.telemetry.limits import MAX_NAMES, MAX_TOOL_NAMES, LimitedNames, Masking
from tau.runtime.telemetry.log_records import LogHandler
from tau.runtime.telemetry.observer import ObservedSession
from tau.runtime.telemetry.session import SessionTelemetry
from tau.runtime.telemetry.setup import Setup

VARIABLE = "TAU_TELEMETRY"
STABILITY = "OTEL_SEMCONV_STABILITY_OPT_IN"
LATEST = "gen_ai_latest_experimental"

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
    if is_disabled(environment):
        return None
    if not is_installed():
        if option is None and not environment.get(VARIABLE):
            warn(NOT_INSTALLED)
            return None
        raise UsageError(NOT_INSTALLED)
    mask = Masking(secrets)
    limit = _limit(environment)
    shared = shared_sdk(option, environment, mode, offline=offline)
    shared.maskings.add(mask)
    workflow = option if hasattr(option, "span_context") else None
    setup = Setup(
        sdk=shared.sdk,
        version=__version__,
        mode=mode if workflow is None else workflow.mode,
        dialect=dialect,
        sandbox=sandbox,
        parent=parent_of(shared.sdk, environment) if workflow is None else workflow.span_context,
        from_caller=mode == "library" and workflow is None,
        hides_parent="TRACEPARENT" in environment,
        to_commands=settings.propagate_to_commands,
        to_models=settings.propagate_to_models,
        mask=mask,
        tool_names=shared.tool_names,
        model_names=shared.model_names,
        server_names=shared.server_names,
        content=content.Content(_capture(environment), limit, mask, shared.sdk.event),
    )

    def observe(session: ObservedSession) -> SessionTelemetry:
        shared.sessions += 1
        return SessionTelemetry(session, setup, shared.closed, shared.flush)

    return observe


NOT_INSTALLED = f"Telemetry needs OpenTelemetry: {install_hint('otel')}."


def is_disabled(environment: Mapping[str, str]) -> bool:
    return environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"


def is_installed() -> bool:
    return find_spec("opentelemetry") is not None and find_spec("opentelemetry.sdk") is not None


class Shared:
    """The SDK that all sessions of a process use, and the names that its metrics have seen."""

    def __init__(self, sdk: Any) -> None:
        self.sdk = sdk
        self.sessions = 0
        self.tool_names = LimitedNames(MAX_TOOL_NAMES)
        self.model_names = LimitedNames(MAX_NAMES)
        self.server_names = LimitedNames(MAX_NAMES)
        self.maskings: WeakSet[Masking] = WeakSet()  # of the open sessions

    def secrets(self) -> set[str]:
        """The keys of all open sessions."""
        return {secret for masking in [*self.maskings] for secret in masking.secrets()}

    def closed(self) -> None:
        self.sessions -= 1

    def flush(self) -> None:
        if self.sessions <= 0:
            self.sdk.flush()


_of_process: dict[str, Shared] = {}


def shared_sdk(option: Any, environment: Mapping[str, str], mode: str, *, offline: bool) -> Shared:
    """Raises UsageError if a variable is wrong."""
    from tau.runtime.telemetry import sdk

    if isinstance(shared := getattr(option, "shared", None), Shared):
        return shared
    if option is not None and not isinstance(option, bool):
        return Shared(sdk.of_provider(option, __version__))
    if mode == "library" and (sdk.program_has_provider() or not _has_destination(environment)):
        return Shared(sdk.of_program(__version__))
    if "sdk" not in _of_process:
        _check_stability(environment)
        try:
            _of_process["sdk"] = shared = Shared(sdk.of_environment(__version__, environment, offline=offline))
        except ValueError as error:
            raise UsageError(str(error)) from None
        with_content = _capture(environment) in content.CHOICES
        handler = LogHandler(shared.sdk, Masking(shared.secrets), with_content=with_content)
        logging.getLogger("tau").addHandler(handler)
    return _of_process["sdk"]


def flush() -> None:
    """Send what is left, at the end of the process; blocks for a limited time."""
    for shared in _of_process.values():
        shared.sdk.flush()


def _has_destination(environment: Mapping[str, str]) -> bool:
    """True if the environment says where to send."""
    return any(name.startswith("OTEL_EXPORTER_OTLP") or name.endswith("_EXPORTER") for name in environment)


def _check_stability(environment: Mapping[str, str]) -> None:
    """tau began with the latest conventions and knows no older names."""
    wanted = [word.strip() for word in environment.get(STABILITY, "").split(",") if word.strip().startswith("gen_ai")]
    if wanted and LATEST not in wanted:
        logging.getLogger("tau.telemetry").warning(
            "%s=%s: tau knows only the names of %s", STABILITY, ",".join(wanted), LATEST
        )


def parent_of(sdk: Any, environment: Mapping[str, str]) -> Any:
    """The context of the variable TRACEPARENT, if there is one."""
    given = environment.get("TRACEPARENT", "")
    return sdk.parent_of(given, environment.get("TRACESTATE", "")) if given else None


def _capture(environment: Mapping[str, str]) -> str:
    return environment.get(content.CAPTURE, "").strip().upper()


def _limit(environment: Mapping[str, str]) -> int:
    value = environment.get(content.LIMIT, "")
    if value and (not value.isdecimal() or len(value) > 18):
        raise UsageError(f"{content.LIMIT}={value} is not a number of bytes.")
    return int(value) if value else content.MAX_BYTES

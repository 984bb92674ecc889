"""A span for what runs agents, such as a task of a fleet: `tau.open(telemetry=workflow)` puts their runs below it."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from tau import __version__
from tau.records.settings import TelemetrySettings
from tau.runtime.telemetry import names
from tau.runtime.telemetry.error_types import type_of_text
from tau.runtime.telemetry.start import Shared, is_asked_for, is_disabled, is_installed, parent_of, shared_sdk


class WorkflowTelemetry:
    """Open from `with` to its end. `mode` is the `tau.mode` of the runs. It passes for a tracer provider."""

    def __init__(self, shared: Shared, mode: str, name: str, attributes: Mapping[str, Any], parent: Any) -> None:
        self.shared = shared
        self.mode = mode
        self._sdk = shared.sdk
        about = {
            names.OPERATION: names.INVOKE_WORKFLOW,
            names.WORKFLOW_NAME: name,
            names.AGENT_NAME: "tau",
            names.AGENT_VERSION: __version__,
        }
        self._span = self._sdk.start(f"{names.INVOKE_WORKFLOW} {name}", parent, {**about, **attributes})
        shared.sessions += 1  # what is left is sent after the end of the workflow
        self.span_context = self._sdk.context_of(self._span)

    def get_tracer(self, *args: Any, **keywords: Any) -> Any:
        return self._sdk.tracer

    def set(self, attribute: str, value: str) -> None:
        self._span.set_attribute(attribute, value)

    def failed(self, error_type: str) -> None:
        self._sdk.fail(self._span, error_type)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is not None:
            self.failed(type_of_text(str(error)) if issubclass(kind, Exception) else "aborted")
        self._span.end()
        self.shared.closed()


def begin_workflow(
    name: str, mode: str, attributes: Mapping[str, Any], environment: Mapping[str, str]
) -> WorkflowTelemetry | None:
    """Begin the span of a workflow; None if telemetry is off. Raises UsageError if a variable is wrong."""
    if not is_asked_for(None, TelemetrySettings(), environment) or is_disabled(environment) or not is_installed():
        return None
    shared = shared_sdk(None, environment, mode, offline=False)
    return WorkflowTelemetry(shared, mode, name, attributes, parent_of(shared.sdk, environment))

"""The span of an attempt at a task of a fleet: the parent of the runs of its agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tau.runtime.telemetry import names
from tau.runtime.telemetry.start import FLEET_TASK, sdk_of_fleet

FAILED = ("failed", "stopped", "denied")


class TaskSpan:
    """`variables` are for the environment of the agent: its spans become children of this one."""

    def __init__(self, sdk: Any, span: Any, task: str) -> None:
        self._sdk = sdk
        self._span = span
        self.variables = {FLEET_TASK: task, "TRACEPARENT": sdk.traceparent(span)}

    def end(self, outcome: str) -> None:
        self._span.set_attribute(names.FLEET_OUTCOME, outcome)
        if outcome in FAILED:
            self._sdk.fail(self._span, "_OTHER")
        self._span.end()


def start_task_span(environment: Mapping[str, str], run: str, task: str, attempt: int) -> TaskSpan | None:
    """None if telemetry is off. `run` is the name of the folder of the fleet."""
    sdk = sdk_of_fleet(environment)
    if sdk is None:
        return None
    given = environment.get("TRACEPARENT", "")
    attributes = {
        names.OPERATION: names.INVOKE_WORKFLOW,
        names.WORKFLOW_NAME: "fleet_task",
        names.FLEET_RUN: run,
        names.FLEET_TASK: task,
        names.FLEET_ATTEMPT: attempt,
    }
    parent = sdk.parent_of(given, environment.get("TRACESTATE", "")) if given else None
    return TaskSpan(sdk, sdk.start(f"{names.INVOKE_WORKFLOW} fleet_task", parent, attributes), task)


def flush(environment: Mapping[str, str]) -> None:
    """At the end of a worker: send what is left, for a limited time."""
    sdk = sdk_of_fleet(environment)
    if sdk is not None:
        sdk.flush()

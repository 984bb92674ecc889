"""Telemetry of a fleet: a span for each attempt at a task, with the spans of its agent below it."""

from __future__ import annotations

from pathlib import Path

from support.fleets import FleetRun
from support.otlp import of_file, tree


def test_each_task_is_a_trace_with_its_agent_below(tmp_path: Path) -> None:
    spans = tmp_path / "spans.jsonl"
    fleet = FleetRun(tmp_path)
    fleet.variables = {
        "TAU_TELEMETRY": "1",
        "OTEL_TRACES_EXPORTER": "file",
        "OTEL_METRICS_EXPORTER": "none",
        "OTEL_LOGS_EXPORTER": "none",
        "TAU_TELEMETRY_FILE": str(spans),
    }
    fleet.tasks([{"id": "a"}, {"id": "b"}])
    assert fleet.run("--workers", "1").returncode == 0
    seen = of_file(spans)
    assert tree(seen) == ["invoke_workflow fleet_task", "  invoke_agent tau", "    chat scripted"] * 2
    tasks = [span.attributes for span in seen if span.name == "invoke_workflow fleet_task"]
    assert sorted((at["tau.fleet.run"], at["tau.fleet.task"], at["tau.fleet.attempt"]) for at in tasks) == [
        ("out", "a", 1),
        ("out", "b", 1),
    ]
    assert {at["tau.fleet.outcome"] for at in tasks} == {"done"}
    assert {span.attributes["tau.mode"] for span in seen if span.name == "invoke_agent tau"} == {"fleet"}

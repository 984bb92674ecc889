"""One run of the program with tools, a retry, a compaction and an abort: what a collector gets of it."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("opentelemetry.sdk", reason="needs the extra [otel]")

from support.otlp import Receiver, tree
from support.otlp_check import complaints
from support.telemetry_run import TREE, PricedModel, run

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_a_collector_gets_the_whole_run(tmp_path: Path) -> None:
    with Receiver() as receiver, PricedModel() as model:
        parent = {"TRACEPARENT": TRACE, "TRACESTATE": "vendor=1", "OTEL_LOGS_EXPORTER": "otlp"}
        settings = {"telemetry": {"propagateToModels": True}}
        stderr = run(tmp_path, model, {**receiver.environment, **parent}, settings)
    assert stderr == ""
    assert tree(receiver.spans) == TREE
    assert complaints(receiver.spans, receiver.points, receiver.records) == []
    runs = [span for span in receiver.spans if span.name == "invoke_agent tau"]
    assert {(span.trace, span.parent) for span in runs} == {tuple(TRACE.split("-")[1:3])}
    assert [round(span.attributes["tau.cost"], 6) for span in runs] == [0.0135, 0.009, 0.0]
    assert [span.attributes["tau.retries"] for span in runs] == [1, 0, 0]
    chats = {span.id for span in receiver.spans if span.name == "chat priced-1"}
    sent = [headers["traceparent"].split("-") for headers in model.headers]
    assert {trace for _, trace, _, _ in sent} == {TRACE.split("-")[1]}
    assert {span for _, _, span, _ in sent} == chats
    assert {headers["tracestate"] for headers in model.headers} == {"vendor=1"}
    failed = next(span for span in receiver.spans if span.attributes.get("error.type") == "overloaded")
    assert failed.attributes["http.response.status_code"] == 529
    state = {point.attributes["tau.state"]: point.value for point in receiver.points if point.metric == "tau.sessions"}
    assert state == {"idle": 0, "running": 0}

"""Telemetry of the server and of fleets: the request or the task is the parent of its runs."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

pytest.importorskip("opentelemetry.sdk", reason="needs the extra [otel]")
pytest.importorskip("starlette", reason="needs the extra [serve]")

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from serve.web_server import Server, serving
from support.fleets import FleetRun
from support.library_agent import calls
from support.otlp import of_file, of_sdk, tree
from support.otlp_check import complaints
from support.served import close_hosts
from tau.serve.web.commands import with_trace_parent

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OTHER = "00-1af7651916cd43dd8448eb211c80319c-c7ad6b7169203331-01"


def test_a_request_is_the_parent_of_the_run_that_it_began(tmp_path: Path) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))

    async def client(server: Server, header: str, **field: str) -> None:
        commands = f"/v1/sessions/{await server.open()}/commands"
        prompt = {"type": "prompt", "message": "hi", **field}
        answer = await server.ask("POST", commands, prompt, "Prefer: wait=20", *([header] if header else []))
        assert answer.status == 200

    async def story() -> None:
        async with serving(tmp_path, {"text": "ok"}, telemetry=provider) as server:
            given = f"traceparent: {TRACE}"
            await asyncio.gather(client(server, given), client(server, given, traceparent=OTHER), client(server, ""))
        await close_hosts()

    asyncio.run(story())
    spans = of_sdk(exporter.get_finished_spans())
    assert complaints(spans) == []
    runs = [span for span in spans if span.name == "invoke_agent tau"]
    assert {span.attributes["tau.mode"] for span in runs} == {"serve"}
    assert sorted(span.parent for span in runs) == ["", TRACE.split("-")[2], OTHER.split("-")[2]]
    assert len({span.attributes["gen_ai.conversation.id"] for span in runs}) == 3
    traces = {span.attributes["gen_ai.conversation.id"]: span.trace for span in runs}
    assert all(span.trace == traces[span.attributes["gen_ai.conversation.id"]] for span in spans)


@pytest.mark.parametrize(
    ("line", "parent", "changed"),
    [
        (b'{"type":"prompt","message":"a"}', TRACE, True),
        (b'{"type":"prompt","message":"a","traceparent":"x"}', TRACE, False),
        (b'{"type":"steer","message":"prompt"}', TRACE, False),
        (b'{"type":"prompt","message":"a"}', '"},{', False),
        (b'["prompt"]', TRACE, False),
        (b'"prompt', TRACE, False),
    ],
)
def test_only_a_prompt_without_a_parent_takes_that_of_the_request(line: bytes, parent: str, changed: bool) -> None:
    expected = line[:-1] + b',"traceparent":"%s"}' % TRACE.encode() if changed else line
    assert with_trace_parent(line, parent) == expected


def test_the_task_of_a_fleet_is_the_parent_of_its_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("OTEL_", "TAU_", "TRACE"))]:
        monkeypatch.delenv(name)
    file = {"OTEL_TRACES_EXPORTER": "file", "TAU_TELEMETRY_FILE": str(tmp_path / "spans")}
    for name, value in {**file, "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TRACEPARENT", TRACE)
    fleet = FleetRun(tmp_path, [calls("bash", command="echo $TRACEPARENT > seen"), {"text": "ok"}])
    fleet.tasks({"id": f"t{number}", "output": {"files": ["seen"]}} for number in range(3))
    done = fleet.run("--telemetry", "--workers", "1")
    assert done.returncode == 0, done.stderr
    spans = of_file(tmp_path / "spans")
    assert complaints(spans) == []
    tasks = [span for span in spans if span.name == "invoke_workflow fleet_task"]
    assert sorted(span.attributes["tau.fleet.task"] for span in tasks) == ["t0", "t1", "t2"]
    assert {(span.trace, span.parent) for span in tasks} == {tuple(TRACE.split("-")[1:3])}
    assert len({span.attributes["tau.fleet.run"] for span in tasks}) == 1
    for task in tasks:
        assert tree([span for span in spans if span is task or span.parent == task.id]) == [
            *("invoke_workflow fleet_task", "  invoke_agent tau")
        ]
    runs = [span for span in spans if span.name == "invoke_agent tau"]
    assert {span.attributes["tau.mode"] for span in runs} == {"fleet"}
    seen = [path.read_text() for path in fleet.out.rglob("seen")]
    assert seen == ["\n"] * 3  # commands do not get it unless the settings say so

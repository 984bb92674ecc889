"""A receiver that refuses, hangs, fails, answers too much or closes early: no run notices, and memory is bounded."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk", reason="needs the extra [otel]")

from opentelemetry import metrics, trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from support.library_agent import opened, play, says
from support.telemetry_faults import FAULTS, answering
from support.telemetry_process import run, to_file
from tau.errors import UsageError
from tau.runtime.telemetry.export_queue import BoundedSpanProcessor, QueueLimit
from tau.runtime.telemetry.exporters import exporter
from tau.runtime.telemetry.limits import LimitedNames
from tau.runtime.telemetry.session import _denied_by
from tau.runtime.telemetry.start import _limit, shared_sdk


@pytest.mark.promise("O03")
@pytest.mark.parametrize("fault", ["429", "10 MB", "closes in the head"])
def test_a_receiver_that_fails_costs_a_run_one_warning(tmp_path: Path, fault: str) -> None:
    with answering(FAULTS[fault]) as url:
        done = run(tmp_path, "--telemetry", OTEL_EXPORTER_OTLP_ENDPOINT=url)
    assert (done.returncode, done.stdout) == (0, "ok\n")
    assert len(done.stderr.splitlines()) <= 1, done.stderr


class Hanging(SpanExporter):
    """Blocks until it is released; counts the spans."""

    def __init__(self) -> None:
        self.entered, self.released = threading.Event(), threading.Event()
        self.names: list[str] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.entered.set()
        assert self.released.wait(60)
        self.names += [span.name for span in spans]
        return SpanExportResult.SUCCESS


@pytest.mark.promise("O04")
def test_a_full_queue_drops_the_newest_and_counts(caplog: pytest.LogCaptureFixture) -> None:
    receiver, limit, provider = Hanging(), QueueLimit(items=600), TracerProvider()
    provider.add_span_processor(BoundedSpanProcessor(receiver, limit, with_content=True))
    tracer = provider.get_tracer("test")
    for number in range(1000):
        tracer.start_span(f"span {number}").end()
    assert receiver.entered.wait(60)
    assert (limit.waiting, limit.dropped) == (600, 400)
    receiver.released.set()
    provider.force_flush()
    assert receiver.names == [f"span {number}" for number in range(600)]
    assert limit.waiting == 0
    tracer.start_span("later").end()
    provider.force_flush()
    assert receiver.names[-1] == "later"


def test_a_queue_is_limited_in_bytes_too() -> None:
    receiver, limit, provider = Hanging(), QueueLimit(size=1_000_000), TracerProvider()
    provider.add_span_processor(BoundedSpanProcessor(receiver, limit, with_content=True))
    tracer = provider.get_tracer("test")
    for _ in range(100):
        tracer.start_span("long", attributes={"gen_ai.input.messages": "x" * 30_000}).end()
    receiver.released.set()
    provider.force_flush()
    assert 20 < len(receiver.names) < 35
    assert limit.dropped == 100 - len(receiver.names)


@pytest.mark.promise("O05")
def test_the_providers_of_a_program_are_left_alone(tmp_path: Path) -> None:
    """None is set, and the one that is given is neither flushed nor shut down."""
    before = trace.get_tracer_provider(), metrics.get_meter_provider()
    flushed: list[str] = []

    class Provider(TracerProvider):
        def force_flush(self, timeout_millis: int = 30000) -> bool:
            flushed.append("flush")
            return True

        def shutdown(self) -> None:
            flushed.append("shutdown")

    async def story() -> None:
        for wanted in (True, Provider()):
            async with opened(tmp_path, says("ok"), telemetry=wanted) as agent:
                await agent.prompt("Hi")

    play(story())
    assert (trace.get_tracer_provider(), metrics.get_meter_provider(), flushed) == (*before, [])


PROGRAM = """
import asyncio, sys
import tau
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

exporter, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)

async def main():
    folders = {"cwd": sys.argv[1], "agent_dir": sys.argv[1]}
    async with tau.open(**folders, session=False, script=[{"text": "ok"}], telemetry=True) as agent:
        await agent.prompt("Hi")

asyncio.run(main())
print(*(span.name for span in exporter.get_finished_spans()), sep=", ")
"""


def test_a_program_with_a_provider_and_the_standard_variables_gets_all_spans(tmp_path: Path) -> None:
    """The variables are for its own provider: tau makes no second one."""
    env = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
    argv = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("chat scripted, invoke_agent tau\n", "")


def test_without_protobuf_a_file_can_be_written(tmp_path: Path) -> None:
    """`OTEL_TRACES_EXPORTER=file` needs the SDK only."""
    (tmp_path / "without" / "google").mkdir(parents=True)
    (tmp_path / "without" / "google" / "__init__.py").write_text("raise ImportError('no protobuf')")
    done = run(tmp_path, "--telemetry", PYTHONPATH=str(tmp_path / "without"), **to_file(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "spans").exists()


def test_a_protocol_that_is_not_there_is_named() -> None:
    with pytest.raises(ValueError, match="OTEL_EXPORTER_OTLP_PROTOCOL=http/json is not known"):
        exporter("traces", {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, offline=False)
    wanted = {"OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "grpc"}
    try:
        import opentelemetry.exporter.otlp.proto.grpc  # noqa: F401
    except ImportError:
        with pytest.raises(ValueError, match="needs opentelemetry-exporter-otlp-proto-grpc"):
            exporter("metrics", wanted, offline=False)
    assert exporter("traces", wanted, offline=False) is not None


def test_endpoints_come_from_the_environment_that_is_given() -> None:
    def endpoint(**environment: str) -> Any:
        return exporter("traces", environment, offline=False)._endpoint

    assert endpoint() == "http://localhost:4318/v1/traces"
    assert endpoint(OTEL_EXPORTER_OTLP_ENDPOINT="http://a:1/base/") == "http://a:1/base/v1/traces"
    assert (
        endpoint(OTEL_EXPORTER_OTLP_TRACES_ENDPOINT="http://b:2/x", OTEL_EXPORTER_OTLP_ENDPOINT="http://a")
        == "http://b:2/x"
    )


def test_a_metric_has_few_names() -> None:
    limited = LimitedNames(3)
    assert [limited(name) for name in "abcdeab"] == ["a", "b", "c", "_OTHER", "_OTHER", "a", "b"]


@pytest.mark.parametrize("value", ["much", "-1", "²", "9" * 5000])
def test_a_limit_that_is_no_number_is_an_error_of_use(value: str) -> None:
    with pytest.raises(UsageError, match="is not a number of bytes"):
        _limit({"TAU_TELEMETRY_CONTENT_BYTES": value})


@pytest.mark.parametrize(
    ("details", "by"),
    [({"denied": {"by": "rule"}}, "rule"), ({"denied": {"by": "hunter2"}}, None), ({"denied": 1}, None)],
)
def test_only_tau_says_who_denied_a_call(details: dict[str, Any], by: str | None) -> None:
    assert _denied_by(details) == by


def test_a_wrong_variable_is_an_error_of_use() -> None:
    with pytest.raises(UsageError, match="OTEL_TRACES_EXPORTER=zipkin is not known"):
        shared_sdk(None, {"OTEL_TRACES_EXPORTER": "zipkin"}, "rpc", offline=False)

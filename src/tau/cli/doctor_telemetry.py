"""What `tau doctor` says about telemetry: whether it is on, where it goes, and if content leaves the machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from urllib.parse import urlsplit

from tau.core.text.install_hints import install_hint

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
CHOICES = ("SPAN_ONLY", "EVENT_ONLY", "SPAN_AND_EVENT")


def findings(enabled: bool, environment: Mapping[str, str]) -> Iterator[tuple[bool, str]]:
    """Pairs: whether it is a problem, and the sentence. Nothing if telemetry is off."""
    switch = environment.get("TAU_TELEMETRY", "").strip().lower()
    if switch in ("0", "false", "no", "off") or not (switch or enabled):
        return
    if find_spec("opentelemetry") is None:
        yield True, f"telemetry is on, and OpenTelemetry is not installed: {install_hint('otel')}"
        return
    place = destination(environment)
    yield False, f"telemetry is on and goes to {place}"
    if environment.get(CAPTURE, "").strip().upper() in CHOICES:
        yield True, f"telemetry includes the content of conversations, which goes to {place}: {CAPTURE} is set"


def destination(environment: Mapping[str, str]) -> str:
    kind = environment.get("OTEL_TRACES_EXPORTER", "").strip() or "otlp"
    if kind == "file":
        return f"the file {environment.get('TAU_TELEMETRY_FILE', '')}"
    if kind != "otlp":
        return {"console": "stderr", "none": "nowhere (traces are off)"}.get(kind, kind)
    url = environment.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") or environment.get("OTEL_EXPORTER_OTLP_ENDPOINT")
    return urlsplit(url or "http://localhost:4318").netloc.rpartition("@")[2]

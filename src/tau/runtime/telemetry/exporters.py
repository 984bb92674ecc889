"""Where telemetry goes: exporters by the standard variables (`OTEL_…_EXPORTER`, `OTEL_EXPORTER_OTLP_…`)."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final

EXPORT_TIMEOUT_S: Final = 5
DEFAULT_ENDPOINT: Final = "http://localhost:4318"
SIGNALS: Final = {"traces": "Span", "metrics": "Metric", "logs": "Log"}  # and the word in the names of exporters
PROTOCOLS: Final = {"http/protobuf": "http", "grpc": "grpc"}
MODULES: Final = {"traces": "trace_exporter", "metrics": "metric_exporter", "logs": "_log_exporter"}

FLUSH_THREAD: Final = "telemetry-flush"
SENDING_THREADS: Final = ("Otel", FLUSH_THREAD)  # the first are those of the SDK

logger = logging.getLogger("tau.telemetry")
_USER_OF_URL = re.compile(r"//[^/\s]*@")
_QUERY = re.compile(r"\?[^\s)'\"]+")  # some receivers take their key there


def exporter(signal: str, environment: Mapping[str, str], *, offline: bool) -> Any:
    """The exporter of a signal; None if it is not sent. Raises ValueError if a variable names what does not exist."""
    variable = f"OTEL_{signal.upper()}_EXPORTER"
    wanted = environment.get(variable, "").strip() or ("none" if offline else "otlp")
    if wanted == "none":
        return None
    known: dict[str, Callable[[], Any]] = {
        "otlp": lambda: _otlp(signal, environment),
        "console": lambda: _console(signal),
    }
    if signal == "traces":
        known["file"] = lambda: _file(environment)
    if wanted not in known:
        raise ValueError(f"{variable}={wanted} is not known: use {', '.join(known)} or none.")
    if offline and wanted == "otlp":
        raise ValueError(f"{variable}={wanted} sends to the network, which --offline forbids: use file or none.")
    return known[wanted]()


def _otlp(signal: str, environment: Mapping[str, str]) -> Any:
    prefix = f"OTEL_EXPORTER_OTLP_{signal.upper()}"
    names = (f"{prefix}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    variable = next((name for name in names if environment.get(name, "").strip()), "")
    protocol = environment[variable].strip() if variable else "http/protobuf"
    if protocol not in PROTOCOLS:
        raise ValueError(f"{variable}={protocol} is not known: use {' or '.join(PROTOCOLS)}.")
    kind = PROTOCOLS[protocol]
    try:
        module = import_module(f"opentelemetry.exporter.otlp.proto.{kind}.{MODULES[signal]}")
    except ModuleNotFoundError:
        package = f"opentelemetry-exporter-otlp-proto-{kind}"
        raise ValueError(f"{variable or 'OTLP'}={protocol} needs {package}: pip install {package}.") from None
    make: Any = getattr(module, f"OTLP{SIGNALS[signal]}Exporter")
    endpoint = None if kind == "grpc" else _endpoint(signal, environment)
    return make(endpoint=endpoint, timeout=EXPORT_TIMEOUT_S)


def _endpoint(signal: str, environment: Mapping[str, str]) -> str:
    if own := environment.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT"):
        return own
    base = environment.get("OTEL_EXPORTER_OTLP_ENDPOINT") or DEFAULT_ENDPOINT
    return f"{base.rstrip('/')}/v1/{signal}"


def _console(signal: str) -> Any:
    """Exporters that write to stderr."""
    if signal == "traces":
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter

        return ConsoleSpanExporter(out=sys.stderr)
    if signal == "metrics":
        from opentelemetry.sdk.metrics.export import ConsoleMetricExporter

        return ConsoleMetricExporter(out=sys.stderr)
    from opentelemetry.sdk._logs.export import ConsoleLogRecordExporter

    return ConsoleLogRecordExporter(out=sys.stderr)


def _file(environment: Mapping[str, str]) -> Any:
    from tau.runtime.telemetry.file_exporter import SpanFile

    path = environment.get("TAU_TELEMETRY_FILE", "")
    if not path:
        raise ValueError("TAU_TELEMETRY_FILE is missing: it names the file for OTEL_TRACES_EXPORTER=file.")
    return SpanFile(os.path.abspath(path))


class _OneWarning(logging.Handler):
    """Passes on the first warning of the exporters, in our words, and no other."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._said = False

    def emit(self, record: logging.LogRecord) -> None:
        if not self._said:
            self._said = True
            text = _QUERY.sub("?…", _USER_OF_URL.sub("//", record.getMessage()))
            logger.warning("telemetry cannot be sent: %s", text[:300])


class _OfExporters(logging.Filter):
    """Takes what urllib3 says in a thread that sends telemetry; other uses of it in the program are not touched."""

    def __init__(self, handler: logging.Handler) -> None:
        super().__init__()
        self._handler = handler

    def filter(self, record: logging.LogRecord) -> bool:
        if not str(record.threadName).startswith(SENDING_THREADS):
            return True
        self._handler.handle(record)
        return False


def quiet_exporters() -> None:
    """All problems of the SDK, its exporters and their HTTP library together are one warning."""
    handler = _OneWarning()
    for name in ("urllib3.connection", "urllib3.connectionpool", "urllib3.util.retry"):
        library = logging.getLogger(name)
        if not any(isinstance(one, _OfExporters) for one in library.filters):
            library.addFilter(_OfExporters(handler))
    for name in ("opentelemetry.exporter", "opentelemetry.sdk"):
        root = logging.getLogger(name)
        root.propagate = False
        if not root.handlers:
            root.addHandler(handler)

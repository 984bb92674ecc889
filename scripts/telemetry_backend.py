"""Telemetry in a real backend: Arize Phoenix gets the spans of a run, and shows them over its API.

    python scripts/telemetry_backend.py               # installs arize-phoenix in build/phoenix, if it is not there
    python scripts/telemetry_backend.py --loopback    # the same run with the receiver of the tests, and its metrics

The run has tools, a retry, a compaction and an abort (tests/support/telemetry_run.py). The tree of spans is printed as
the backend returns it, with tokens and cost. It fails if a span is missing or has another parent.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))  # the run and the receiver are next to the tests, which are not a package

from support.otlp import Receiver, Seen, tree  # noqa: E402
from support.telemetry_run import TREE, PricedModel, run  # noqa: E402

PACKAGE = "arize-phoenix"
START_TIMEOUT_S = 180.0
SPANS_TIMEOUT_S = 60.0


def main() -> int:
    parser = argparse.ArgumentParser(description="Send the telemetry of a run to a backend, and read it back.")
    parser.add_argument("--loopback", action="store_true", help="the receiver of the tests instead of Phoenix")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "phoenix", help="for its installation and data")
    given = parser.parse_args()
    return loopback() if given.loopback else phoenix(given.folder)


def loopback() -> int:
    with tempfile.TemporaryDirectory() as folder, Receiver() as receiver, PricedModel() as model:
        run(Path(folder), model, receiver.environment)
    print("metrics:", ", ".join(sorted(receiver.metrics)))
    return report("the loopback receiver", receiver.spans)


def phoenix(folder: Path) -> int:
    with server(install(folder), folder) as url, tempfile.TemporaryDirectory() as work, PricedModel() as model:
        only_traces = {"OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"}
        run(Path(work), model, {"TAU_TELEMETRY": "1", "OTEL_EXPORTER_OTLP_ENDPOINT": url, **only_traces})
        return report(f"Phoenix {version(folder)}", stored_spans(url, len(TREE)))


def report(name: str, spans: Sequence[Seen]) -> int:
    """Print the tree with figures, and compare it with what it has to be."""
    found = tree(spans)
    ordered = list(_in_order(spans))
    print(f"{len(spans)} spans in {name}:")
    for line, span in zip(found, ordered, strict=True):
        print(f"  {line:36} {_figures(span.attributes)}")
    if found != TREE:
        print("The tree is not what it has to be:", *TREE, sep="\n  ")
    return 0 if found == TREE else 1


def _in_order(spans: Sequence[Seen], parent: str = "") -> Iterator[Seen]:
    known = {span.id for span in spans}
    for span in spans:
        if span.parent == parent or (not parent and span.parent not in known):
            yield span
            yield from _in_order(spans, span.id)


def _figures(attributes: Mapping[str, Any]) -> str:
    shown = []
    if (tokens := attributes.get("gen_ai.usage.input_tokens")) is not None:
        shown.append(f"{tokens} + {attributes.get('gen_ai.usage.output_tokens')} tokens")
    if (cost := attributes.get("tau.cost")) is not None:
        shown.append(f"${cost:.4f}")
    if (reasons := attributes.get("gen_ai.response.finish_reasons")) is not None:
        shown.append(str(reasons[0]) if isinstance(reasons, list | tuple) else "")
    return ", ".join(shown)


def install(folder: Path) -> Path:
    """An environment of its own with the package. Returns its Python."""
    python = folder / "venv" / "bin" / "python"
    if not (folder / "installed").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder / "venv"], check=True)
        quiet = ["--quiet", "--disable-pip-version-check"]
        subprocess.run([python, "-m", "pip", "install", *quiet, PACKAGE], check=True)
        (folder / "installed").touch()
    return python


def version(folder: Path) -> str:
    code = f"import importlib.metadata as m; print(m.version({PACKAGE!r}))"
    return subprocess.check_output([folder / "venv" / "bin" / "python", "-c", code], text=True).strip()


@contextmanager
def server(python: Path, folder: Path) -> Iterator[str]:
    """Phoenix with an empty database, on loopback."""
    with tempfile.TemporaryDirectory() as data, (folder / "phoenix.log").open("wb") as log:
        port, other = free_port(), free_port()
        own = {"PHOENIX_HOST": "127.0.0.1", "PHOENIX_PORT": str(port), "PHOENIX_GRPC_PORT": str(other)}
        own |= {"PHOENIX_WORKING_DIR": data, "PHOENIX_TELEMETRY_ENABLED": "false"}
        own |= {"PHOENIX_ALLOW_EXTERNAL_RESOURCES": "false"}
        process = subprocess.Popen(
            [python.with_name("phoenix"), "serve"],
            env={**os.environ, **own},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            url = f"http://127.0.0.1:{port}"
            wait_for(url, process)
            yield url
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        found: int = free.getsockname()[1]
        return found


def wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < until and process.poll() is None:
        with suppress(OSError, urllib.error.URLError), urllib.request.urlopen(f"{url}/healthz", timeout=5):
            return
        time.sleep(0.5)
    raise SystemExit("Phoenix did not start; see phoenix.log")


def stored_spans(url: str, count: int) -> list[Seen]:
    """The spans as Phoenix returns them, oldest end first."""
    until = time.monotonic() + SPANS_TIMEOUT_S
    rows: list[dict[str, Any]] = []
    while time.monotonic() < until and len(rows) < count:
        time.sleep(0.5)
        with urllib.request.urlopen(f"{url}/v1/projects/default/spans?limit=1000", timeout=10) as answer:
            rows = json.load(answer)["data"]
    return [_seen(row) for row in sorted(rows, key=lambda row: row["end_time"])]


def _seen(row: Mapping[str, Any]) -> Seen:
    return Seen(
        row["name"],
        row["context"]["span_id"],
        row.get("parent_id") or "",
        row["context"]["trace_id"],
        row["attributes"],
        [event["name"] for event in row.get("events", ())],
        row["status_code"] == "ERROR",
    )


if __name__ == "__main__":
    sys.exit(main())

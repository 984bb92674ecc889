"""The program in print mode, with telemetry as the environment says."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from support.rpc_process import scripted

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ANSWERS = ({"blocks": [{"tool": "bash", "arguments": {"command": "echo T=$TRACEPARENT"}}]}, {"text": "ok"})


def run(folder: Path, *flags: str, settings: object = None, **env: str) -> subprocess.CompletedProcess[str]:
    """One prompt in print mode."""
    for name in ("work", "agent"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    if settings is not None:
        (folder / "agent" / "settings.json").write_text(json.dumps(settings))
    argv = [*scripted(folder, *ANSWERS), "--mode", "text", *flags, "-p", "Hi"]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "TRACE", "TAU_"))}
    return subprocess.run(
        argv,
        cwd=folder / "work",
        env={**kept, "PI_CODING_AGENT_DIR": str(folder / "agent"), **env},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def to_file(folder: Path) -> Mapping[str, str]:
    quiet = {"OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"}
    return {**quiet, "OTEL_TRACES_EXPORTER": "file", "TAU_TELEMETRY_FILE": str(folder / "spans")}

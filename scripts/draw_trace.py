"""docs/media/trace.svg: the trace of a real run with a tool, a retry and a denied call.

python scripts/draw_trace.py
"""

from __future__ import annotations

import html
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TO = ROOT / "docs" / "media" / "trace.svg"
ANSWERS = [
    {
        "blocks": [{"text": ["Let me ", "look."]}, {"tool": "bash", "arguments": {"command": "sleep 0.3; ls"}}],
        "delayMs": 60,
    },
    {"blocks": [], "error": {"message": "529 overloaded"}},
    {"blocks": [{"tool": "write", "arguments": {"path": "notes.txt", "content": "x"}}], "delayMs": 80},
    {"blocks": [{"text": ["Done", "."]}], "delayMs": 120},
]
RULES = {"deny": [{"tool": "write"}], "otherwise": "allow"}
WIDTH, ROW, LEFT, RIGHT = 1100, 30, 230, 280
COLOURS = {"invoke_agent": "#5b6ee1", "chat": "#2a9d8f", "execute_tool": "#e9a23b", "invoke_workflow": "#9b5de5"}


def spans() -> list[dict[str, Any]]:
    """Run the program, and read what it wrote."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "script.json").write_text(json.dumps({"answers": ANSWERS}))
        (folder / "rules.json").write_text(json.dumps(RULES))
        (folder / "settings.json").write_text('{"retry": {"baseDelayMs": 150}}')
        exporters = {"OTEL_TRACES_EXPORTER": "file", "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"}
        env = {**os.environ, **exporters, "TAU_TELEMETRY_FILE": str(folder / "spans"), "PI_CODING_AGENT_DIR": name}
        flags = ["--permissions", f"rules {folder / 'rules.json'}", "--model", "scripted", "--no-session"]
        argv = [sys.executable, "-m", "tau", "--telemetry", *flags, "--script", str(folder / "script.json"), "-p", "Hi"]
        quiet = subprocess.DEVNULL
        subprocess.run(argv, cwd=name, env=env, check=False, stdout=quiet, stderr=quiet)  # a denied call is not 0
        lines = (folder / "spans").read_text().splitlines()
    found = [json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"][0] for line in lines]
    return sorted(found, key=lambda span: int(span["startTimeUnixNano"]))


def about(span: dict[str, Any]) -> str:
    values = {one["key"]: next(iter(one["value"].values())) for one in span["attributes"]}
    shown = []
    if "gen_ai.usage.input_tokens" in values:
        shown.append(f"{values['gen_ai.usage.input_tokens']} + {values['gen_ai.usage.output_tokens']} tokens")
    for key in ("error.type", "tau.tool.denied_by", "tau.stop_reason"):
        if key in values:
            shown.append(f"{key.rpartition('.')[2]} {values[key]}")
    return ", ".join(shown)


def draw(found: list[dict[str, Any]]) -> str:
    first = min(int(span["startTimeUnixNano"]) for span in found)
    scale = (WIDTH - LEFT - RIGHT) / (max(int(span["endTimeUnixNano"]) for span in found) - first)
    height = ROW * len(found) + 20
    rows = []
    for at, span in enumerate(found):
        start, end = (int(span[name]) - first for name in ("startTimeUnixNano", "endTimeUnixNano"))
        y, depth = 10 + at * ROW, 0 if "parentSpanId" not in span else 1
        colour = COLOURS.get(span["name"].partition(" ")[0], "#888")
        x, wide = LEFT + start * scale, max(3.0, (end - start) * scale)
        label = f"{(end - start) / 1e6:.0f} ms" + (f" · {about(span)}" if about(span) else "")
        inside = wide > 7 * len(label)
        place = x + 6 if inside else x + wide + 6
        failed = ' stroke="#d62828" stroke-width="2"' if span["status"]["code"] == 2 else ""
        rows.append(f'<text x="{12 + depth * 16}" y="{y + 19}" class="name">{html.escape(span["name"])}</text>')
        rows.append(f'<rect x="{x:.1f}" y="{y + 5}" width="{wide:.1f}" height="20" rx="4" fill="{colour}"{failed}/>')
        kind = "in" if inside else "out"
        rows.append(f'<text x="{place:.1f}" y="{y + 19}" class="{kind}">{html.escape(label)}</text>')
    style = (
        "text{font:13px ui-monospace,monospace}.name,.out{fill:#24292f}.in{fill:#fff}"
        "@media (prefers-color-scheme:dark){.name,.out{fill:#e6edf3}}"
    )
    size = f'width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}"'
    title = "<title>The trace of a run: requests to the model and tool calls</title>"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size}>{title}<style>{style}</style>'
    return head + "".join(rows) + "</svg>\n"


if __name__ == "__main__":
    TO.write_text(draw(spans()))
    print(TO)

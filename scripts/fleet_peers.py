"""The same tasks by `tau fleet` and by mini-swe-agent's batch runner: wall and CPU time, memory.

    python scripts/fleet_peers.py [TASKS] [--at-once N] [--delay MS] [--mini PYTHON]

Both ask a model on loopback and run two commands per task on this machine: no containers, no sandbox, no repository.
mini-swe-agent's agent ends with its second command; tau's asks the model once more. --mini is the Python of an
environment with mini-swe-agent, datasets and mcp (which LiteLLM imports); without it one is made (some hundred MB).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))
from benchmarks.fleet import Watch

SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
USAGE = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}


class Model:
    """An OpenAI-compatible server in a thread. What it answers depends on how many commands have been run."""

    def __init__(self, delay_s: float) -> None:
        self._delay_s = delay_s
        self.asked = 0
        self.port = 0
        self._ready = threading.Event()
        threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True).start()
        self._ready.wait()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0, backlog=1000)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await server.serve_forever()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = head.decode().lower().split("\r\n")
                length = next(int(line.partition(":")[2]) for line in lines if line.startswith("content-length"))
                body = json.loads(await reader.readexactly(length))
                self.asked += 1
                await asyncio.sleep(self._delay_s)
                writer.write(_response(body, "/mini/" in lines[0]))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


def _response(body: dict[str, Any], is_mini: bool) -> bytes:
    done = sum(message["role"] == "tool" for message in body["messages"])
    command = "echo hello" if done == 0 else SUBMIT if is_mini else "echo again" if done == 1 else None
    message: dict[str, Any] = {"role": "assistant", "content": "All done." if command is None else "I run a command."}
    if command is not None:
        call = {"name": "bash", "arguments": json.dumps({"command": command})}
        message["tool_calls"] = [{"index": 0, "id": f"call_{done}", "type": "function", "function": call}]
    why = "stop" if command is None else "tool_calls"
    usual = {"id": "c", "created": 1, "model": "loopback"}
    if not body.get("stream"):
        answer = {**usual, "object": "chat.completion", "usage": USAGE}
        answer["choices"] = [{"index": 0, "message": message, "finish_reason": why}]
        data, kind = json.dumps(answer).encode(), "application/json"
    else:
        chunks = [
            {"choices": [{"index": 0, "delta": message, "finish_reason": None}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": why}]},
            {"choices": [], "usage": USAGE},
        ]
        text = "".join(f"data: {json.dumps({**usual, **chunk})}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
        data, kind = text.encode(), "text/event-stream"
    return f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(data)}\r\n\r\n".encode() + data


def measure(argv: list[str], folder: Path, env: dict[str, str]) -> dict[str, Any]:
    folder.mkdir(exist_ok=True)
    started = time.monotonic()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(argv, cwd=folder, env={**os.environ, **env}, stdout=log, stderr=log)
        watch = Watch(process.pid)
        _, status, used = os.wait4(process.pid, 0)
        wall = time.monotonic() - started
        watch.end()
    cpu = used.ru_utime + used.ru_stime
    exit_code = os.waitstatus_to_exitcode(status)
    return {"exit": exit_code, "wall_s": round(wall, 1), "cpu_s": round(cpu, 1), "peak_mb": round(watch.peak / 1e6)}


def run_tau(folder: Path, given: argparse.Namespace, port: int) -> dict[str, Any]:
    (folder / "agent").mkdir(parents=True)
    model = {"id": "loopback", "contextWindow": 100_000, "maxTokens": 1000}
    url = f"http://127.0.0.1:{port}/tau/v1"
    provider = {"baseUrl": url, "api": "openai-completions", "apiKey": "k", "models": [model]}
    (folder / "agent" / "models.json").write_text(json.dumps({"providers": {"local-server": provider}}))
    lines = [json.dumps({"id": f"task-{number}", "prompt": "Do it."}) + "\n" for number in range(given.tasks)]
    (folder / "tasks.jsonl").write_text("".join(lines))
    argv = [sys.executable, "-m", "tau", "fleet", "run", "tasks.jsonl", "--out", "out", "--sandbox", "none"]
    argv += ["--model", "local-server/loopback", "--concurrency", str(given.at_once)]
    found = measure(argv, folder, {"PI_CODING_AGENT_DIR": str(folder / "agent")})
    records = [json.loads(line) for line in (folder / "out" / "results.jsonl").read_text().splitlines()]
    done = sum(record["outcome"] == "done" and record["toolCalls"] == 2 for record in records)
    return {**found, "done": done, "results_kb": round((folder / "out" / "ledger.db").stat().st_size / 1e3)}


def run_mini(folder: Path, given: argparse.Namespace, port: int, python: str) -> dict[str, Any]:
    (folder / "data").mkdir(parents=True)
    (folder / "work").mkdir()
    rows = [{"instance_id": f"task-{number}", "problem_statement": "Do it."} for number in range(given.tasks)]
    (folder / "data" / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    argv = [python, "-m", "minisweagent.run.benchmarks.swebench", "--subset", str(folder / "data"), "--split", "test"]
    argv += ["-o", str(folder / "out"), "-w", str(given.at_once), "-c", "swebench.yaml"]
    for setting in (
        "environment.environment_class=local",
        f"environment.cwd={folder / 'work'}",
        "model.model_name=openai/loopback",
        f"model.model_kwargs.api_base=http://127.0.0.1:{port}/mini/v1",
        "model.cost_tracking=ignore_errors",
    ):
        argv += ["-c", setting]
    env = {"OPENAI_API_KEY": "k", "MSWEA_CONFIGURED": "true", "HF_HUB_OFFLINE": "1", "HOME": str(folder)}
    found = measure(
        argv, folder, {**env, "MSWEA_COST_TRACKING": "ignore_errors", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    )
    done = len(json.loads((folder / "out" / "preds.json").read_text()))
    statuses = "".join(path.read_text() for path in (folder / "out").glob("exit_statuses_*.yaml"))
    if "Submitted" not in statuses:
        sys.exit(f"mini-swe-agent did not submit: {folder / 'log'}")
    return {**found, "done": done, "results_kb": round((folder / "out" / "preds.json").stat().st_size / 1e3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", type=int, nargs="?", default=200)
    parser.add_argument("--at-once", type=int, default=50)
    parser.add_argument("--delay", type=float, default=0.0, help="milliseconds before each answer of the model")
    parser.add_argument("--mini", help="Python with mini-swe-agent and datasets")
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    folder = (given.folder or Path(tempfile.mkdtemp(prefix="tau-peers-"))).absolute()
    python = given.mini
    if python is None:
        subprocess.run([sys.executable, "-m", "venv", folder / "mini"], check=True)
        python = str(folder / "mini" / "bin" / "python")
        subprocess.run([python, "-m", "pip", "install", "--quiet", "mini-swe-agent", "datasets", "mcp"], check=True)
    model = Model(given.delay / 1000)
    for name, found in (
        ("tau fleet", run_tau(folder / "tau", given, model.port)),
        ("mini-swe-agent", run_mini(folder / "mini-run", given, model.port, python)),
    ):
        print(f"{name:15}", json.dumps(found))
    print(f"{model.asked} requests; {given.tasks} tasks, {given.at_once} at once, delay {given.delay:g} ms; {folder}")


if __name__ == "__main__":
    main()

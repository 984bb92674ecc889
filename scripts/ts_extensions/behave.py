"""Runs extensions of pi under tau and under real pi with the same inputs, and compares what is to be seen.

    python scripts/ts_extensions/behave.py FOLDER --node PROGRAM [--examples] [--only NAME] [--show]

FOLDER is that of load.py. Each extension gets all of its commands, a prompt, and a call of each of its tools, with a
model on loopback, then a new session, the first one again and a copy of it, each with a prompt; dialogs are answered
the same way. Compared are the requests to the user interface, errors, results of tools, what the model is told after
the prompt, the commands of each session, and the entries that the session files have of the extension. A table at the
end has what differs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent.parent / "src"), str(HERE.parent.parent / "tests"), str(HERE)]

from load import Extension, examples, packages, pi_program  # noqa: E402

from support.anthropic_server import ModelServer  # noqa: E402
from support.rpc_process import Agent, Json  # noqa: E402

QUIET_S = 1.0  # without a record, a command is over
MAX_WAIT_S = 40.0  # for its response and its run
MAX_RECORDS = 3000  # of an extension that goes on and on
ANSWERS = {"confirm": {"confirmed": True}, "input": {"value": "typed"}, "editor": {"value": "written"}}
SKIPPED_COMMANDS = {"shutdown", "quit", "reload-runtime"}
OWN_COMMANDS = {"llama", "mcp"}  # of pi itself


class ToolServer(ModelServer):
    """A model that calls the tools it is told to call: an answer that is a JSON array [name, arguments]."""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = next(int(line.split(":")[1]) for line in head.splitlines() if line.startswith("content-length:"))
        self.asked.append(json.loads(await reader.readexactly(length)))
        last = self.asked[-1]["messages"][-1]["content"]
        text = last if isinstance(last, str) else " ".join(block.get("text", "") for block in last)
        call = self.call_for(text)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        for event in answer_events(call, len(self.asked)):
            writer.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
        await writer.drain()
        writer.close()

    def call_for(self, text: str) -> Sequence[Any] | None:
        """The tool call that a message asks for."""
        found = re.search(r"CALL (\[.*\])", text)
        call: Sequence[Any] | None = json.loads(found[1]) if found else None
        return call


def answer_events(call: Sequence[Any] | None, number: int) -> list[Json]:
    message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": "m1", "content": []}
    usage = {"input_tokens": 10, "output_tokens": 1}
    if call is None:
        block: Json = {"type": "text", "text": ""}
        delta: Json = {"type": "text_delta", "text": "ok"}
    else:
        block = {"type": "tool_use", "id": f"toolu_{number}", "name": call[0], "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(call[1])}
    return [
        {"type": "message_start", "message": {**message, "stop_reason": None, "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn" if call is None else "tool_use"},
            "usage": {"output_tokens": 5},
        },
        {"type": "message_stop"},
    ]


def sample(schema: Json) -> Any:
    """A value that fits a schema."""
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    if schema.get("anyOf"):
        return sample(schema["anyOf"][0])
    kind = schema.get("type")
    if kind == "object":
        return {name: sample(schema["properties"][name]) for name in schema.get("required", ())}
    if kind == "array":
        return [sample(schema.get("items") or {"type": "string"})] * max(1, schema.get("minItems", 1))
    return {"string": "text", "number": 1, "integer": 1, "boolean": True}.get(str(kind))


class Ended(Exception):
    """The extension has ended the program."""


class Run:
    """One program with one extension."""

    def __init__(self, program: list[str], extension: Extension, folder: Path, server: ToolServer, host: Json) -> None:
        self.folder, self.server = folder, server
        work = folder / "work"
        work.mkdir(parents=True)
        subprocess.run("git init -q . && echo hello > a.txt", shell=True, cwd=work, check=True)
        env = {"PI_OFFLINE": "1", "COLORTERM": "", "TERM": "xterm-256color", "GIT_CONFIG_GLOBAL": "/dev/null"}
        args = ["--provider", "mock", "--model", "m1", "--no-skills", "-e", str(extension.path)]
        self.agent = Agent(
            folder, program=[*program, *args], models=server.models, settings=host, offline=False, env=env
        )
        self._seen = 0

    def quiet(self, command: str = "") -> None:
        """Answer dialogs until nothing comes for a while, and the command with this id has its response and its run."""
        since = begun = time.monotonic()
        running = 0
        runs = self._settled()

        def waits() -> bool:
            if not command or not self.agent.has_response(command):
                return bool(command)
            data = self.agent.response(command).get("data") or {}
            return data.get("disposition") == "started" and self._settled() == runs

        while time.monotonic() - since < QUIET_S or (
            (running > 0 or waits()) and time.monotonic() - begun < MAX_WAIT_S
        ):
            if self.agent.code is not None or len(self.agent.records) > MAX_RECORDS:
                return
            records = self.agent.records
            running = sum({"agent_start": 1, "agent_end": -1}.get(one["type"], 0) for one in records)
            if len(records) > self._seen:
                since = time.monotonic()
                for record in records[self._seen :]:
                    self._seen += 1
                    self._answer(record)
            time.sleep(0.02)

    def _settled(self) -> int:
        return sum(one["type"] == "agent_settled" for one in self.agent.records)

    def _answer(self, record: Json) -> None:
        method = record.get("method")
        if record["type"] != "extension_ui_request" or method not in ("select", "confirm", "input", "editor"):
            return
        answer = {"value": record["options"][0]} if method == "select" else ANSWERS[str(method)]
        line = {"type": "extension_ui_response", "id": record["id"], **answer}
        self.agent.write(json.dumps(line).encode() + b"\n")

    def prompt(self, message: str) -> None:
        self.quiet(self.agent.send("prompt", message=message))
        if self.agent.code is not None:
            raise Ended

    def play(self) -> Json:
        agent, commands = self.agent, []
        try:
            commands = self._commands()
            self.quiet()
            self.prompt("go")
            for name in commands:
                if name not in SKIPPED_COMMANDS:
                    self.prompt(f"/{name} some words")
            tools = {tool["name"]: tool for tool in self.server.asked[-1].get("tools", ())} if self.server.asked else {}
            for name in sorted(tools.keys() - {"read", "bash", "edit", "write"}):
                self.prompt(f"CALL {json.dumps([name, sample(tools[name]['input_schema'])])}")
            self.prompt('CALL ["bash", {"command": "echo hi"}]')
            self.prompt('CALL ["bash", {"command": "rm -rf nothing"}]')
            self.prompt('CALL ["write", {"path": ".env", "content": "x"}]')
            self.prompt('CALL ["read", {"path": "a.txt"}]')
            self.quiet(agent.send("bash", command="echo user"))
            return {**self.observed(commands), "sessions": self._other_sessions()}
        except Ended:
            return {**self.observed(commands), "ended": [str(agent.code)]}
        finally:
            agent.end()

    def _other_sessions(self) -> list[str]:
        """What is to be seen of the extension in other sessions."""
        agent, seen = self.agent, []
        first = agent.get("get_state")["sessionFile"]
        for name, fields in (("new_session", {}), ("switch_session", {"sessionPath": first}), ("clone", {})):
            before = len(agent.records)
            self.quiet(agent.send(name, **fields))
            # pi 1.5.2 starts a session twice when a client asks for it.
            seen += dict.fromkeys(f"{name}: {one}" for one in self._shown(before))
            seen.append(f"{name}: {self._commands()}")
            before = len(agent.records)
            self.prompt("go on")
            seen += [f"{name}, prompt: {one}" for one in self._shown(before)]
            for asked in self.server.asked[-1:]:
                tools = sorted(tool["name"] for tool in asked.get("tools", ()))
                seen.append(f"{name}: {self._cleaned([asked['messages'][-1], tools])}")
        return seen

    def _commands(self) -> list[str]:
        rows = self.agent.get("get_commands")["commands"]
        return sorted(row["name"] for row in rows if row["source"] == "extension" and row["name"] not in OWN_COMMANDS)

    def _shown(self, before: int) -> list[str]:
        kinds = ("extension_ui_request", "extension_error")
        return [self._cleaned(one) for one in self.agent.records[before:] if one["type"] in kinds]

    def observed(self, commands: list[str]) -> Json:
        records = self.agent.records
        entries = [json.loads(line) for file in sorted(self.folder.rglob("*.jsonl")) for line in file.open()]
        kinds = ("custom", "label", "session_info", "custom_message")
        clean = self._cleaned
        return {
            "commands": commands,
            # A spinner shows more pictures where the program is slower.
            "ui": [key for key, _ in groupby(clean(one) for one in records if one["type"] == "extension_ui_request")],
            "errors": [clean(one["error"]) for one in records if one["type"] == "extension_error"],
            "tools": [
                clean([one["toolName"], one["result"], one["isError"]])
                for one in records
                if one["type"] == "tool_execution_end"
            ],
            "failures": [
                clean(one.get("error")) for one in records if one["type"] == "response" and not one["success"]
            ],
            "asked": [clean(one["messages"][-1]) for one in self.server.asked],
            "toolNames": sorted({tool["name"] for one in self.server.asked for tool in one.get("tools", ())}),
            "entries": [
                clean(
                    {key: one.get(key) for key in ("type", "customType", "data", "content", "details", "name", "label")}
                )
                for one in entries
                if one.get("type") in kinds
            ],
        }

    def _cleaned(self, value: Any) -> Any:
        text = json.dumps(value, sort_keys=True)
        text = text.replace(str(self.folder), "<folder>").replace(self.folder.name, "<folder>")
        text = re.sub(r'"(id|timestamp|requestId|tool_use_id|cache_control)": ("[^"]*"|\d+|\{[^}]*\}),? ?', "", text)
        text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22,}|\b[0-9a-f]{8}\b|toolu_\d+", "<id>", text)
        text = re.sub(r"\d{1,2}:\d{2}(:\d{2})?( ?[AP]M)?|\d{4}-\d\d-\d\dT[\d:.]+Z|\b1[678]\d{8,11}\b", "<time>", text)
        text = re.sub(r"\\u001b\[[\d;]*m", "", text)  # themes differ
        text = re.sub(r"\\u28[0-9a-f]{2} ", "", text)  # a picture of a spinner
        text = re.sub(r"System: \d+ chars", "System: <size>", text)  # of the programs' own prompts
        text = re.sub(r', "structuredContent": ("[^"]*"|\{[^}]*\})', "", text)  # for code mode, which tau does not have
        return re.sub(r"wrote \d+ bytes to", "wrote to", text)  # the tool's own text


def difference(here: Json, there: Json) -> list[str]:
    found = []
    for part in dict.fromkeys([*there, *here]):
        mine, theirs = here.get(part, []), there.get(part, [])
        if mine != theirs:
            left = [one for one in mine if one not in theirs]
            right = [one for one in theirs if one not in mine]
            found.append(
                f"{part}:"
                + "".join(f"\n    tau {one:.400}" for one in left[:4])
                + "".join(f"\n    pi  {one:.400}" for one in right[:4])
                + ("" if left or right else f" order or number {len(mine)}/{len(theirs)}")
            )
    return found


def play(program: list[str], extension: Extension, host: Json) -> Json:
    with tempfile.TemporaryDirectory(prefix="behave") as name, ToolServer("ok") as server:
        try:
            return Run(program, extension, Path(name), server, host).play()
        except AssertionError as error:
            return {"crash": [str(error)[-600:]]}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--node", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--packages", type=Path, help="another folder with the packages, such as AGENT_FOLDER/npm")
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--examples", action="store_true", help="only the examples in pi's own package")
    parser.add_argument("--show", action="store_true")
    given = parser.parse_args()
    folder = given.folder.resolve()
    pi = [given.node, *pi_program(folder), "--mode", "rpc"]
    tau = [sys.executable, "-m", "tau", "--mode", "rpc", "--dialect", "1.5"]
    host = {"extensionHost": {"node": given.node, "loadTimeoutMs": 60000}, "defaultProjectTrust": "always"}
    names = given.only.split(",")
    every = [
        one
        for one in [*examples(folder), *(() if given.examples else packages(given.packages or folder))]
        if any(name in one.name for name in names)
    ]
    same, rows = 0, []

    def both(extension: Extension) -> tuple[Extension, Json, Json]:
        return extension, play(pi, extension, {"defaultProjectTrust": "always"}), play(tau, extension, host)

    for extension, there, here in ThreadPoolExecutor(given.jobs).map(both, every):
        both_fail = "crash" in here and "crash" in there
        found = [] if both_fail else difference(here, there)
        same += not found
        parts = "; ".join(one.split(":")[0] for one in found)
        rows.append(f"| {extension.name} | {'fails in both' if both_fail else parts or 'same'} |")
        print(f"{'same' if not found else 'DIFFERS'} {extension.name}", *found, sep="\n  ", flush=True)
        if given.show:
            print(json.dumps(there, indent=1)[:6000])
    print("\n| extension | differs in |", "|---|---|", *rows, sep="\n")
    print(f"\n{same} of {len(every)} the same")


if __name__ == "__main__":
    main()

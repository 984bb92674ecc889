"""An MCP server over stdio for tests, with faults on request. Uses only the standard library, so it starts quickly.

    python mcp_server.py '{"era": "legacy", "tools": ["echo"], "fault": "noise"}'

`journal` names a file that receives every message, one per line, and "started <pid>" first. It can be imported for
`server_entry`.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

MODERN = "2026-07-28"
PNG = base64.b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d4944415478da63fcffff3f0300050001"
        "5d5c2cd50000000049454e44ae426082"
    )
).decode()
DESCRIPTIONS = {
    "echo": ("Echo a text.", {"text": {"type": "string"}}),
    "count": ("Add one to a number in a file, to see how often it is called.", {"file": {"type": "string"}}),
    "env": ("The names and values of environment variables, as JSON.", {}),
    "pid": ("The process id.", {}),
    "wait": ("Wait, with progress.", {"steps": {"type": "integer"}, "seconds": {"type": "number"}}),
    "image": ("An image.", {}),
    "audio": ("A sound.", {}),
    "structured": ("Structured content.", {"bytes": {"type": "integer"}, "text": {"type": "string"}}),
    "resource": ("Embedded resources and links.", {}),
    "long": ("A long text.", {"bytes": {"type": "integer"}}),
    "fail": ("Fails.", {}),
    "reject": ("A JSON-RPC error.", {}),
    "ask": ("Ask the user.", {"schema": {"type": "object"}, "url": {"type": "string"}}),
    "roots": ("The roots of the client.", {}),
    "change": ("Change the list of tools.", {"description": {"type": "string"}}),
    "exit": ("End the process.", {}),
    "huge": ("Answer with a line of 40 MB.", {}),
    "silent": ("Never answer.", {}),
    "wrong_id": ("Answer with another id, then properly.", {}),
    "broken": ("Answer with broken JSON.", {}),
    "spawn": ("Start a child that ignores signals.", {}),
}


def server_entry(**options: Any) -> dict[str, Any]:
    """The entry for mcp.json."""
    return {"command": sys.executable, "args": ["-S", str(Path(__file__)), json.dumps(options)]}


class Server:
    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options
        self.fault = options.get("fault", "")
        self.era = options.get("era", "legacy")
        self.names: list[str] = list(options.get("tools", ["echo"]))
        self.extra_description = ""
        self.next_id = 1000
        self.listen_id: Any = None
        self.note(f"started {os.getpid()}")

    def note(self, text: str) -> None:
        if journal := self.options.get("journal"):
            with open(journal, "a", encoding="utf-8") as file:
                file.write(text + "\n")

    def send(self, message: dict[str, Any]) -> None:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()

    def read(self) -> dict[str, Any] | None:
        line = sys.stdin.readline()
        if not line:
            return None
        self.note(line.strip())
        message: dict[str, Any] = json.loads(line)
        return message

    def run(self) -> None:
        while (message := self.read()) is not None:
            if "id" in message and "method" in message:
                self.handle(message)
        self.note("eof")

    def handle(self, message: dict[str, Any]) -> None:
        method, params, id = message["method"], message.get("params") or {}, message["id"]
        if method == "server/discover":
            self.discover(id)
            return
        if method == "initialize":
            self.initialize(id, params)
            return
        if method == "subscriptions/listen":
            self.listen_id = id
            return
        if method == "logging/setLevel":
            self.result(id, {})
            for level in ("info", params["level"]):
                message = {"level": level, "data": {"told": f"at {level}"}}
                self.send({"method": "notifications/message", "params": message})
            return
        handler = {
            "tools/list": self.list_tools,
            "tools/call": self.call,
            "prompts/list": self.list_prompts,
            "prompts/get": self.get_prompt,
            "resources/list": self.list_resources,
            "resources/templates/list": lambda id, params: self.result(id, {"resourceTemplates": []}),
            "resources/read": self.read_resource,
        }.get(method)
        if handler is None:
            self.send({"id": id, "error": {"code": -32601, "message": f"no {method}"}})
        else:
            handler(id, params)

    def result(self, id: Any, result: dict[str, Any]) -> None:
        self.send({"id": id, "result": {"resultType": "complete", **result} if self.era == "modern" else result})

    def capabilities(self) -> dict[str, Any]:
        more = {name: {} for name in ("prompts", "resources") if self.options.get(name)}
        return {"tools": {"listChanged": True}, "logging": {}, **more}

    def discover(self, id: Any) -> None:
        if self.fault == "exit_at_discover":
            sys.exit(3)
        if self.fault == "silent_discover":
            return
        if self.era != "modern":
            self.send({"id": id, "error": {"code": -32601, "message": "Method not found"}})
            return
        self.result(
            id,
            {
                "supportedVersions": [MODERN],
                "capabilities": self.capabilities(),
                "instructions": self.options.get("instructions", ""),
                "serverInfo": {"name": "test", "version": "2.0"},
            },
        )

    def initialize(self, id: Any, params: dict[str, Any]) -> None:
        time.sleep(self.options.get("startSeconds", 0))
        if self.fault == "silent":
            return
        if self.fault == "early_notification":
            self.send({"method": "notifications/tools/list_changed"})
        version = "1999-01-01" if self.fault == "unknown_version" else params.get("protocolVersion")
        info = {"name": "test", "version": "1.0"}
        result = {"protocolVersion": version, "capabilities": self.capabilities(), "serverInfo": info}
        self.result(id, {**result, "instructions": self.options.get("instructions", "")})

    def list_tools(self, id: Any, params: dict[str, Any]) -> None:
        if self.fault == "endless_cursor":
            page = int(params.get("cursor") or 0)
            names = [f"tool_{page}_{at}" for at in range(200)]
            self.result(id, {"tools": [self.tool(name) for name in names], "nextCursor": str(page + 1)})
            return
        if self.fault == "same_cursor":
            self.result(id, {"tools": [self.tool("echo")], "nextCursor": "again"})
            return
        if self.fault == "senseless":
            broken = [7, {"name": ""}, {"name": "x" * 1000}, {"name": "bad", "inputSchema": {"type": "nothing"}}]
            self.result(id, {"tools": [*broken, self.tool("echo"), {**self.tool("echo"), "description": "second"}]})
            return
        if counter := self.options.get("shuffled"):  # another order at each start
            with open(counter, "a+", encoding="utf-8") as file:
                file.write("x")
                turns = file.tell() % len(self.names)
            order = self.names[turns:] + self.names[:turns]
            tools = [{**self.tool(name), "description": f"One of: {', '.join(order)}"} for name in order]
            self.result(id, {"tools": tools})
            return
        names = self.names if "toolCount" not in self.options else [f"t{at}" for at in range(self.options["toolCount"])]
        self.result(id, {"tools": [self.tool(name) for name in names]})

    def tool(self, name: str) -> dict[str, Any]:
        text, properties = DESCRIPTIONS.get(name, (self.options.get("description", f"Does {name}."), {}))
        schema = self.options.get("schemas", {}).get(name, {"type": "object", "properties": properties})
        hints = {"annotations": {"readOnlyHint": True}} if name == "echo" else {}
        return {"name": name, "description": text + self.extra_description, "inputSchema": schema, **hints}

    def list_prompts(self, id: Any, params: dict[str, Any]) -> None:
        arguments = [{"name": "topic", "required": True}, {"name": "tone"}]
        self.result(id, {"prompts": [{"name": "write", "description": "Write.", "arguments": arguments}]})

    def get_prompt(self, id: Any, params: dict[str, Any]) -> None:
        given = params.get("arguments") or {}
        text = f"Write about {given.get('topic')}, {given.get('tone', 'plain')}."
        self.result(id, {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]})

    def list_resources(self, id: Any, params: dict[str, Any]) -> None:
        page = [{"uri": "demo://one", "name": "one"}, {"uri": "ui://page", "name": "page"}]
        many = [{"uri": f"demo://{'x' * 300}/{at}"} for at in range(self.options.get("manyResources", 0))]
        self.result(id, {"resources": [*page, *many], **({"nextCursor": "more"} if many else {})})

    def read_resource(self, id: Any, params: dict[str, Any]) -> None:
        self.result(id, {"contents": [{"uri": params["uri"], "text": f"content of {params['uri']}"}]})

    # Tools.

    def call(self, id: Any, params: dict[str, Any]) -> None:
        name, arguments = params["name"], params.get("arguments") or {}
        if self.fault == "noise":
            for at in range(150):
                print(f"debug output {at}", flush=True)
        handler = getattr(self, f"tool_{name}", None)
        if handler is not None:
            handler(id, arguments, params)
        else:
            self.text(id, json.dumps({"name": name, "arguments": arguments}))

    def text(self, id: Any, text: str) -> None:
        self.result(id, {"content": [{"type": "text", "text": text}]})

    def tool_echo(self, id: Any, arguments: dict[str, Any], params: dict[str, Any]) -> None:
        self.text(id, str(arguments.get("text", "")))

    def tool_count(self, id: Any, arguments: dict[str, Any], params: dict[str, Any]) -> None:
        with open(arguments["file"], "a", encoding="utf-8") as file:
            file.write("x")
        self.text(id, "counted")

    def tool_env(self, id: Any, arguments: dict[str, Any], params: dict[str, Any]) -> None:
        self.text(id, json.dumps(dict(os.environ)))

    def tool_pid(self, id: Any, arguments: dict[str, Any], params: dict[str, Any]) -> None:
        self.text(id, str(os.getpid()))

    def tool_wait(self, id: Any, arguments: dict[str, Any], params: dict[str, Any]) -> None:
        token = params.get("_meta", {}).get("progressToken")
        steps = arguments.get("steps", 1)
        for at in range(steps):
            progress = {"progressToken": token, "progress": at + 1, "total": steps, "message": "working"}
            self.send({"method": "notifications/progress", "params": progress})
            time.sleep(arguments.get("seconds", 0.05))
        self.text(id, "waited")

    def tool_image(self, id: Any, arguments: dict[str, Any], params: dict[str, Any]) -> None:
        self.result(id, {"content": [{"type": "image", "data": PNG, "mimeType": "image/png"}]})

    def tool_audio(self, id: Any, arguments: dict[str, Any], params: dict[str, Any]) -> None:
        data = base64.b64encode(b"RIFF sound").decode()
        self.result(id, {"content": [{"type": "audio", "data": data, "mimeType": "audio/wav"}]})

    def tool_structured(self, id: Any, arguments: dict[str, Any], params: dict[str, Any]) -> None:
        large = {"_meta": {"m": "y" * arguments["bytes"]}} if "bytes" in arguments else {}
        answer = "x" * arguments["bytes"] if large else 42
        text = [{"type": "text", "text": arguments["text"]}] if large and "text" in arguments else []
        self.result(id, {"content": text, "structuredContent": {"answer": answer}, **large})

    def tool_resource(self, id: Any, arguments: dict[str, Any], params: dict[str, Any]) -> None:
        embedded = {"type": "resource", "resource": {"uri": "demo://text", "text": "inside"}}
        link = {"type": "resource_link", "uri": "demo://more", "name": "more"}
        self.result(id, {"content": [embedded, link]})

    def tool_long(self, id: Any, arguments: dict[str, Any], params: dict[str, Any]) -> None:
        self.text(id, "line of text\n" * (arguments.get("bytes", 1) // 13))

    def tool_fail(self, id: Any, arguments: dict[str, Any], params: dict[str, Any]) -> None:
        self.result(id, {"content": [{"type": "text", "text": "it did not work"}], "isError": True})

    def tool_reject(self, id: Any, arguments: dict[str, Any], params: dict[str, Any]) -> None:
        self.send({"id": id, "error": {"code": -32602, "message": "no such thing"}})

    def tool_ask(self, id: Any, arguments: dict[str, Any], params: dict[str, Any]) -> None:
        asked: dict[str, Any] = {"message": "What?", "requestedSchema": arguments.get("schema")}
        if "url" in arguments:
            asked = {"message": "Sign in", "mode": "url", "url": arguments["url"], "elicitationId": "e"}
        self.text(id, json.dumps(self.input(id, params, "elicitation/create", asked) or {}))

    def tool_roots(self, id: Any, arguments: dict[str, Any], params: dict[str, Any]) -> None:
        self.text(id, json.dumps(self.input(id, params, "roots/list", {}) or {}))

    def input(self, id: Any, params: dict[str, Any], method: str, asked: dict[str, Any]) -> Any:
        """Ask the client: with a request of our own, or by letting it send the call again."""
        if self.era != "modern":
            self.next_id += 1
            self.send({"id": self.next_id, "method": method, "params": asked})
            while (message := self.read()) is not None:
                if message.get("id") == self.next_id and "method" not in message:
                    return message.get("result", message.get("error"))
            return None
        if "inputResponses" not in params:
            requests = {"q": {"method": method, "params": asked}}
            result = {"resultType": "input_required", "inputRequests": requests, "requestState": "state-1"}
            self.send({"id": id, "result": result})
            message = self.read()
            assert message is not None and message["params"]["requestState"] == "state-1"
            self.handle(message)
            raise _Answered
        return params["inputResponses"]["q"]

    def tool_change(self, id: Any, arguments: dict[str, Any], params: dict[str, Any]) -> None:
        self.extra_description = arguments.get("description", " (changed)")
        self.names = [*self.names, "added"]
        meta = {"_meta": {"io.modelcontextprotocol/subscriptionId": self.listen_id}} if self.listen_id else {}
        self.send({"method": "notifications/tools/list_changed", "params": meta})
        self.text(id, "changed")

    def tool_exit(self, id: Any, arguments: dict[str, Any], params: dict[str, Any]) -> None:
        print("giving up, with the key " + os.environ.get("DEMO_TOKEN", "none"), file=sys.stderr, flush=True)
        os._exit(7)

    def tool_huge(self, id: Any, arguments: dict[str, Any], params: dict[str, Any]) -> None:
        chunk = "x" * (1 << 20)
        for _ in range(40):
            sys.stdout.write(chunk)
        sys.stdout.write("\n")
        sys.stdout.flush()

    def tool_silent(self, id: Any, arguments: dict[str, Any], params: dict[str, Any]) -> None:
        return

    def tool_wrong_id(self, id: Any, arguments: dict[str, Any], params: dict[str, Any]) -> None:
        self.text(id + 10_000, "for somebody else")
        self.text(str(id), "with a string")
        self.send({"id": None, "result": {}})
        self.text(id, "right")
        self.text(id, "twice")

    def tool_broken(self, id: Any, arguments: dict[str, Any], params: dict[str, Any]) -> None:
        begin = f'"jsonrpc":"2.0","id":{id}'
        print("{" + begin + ',"result":{"content":[', flush=True)
        print("[{" + begin + ',"result":{}}]', flush=True)
        print("{" + begin + ',"error":"no object"}', flush=True)

    def tool_spawn(self, id: Any, arguments: dict[str, Any], params: dict[str, Any]) -> None:
        code = "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
        child = subprocess.Popen([sys.executable, "-S", "-c", code], start_new_session=True, stdin=subprocess.DEVNULL)
        self.text(id, str(child.pid))


class _Answered(Exception):
    """The call was answered while it was sent again."""


def main() -> None:
    options = json.loads(sys.argv[1])
    fault = options.get("fault", "")
    if fault == "exit":
        print("cannot start: no licence", file=sys.stderr)
        sys.exit(2)
    if fault == "stderr_flood":
        sys.stderr.write("flood\n" * 500_000)
        sys.stderr.flush()
    if fault in ("stubborn", "grandchild"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    server = Server(options)
    while True:
        try:
            server.run()
        except _Answered:
            continue
        break
    if fault == "stubborn":  # the end of its input does not end it
        while True:
            time.sleep(60)


if __name__ == "__main__":
    main()

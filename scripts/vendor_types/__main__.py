"""Compare tau's requests and readers with the types of the vendors' own libraries.

    python scripts/vendor_types                   installs the libraries into a cache folder
    python scripts/vendor_types --cache FOLDER    into another one

Requests of every family of models in tests/golden/requests, with a conversation that has all kinds of content, are
validated against the parameter types of anthropic, openai (also for Azure), google-genai (also for Vertex) and
mistralai, and for Bedrock against the service model in botocore. A sample of every type of stream event is read. Prints
one line per API with the number of complaints, and the complaints; the exit code is 1 if there are any. Needs pip.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tau.core.agent.draft import Draft
from tau.errors import ModelError
from tau.llm import apis
from tau.llm.types import CallOptions, HttpApi, ModelContext
from tau.records.base import Value, convert, to_builtins
from tau.records.messages import Assistant, Image, Text, Thinking, ToolCall, ToolResult, Usage, User
from tau.records.models import Model
from tau.wire.unfinished import PartialJson

HERE = Path(__file__).parent
FAMILIES = HERE.parent.parent / "tests" / "golden" / "requests" / "pi-0.87.1.jsonl"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tau" / "vendor_types"
PACKAGES = ("anthropic", "openai", "google-genai", "mistralai", "botocore", "pydantic")
APIS = (
    *("anthropic-messages", "bedrock-anthropic-messages", "bedrock-converse-stream"),
    *("openai-completions", "openai-responses", "azure-openai-responses", "mistral-conversations"),
    *("google-generative-ai", "google-vertex"),
)
# Claude on Bedrock through the Messages API, which pi does not have: the families of the Converse API are used.
CLAUDE_ON_BEDROCK = "bedrock-anthropic-messages"
ENVIRONMENT = {
    "AWS_REGION": "us-east-1",
    "AZURE_OPENAI_BASE_URL": "https://lab.openai.azure.com",
    "GOOGLE_CLOUD_API_KEY": "k",
}
INSTALL_TIMEOUT_S = 600.0
SHOWN = 10
# Fields of servers other than OpenAI, which its library does not know.
EXTENSIONS = {
    "openai-completions": (
        *("thinking", "enable_thinking", "chat_template_kwargs", "chat_template_args", "reasoning", "tool_stream"),
        *("provider", "providerOptions", "reasoning_content", "cache_control"),
    ),
}


class Tool(Value):
    name: str
    description: str
    parameters: dict[str, Any]


LS = Tool("ls", "list", {"type": "object", "properties": {"path": {"type": "string"}}, "required": []})


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python scripts/vendor_types", description="Compare tau with the types of the vendors' libraries."
    )
    parser.add_argument("--cache", type=Path, default=CACHE, help="folder for the libraries (%(default)s)")
    python = install(parser.parse_args(argv).cache)
    requests = [request for api in APIS for request in sent_requests(api)]
    found = json.loads(run(python, json.dumps(requests)))
    print(" ".join(f"{name} {version}" for name, version in found["versions"].items()))
    failed = False
    for api in APIS:
        mine = [given["name"] for given in requests if given["api"] == api]
        samples = [sample for sample in found["samples"] if sample["api"] == api]
        complaints = [text for where, text in found["complaints"] if where == api]
        complaints += [text for sample in samples if (text := complaint(sample)) is not None]
        print(f"{api:26} {len(mine):4} requests {len(samples):4} events {len(complaints):4} complaints")
        for text in complaints[:SHOWN]:
            print(f"  {text}")
        failed = failed or bool(complaints) or not mine or not samples
    return 1 if failed else 0


def install(cache: Path) -> Path:
    """The Python of an environment that has the libraries. One that is incomplete is made again."""
    python, mark, wanted = cache / "venv" / "bin" / "python", cache / "installed", " ".join(PACKAGES)
    if not mark.exists() or mark.read_text() != wanted:
        quietly(sys.executable, "-m", "venv", "--clear", str(cache / "venv"))
        quietly(str(python), "-m", "pip", "--disable-pip-version-check", "--no-input", "install", *PACKAGES)
        mark.write_text(wanted)
    return python


def quietly(*command: str) -> None:
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=INSTALL_TIMEOUT_S
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr[-2000:]}")


def run(python: Path, given: str) -> str:
    done = subprocess.run([python, HERE / "validate.py"], input=given, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return done.stdout


def sent_requests(api: str) -> Iterator[dict[str, Any]]:
    """The bodies of requests of all families of an API, at the recorded thinking levels."""
    loaded = apis.load_api(api)
    assert isinstance(loaded, HttpApi)
    for line in FAMILIES.read_text().splitlines():
        family = json.loads(line)
        if not of_api(family["model"], api):
            continue
        model = convert({**family["model"], "api": api, "input": ["text", "image"]}, Model)
        for recorded in family["requests"]:
            level, retention = recorded["level"], recorded["retention"]
            environment = {**ENVIRONMENT, "PI_CACHE_RETENTION": retention}
            options = CallOptions("key", level, session_id="s" * 36, environment=environment)
            body = to_builtins(loaded.request(model, ModelContext("Be nice.", said(model), [LS]), options).body)
            name = f"{model.provider}/{model.id} {level} {retention}"
            yield {"api": api, "name": name, "body": without(EXTENSIONS.get(api, ()), parameters(model, body))}


def of_api(model: dict[str, Any], api: str) -> bool:
    if api == CLAUDE_ON_BEDROCK:
        return bool(model["api"] == "bedrock-converse-stream" and "claude" in model["id"])
    return bool(model["api"] == api)


def parameters(model: Model, body: dict[str, Any]) -> dict[str, Any]:
    """The body with what is in the URL of a request but a parameter in the library."""
    if model.api == CLAUDE_ON_BEDROCK:
        version = body.pop("anthropic_version")
        assert version == "bedrock-2023-05-31", version
        return {"model": model.id, "stream": True, **body}
    return {"modelId": model.id, **body} if model.api == "bedrock-converse-stream" else body


def without(names: tuple[str, ...], value: Any) -> Any:
    """`value` without the fields with these names."""
    if isinstance(value, dict):
        return {name: without(names, inner) for name, inner in value.items() if name not in names}
    return [without(names, inner) for inner in value] if isinstance(value, list) else value


def said(model: Model) -> list[Any]:
    """A conversation with every kind of content."""
    picture = Image("iVBORw0KGgo=", "image/png")
    signature = '{"type":"reasoning","id":"rs_1","summary":[]}' if "responses" in model.api else "c2lnbmVk"
    thought = [] if model.api == "openai-completions" else [Thinking("hm", signature)]
    content = [*thought, Text("ok"), ToolCall("call_1|fc_1", "ls", {"path": "."})]
    return [
        User([Text("look"), picture], 0),
        Assistant(content, model.api, model.provider, model.id, Usage(), "toolUse", 0),
        ToolResult("call_1|fc_1", "ls", [Text("a"), picture]),
        User([Text("and?")], 0),
    ]


def complaint(sample: dict[str, Any]) -> str | None:
    """None if the event is read after at least one of the beginnings, which open a block of each kind."""
    problems = [problem for start in sample["starts"] if (problem := misread(sample, start)) is not None]
    return problems[0] if len(problems) == len(sample["starts"]) else None


def misread(sample: dict[str, Any], start: list[Any]) -> str | None:
    api = apis.load_api(sample["api"])
    assert isinstance(api, HttpApi)
    reader = api.reader(Draft(Model("m", "M", sample["api"], "lab", ""), 0, PartialJson))
    try:
        for kind, data in (*start, (sample["event"], sample["data"])):
            reader.read(kind, json.dumps(data))
    except ModelError as error:
        if "malformed" in str(error) or "not JSON" in str(error) or "without a type" in str(error):
            return f"{sample['name']}: {error}"
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

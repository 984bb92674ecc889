"""Replay recorded answers of model servers through tau and through the vendors' SDKs, and print where they differ.

    python scripts/recordings FOLDER                    every recording in the folder
    python scripts/recordings FOLDER --no-sdks          tau only: read whole and cut into small pieces
    python scripts/recordings FOLDER --answers          show what tau makes of each recording
    python scripts/recordings FOLDER --cache CACHE      keep the SDKs in this folder

Reads answers that were streamed, from VCR cassettes (YAML, JSON), httprr files, and files of plain chunks: server-sent
events, or the JSON of one event per line. A server on this machine sends each answer to tau and to the SDKs anthropic,
openai, google-genai and boto3, which are installed with pip into the cache folder. Nothing leaves the machine.

Compares text, thinking, tool calls and output tokens, and whether there is an error. The exit code is 1 if something
differs. A difference is not always a bug: docs/models.md lists those that are decisions.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from formats import Recorded, Unreadable, recorded

from tau import llm
from tau.core.agent.draft import Draft, MessageDone
from tau.errors import ModelError
from tau.llm import apis
from tau.llm.http import Http
from tau.llm.types import CallEnvironment, CallOptions, HttpApi, ModelContext
from tau.records.messages import Assistant, Text, Thinking, User
from tau.records.models import Model
from tau.wire.unfinished import PartialJson

HERE = Path(__file__).parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tau" / "recordings"
PACKAGES = ("anthropic", "openai", "google-genai", "boto3")
INSTALL_TIMEOUT_S = 600.0
IDLE_TIMEOUT_S = 30.0
PIECE_BYTES = 7
SHOWN = 150
ENVIRONMENT = {"AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s"}
Answer = dict[str, Any]


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python scripts/recordings", description="Replay recorded answers.")
    parser.add_argument("folder", type=Path, help="folder or file with recordings")
    parser.add_argument("--no-sdks", action="store_true", help="do not compare with the vendors' SDKs")
    parser.add_argument("--answers", action="store_true", help="show what tau makes of each recording")
    parser.add_argument("--cache", type=Path, default=CACHE, help="folder for the SDKs (%(default)s)")
    chosen = parser.parse_args(argv)
    if not chosen.folder.exists():
        parser.error(f"there is no {chosen.folder}")
    answers = list(read(chosen.folder))
    with serving(answers) as address:
        addresses = [f"{address}/{number}" for number in range(len(answers))]
        ours = asyncio.run(replayed(answers, addresses))
        theirs: Sequence[Answer | None] = [None] * len(answers)
        if not chosen.no_sdks and answers:
            theirs = by_sdks(install(chosen.cache.absolute()), answers, addresses)
    different = 0
    for each, own, other in zip(answers, ours, theirs, strict=True):
        found = [*cut_differences(each, own), *(differences(own, other) if other is not None else ())]
        different += bool(found)
        for line in ([json.dumps(own, ensure_ascii=False)] if chosen.answers else []) + found:
            print(f"{each.name} {each.url or each.api}\n  {line}")
    failed = sum("error" in own for own in ours)
    print(f"{len(answers)} streamed answers, {failed} with an error, {different} with differences")
    return 1 if different else 0


def read(folder: Path) -> Iterator[Recorded]:
    files = [folder] if folder.is_file() else sorted(path for path in folder.rglob("*") if path.is_file())
    for file in files:
        try:
            yield from recorded(file)
        except (Unreadable, ValueError, EOFError, OSError) as error:
            print(f"{file} is not read: {error}", file=sys.stderr)


@contextmanager
def serving(answers: Sequence[Recorded]) -> Iterator[str]:
    """A server that sends the answer whose number is the first part of the path."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            answer = answers[int(self.path.split("/")[1])]
            aws = answer.api.startswith("bedrock")
            self.send_response(200)
            self.send_header("content-type", "application/vnd.amazon.eventstream" if aws else "text/event-stream")
            self.send_header("content-length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


async def replayed(answers: Sequence[Recorded], addresses: Sequence[str]) -> list[Answer]:
    """What tau makes of the answers when a server sends them."""
    http = Http(IDLE_TIMEOUT_S, IDLE_TIMEOUT_S)
    try:
        return [await ask(each.api, address, http) for each, address in zip(answers, addresses, strict=True)]
    finally:
        await http.close()


async def ask(api: str, address: str, http: Http) -> Answer:
    draft = new_draft(api, address)
    context, options = ModelContext("", [User("hi", 0)], []), CallOptions("k", environment=ENVIRONMENT)
    results: list[Any] = []
    try:
        async for part in llm.stream(draft.model, context, options, draft, CallEnvironment(http, asyncio.sleep)):
            results += part
    except ModelError as error:
        return {"error": str(error)}
    return told(results[-1])


def in_pieces(answer: Recorded) -> Answer:
    """What tau makes of the answer when it comes in small pieces."""
    api = apis.load_api(answer.api)
    assert isinstance(api, HttpApi)
    decoder, reader, results = api.decoder(), api.reader(new_draft(answer.api, "")), list[Any]()
    try:
        for at in range(0, len(answer.body), PIECE_BYTES):
            for event, data in decoder.feed(answer.body[at : at + PIECE_BYTES]):
                results += reader.read(event, data)
                if results and isinstance(results[-1], MessageDone):
                    return told(results[-1])
        return told(reader.end()[-1])
    except ModelError as error:
        return {"error": str(error)}


def new_draft(api: str, address: str) -> Draft:
    return Draft(Model("m", "M", api, "recorded", address, reasoning=True), 0, PartialJson)


def told(done: Any) -> Answer:
    assert isinstance(done, MessageDone), done
    message: Assistant = done.message
    return {
        "text": "".join(block.text for block in message.content if isinstance(block, Text)),
        "thinking": "".join(
            block.thinking for block in message.content if isinstance(block, Thinking) and block.redacted is not True
        ),
        "calls": [[call.name, done.unreadable.get(at, call.arguments)] for at, call in enumerate(message.tool_calls)],
        "output": message.usage.output,
    }


def by_sdks(python: Path, answers: Sequence[Recorded], addresses: Sequence[str]) -> list[Answer]:
    given = [{"api": each.api, "url": address} for each, address in zip(answers, addresses, strict=True)]
    text = "".join(json.dumps(line) + "\n" for line in given)
    done = subprocess.run([python, HERE / "sdk_answers.py"], input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr[-2000:])
    versions, *found = map(json.loads, done.stdout.splitlines())
    print(" ".join(f"{name} {version}" for name, version in versions.items()))
    return found


def cut_differences(answer: Recorded, own: Answer) -> list[str]:
    cut = in_pieces(answer)
    if "error" in own and "error" in cut:
        return []
    return [f"cut into pieces of {PIECE_BYTES} bytes: {line}" for line in differences(own, cut, "cut")]


def differences(own: Answer, other: Answer, name: str = "SDK") -> list[str]:
    """What differs, a line for each field. Two errors are equal: their words belong to each program."""
    if "error" in own or "error" in other:
        if "error" in own and "error" in other:
            return []
        return [f"tau: {_short(own.get('error', 'an answer'))}; {name}: {_short(other.get('error', 'an answer'))}"]
    return [
        f"{field}: tau {_short(own[field])}; {name} {_short(other[field])}"
        for field in ("text", "thinking", "calls", "output")
        if own[field] != other[field] and other[field] is not None
    ]


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}… ({len(text)} characters)"


def install(cache: Path) -> Path:
    """The Python of an environment that has the SDKs. One that is incomplete is made again."""
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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

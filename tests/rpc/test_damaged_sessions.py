"""Session files that are damaged, odd or long, used over the protocol: every command has an answer, nothing is lost.

The same files are used below the protocol, by the thousand, in tests/faults/sessions.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from faults.sessions import samples
from support.rpc_memory import Agent

Json = dict[str, Any]
Lines = list[bytes]
TIME = "2026-01-02T03:04:05.678Z"
USAGE = {"input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 2}
ASKED = ("get_state", "get_messages", "get_session_stats", "get_fork_messages", "get_tree", "get_entries")
THEN = ("get_last_assistant_text", "export_html", "list_sessions", "clone", "compact")


def joined(lines: Lines) -> bytes:
    return b"\n".join(lines) + b"\n"


def header(**fields: Any) -> bytes:
    return json.dumps({"type": "session", "version": 3, "id": "s-1", "timestamp": TIME, "cwd": "", **fields}).encode()


def said(id: str, parent: str | None, message: Any = None, **fields: Any) -> bytes:
    message = {"role": "user", "content": f"say {id}", "timestamp": 1} if message is None else message
    entry = {"type": "message", "id": id, "parentId": parent, "timestamp": TIME, "message": message, **fields}
    return json.dumps(entry).encode()


def answered(id: str, parent: str | None, **fields: Any) -> bytes:
    content = [{"type": "text", "text": f"answer {id}"}]
    message = {"role": "assistant", "content": content, "api": "x", "provider": "p", "model": "m", "timestamp": 1}
    return said(id, parent, {**message, "usage": USAGE, "stopReason": "stop", **fields})


def chain(*entries: Callable[[str, str | None], bytes]) -> bytes:
    ids = [f"{at:08x}" for at in range(len(entries))]
    return joined([header(), *(make(id, parent) for make, id, parent in zip(entries, ids, [None, *ids], strict=False))])


def with_message(message: Any) -> bytes:
    return chain(said, lambda id, parent: said(id, parent, message), answered, said)


def with_entry(**fields: Any) -> bytes:
    def odd(id: str, parent: str | None) -> bytes:
        return json.dumps({"id": id, "parentId": parent, "timestamp": TIME, **fields}).encode()

    return chain(said, answered, odd, said, answered)


WHOLE = samples()[0]
DATA = joined(WHOLE)
HALF = len(DATA) // 2


def relinked(**parents: str | None) -> bytes:
    lines = [header()]
    for at in range(6):
        id = f"{at:08x}"
        lines.append(said(id, parents.get(f"e{at}", f"{at - 1:08x}" if at else None)))
    return joined(lines)


# Files that are a session, whatever is wrong with them.
OPENED: dict[str, bytes] = {
    "whole": DATA,
    "a header alone": joined([header()]),
    "a mark and carriage returns": b"\xef\xbb\xbf" + DATA.replace(b"\n", b"\r\n"),
    "blank lines": DATA.replace(b"\n", b"\n \n\t\n\n"),
    "a torn last line": DATA[:-30],
    "no newline at the end": DATA[:-1],
    "NULs at the end": DATA + b"\0" * 4096,
    "NULs in the middle": DATA[:HALF] + b"\0" * 300 + DATA[HALF + 300 :],
    "random bytes in the middle": DATA[:HALF] + bytes(range(256)) + DATA[HALF + 256 :],
    "the header twice": joined([WHOLE[0], *WHOLE]),
    "another header behind": joined([*WHOLE, header(id="s-2"), said("x1", None)]),
    "two sessions in one file": DATA + DATA,
    "the first entry lost": joined([WHOLE[0], *WHOLE[2:]]),
    "every second entry lost": joined([WHOLE[0], *WHOLE[1::2]]),
    "entries in reverse order": joined([WHOLE[0], *WHOLE[:0:-1]]),
    "two entries on one line": joined([*WHOLE[:4], WHOLE[4] + WHOLE[5], *WHOLE[6:]]),
    "entries that all have one id": joined([header(), *(said("same", "same") for _ in range(5))]),
    "an entry that is its own parent": relinked(e3="00000003"),
    "two entries that are parents of each other": relinked(e2="00000003", e3="00000002"),
    "a parent that does not exist": relinked(e3="nowhere"),
    "several roots": relinked(e2=None, e4=None),
    "a number as id": joined([header(), b'{"type":"message","id":5,"parentId":null,"message":{}}', said("a", None)]),
    "no type": joined([header(), b'{"id":"a","parentId":null}', said("b", "a")]),
    "a compaction of nothing": with_entry(type="compaction", summary="s", firstKeptEntryId="gone", tokensBefore=1),
    "a compaction that keeps itself": with_entry(
        type="compaction", summary="s", firstKeptEntryId="00000002", tokensBefore=-1
    ),
    "a compaction without a summary": with_entry(type="compaction", firstKeptEntryId="00000000", tokensBefore="many"),
    "a branch summary from nowhere": with_entry(type="branch_summary", fromId="gone", summary=""),
    "a label on nothing": with_entry(type="label", targetId="gone", label="here"),
    "a name with escapes": with_entry(type="session_info", name="a\x1b[2Jb\nc\0d" * 200),
    "a model that does not exist": with_entry(type="model_change", provider="", modelId=None),
    "a level that does not exist": with_entry(type="thinking_level_change", thinkingLevel="zork"),
    "an edit of nothing": with_entry(type="context_edit", targetId="gone", replacement=None),
    "a queue of nonsense": with_entry(type="custom", customType="tau.queued", data={"queue": 5, "message": []}),
    "a message that is null": with_entry(type="message", message=None),
    "a message of another shape": with_message({"role": "user", "content": {"text": 5}, "timestamp": "now"}),
    "a message of an unknown role": with_message({"role": "zork", "content": "x", "timestamp": 1}),
    "a message that is a list": with_message([1, 2]),
    "an image that is none": with_message(
        {"role": "user", "content": [{"type": "image", "data": "!", "mimeType": "a/b"}], "timestamp": 1}
    ),
    "an answer without usage": chain(said, lambda id, parent: answered(id, parent, usage=None), said),
    "usage that cannot be": chain(
        said, lambda id, parent: answered(id, parent, usage={**USAGE, "input": -5, "output": "x", "cost": []}), said
    ),
    "a result without a call": with_message(
        {"role": "toolResult", "toolCallId": "x", "toolName": "ls", "content": [], "isError": False, "timestamp": 1}
    ),
    "deep values": with_message({"role": "user", "content": "x", "timestamp": 1, "deep": eval("[" * 150 + "]" * 150)}),
    "numbers beyond any": chain(said, answered, said).replace(b'"timestamp": 1', b'"timestamp": 1e999'),
    "half characters": chain(said, answered, said).replace(b"answer", b"\\ud800answer"),
    "a long line": with_message({"role": "user", "content": "x" * 1_000_000, "timestamp": 1}),
    "many branches": joined([header(), said("a", None), *(said(f"b{at}", "a") for at in range(800))]),
    "a long branch": chain(*([said, answered] * 150)),
    "an older version": joined(samples()[2]),
    "a version of the future": joined([header(version=99), *WHOLE[1:]]),
    "a version that is a text": joined([header(version="3"), *WHOLE[1:]]),
    "a version with a fraction": joined([header(version=3.0), *WHOLE[1:]]),
}
REFUSED: dict[str, bytes] = {
    "a torn header": WHOLE[0][:40],
    "no header": joined(WHOLE[1:]),
    "UTF-16": DATA.decode().encode("utf-16"),
    "a list of entries": b"[" + b",".join(WHOLE) + b"]",
    "compressed": b"\x1f\x8b\x08\0" + bytes(range(200)),
    "a header without an id": joined([b'{"type":"session","version":3}', *WHOLE[1:]]),
}


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    with Agent(tmp_path_factory.mktemp("damaged"), *[{"text": "ok"}] * 2000) as made:
        yield made


def answer(agent: Agent, kind: str, **fields: Any) -> Json:
    response = agent.ask(kind, **fields)
    assert "Internal error" not in response.get("error", ""), response
    return response


@pytest.mark.parametrize("name", OPENED)
def test_every_command_has_an_answer(agent: Agent, tmp_path: Path, name: str) -> None:
    path = tmp_path / "session.jsonl"
    path.write_bytes(OPENED[name])
    agent.get("switch_session", sessionPath=str(path))
    for kind in ASKED:
        assert answer(agent, kind)["success"], kind
    agent.prompt("one more")
    assert agent.get("get_last_assistant_text")["text"] == "ok"
    # Before they were read for a model, some of them may have been counted that cannot be read.
    assert agent.get("get_state")["messageCount"] == len(agent.get("get_messages")["messages"])
    if name != "an older version":
        assert path.read_bytes().startswith(OPENED[name])
    points = agent.get("get_fork_messages")["messages"]
    for kind in THEN:
        answer(agent, kind, **({"outputPath": str(tmp_path / "page.html")} if kind == "export_html" else {}))
    answer(agent, "navigate", entryId=points[0]["entryId"])
    answer(agent, "fork", entryId=points[-1]["entryId"])
    agent.get("switch_session", sessionPath=str(path))
    assert '"one more"' in json.dumps(agent.get("get_messages"))


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_session_is_refused_and_left_alone(agent: Agent, tmp_path: Path, name: str) -> None:
    path = tmp_path / "session.jsonl"
    path.write_bytes(REFUSED[name])
    before = agent.get("get_state")["sessionFile"]
    assert not answer(agent, "switch_session", sessionPath=str(path))["success"]
    assert (path.read_bytes(), agent.get("get_state")["sessionFile"]) == (REFUSED[name], before)

"""Big answers, outputs, pastes, queues and sessions in the whole interface."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.interface import REDRAW, Interface
from support.rpc_process import Json, calls, endless

LINES = 100_000
TIMEOUT_S = 60.0


def answer(text: str, size: int = 20_000) -> Json:
    return {"blocks": [{"text": [text[at : at + size] for at in range(0, len(text), size)]}]}


@pytest.mark.promise("T15")
@pytest.mark.parametrize(
    ("script", "last"),
    [
        ([answer("".join(f"line {number}\n" for number in range(LINES)) + "The end.")], "The end."),
        ([answer("```\n" + "".join(f"line {number}\n" for number in range(LINES)) + "```\nThe end.")], "The end."),
        ([calls(f"seq {LINES}"), {"text": "The end."}], "The end."),
        ([answer("x" * 1_000_000 + " The end.")], "The end."),
        ([calls("head -c 1000000 /dev/zero | tr '\\0' x"), {"text": "The end."}], "The end."),
        (
            [{"blocks": [{"tool": "bash", "arguments": {"command": "true " + "x" * 100_000}}]}, {"text": "The end."}],
            "end.",
        ),
    ],
    ids=["answer", "code", "output", "one line", "one line of output", "one long command"],
)
def test_a_big_text_is_shown_to_its_end(script: list[Json], last: str, tmp_path: Path) -> None:
    with Interface(tmp_path, script=script, keys=REDRAW) as tau:
        tau.start().send("go")
        tau.wait(last, timeout=TIMEOUT_S)
        tau.settle()
        assert len(tau.raw()) < 5_000_000
        tau.assert_redraw_changes_nothing()
        tau.type("still quick")
        tau.wait("still quick")
        tau.press("ctrl+c")
        tau.press("ctrl+d")
        assert tau.wait_end() == 0
        tau.assert_restored()


@pytest.mark.promise("T15")
def test_a_megabyte_is_pasted_and_sent_byte_for_byte(tmp_path: Path) -> None:
    text = "".join(f"{number} äöü €\t{'x' * (number % 90)}\n" for number in range(20_000))[:1_000_000].rstrip()
    with Interface(tmp_path) as tau:
        tau.start().type("see: ")
        tau.wait("see:")
        before = len(tau.raw())
        tau.paste(text)
        tau.wait("[paste #1 +")
        tau.wait_quiet()
        assert len(tau.raw()) - before < 2_000
        tau.press("enter")
        tau.wait("ok", timeout=TIMEOUT_S)
        tau.settle()
    assert tau.prompts() == [f"see: {text}"]


def test_ten_thousand_queued_messages_are_refused_with_a_sentence(tmp_path: Path) -> None:
    with Interface(tmp_path, script=[endless("so far ")]) as tau:
        tau.start().send("go")
        tau.wait("so far")
        tau.type("q\r" * 10_000)
        tau.wait("queue is full (256 messages)", timeout=TIMEOUT_S)
        tau.wait("(9,744 times)", timeout=TIMEOUT_S)
        tau.wait(lambda shown: "Working" in shown and tau.box()[1] == "", timeout=TIMEOUT_S)
        tau.type("\x1b[27u")
        tau.wait("Stopped.", timeout=TIMEOUT_S)
        tau.press("ctrl+c")
        tau.wait_quiet()
        tau.send("/quit")
        assert tau.wait_end(TIMEOUT_S) == 0
        tau.assert_restored()


@pytest.mark.promise("T15")
def test_a_session_of_20000_entries_is_resumed(tmp_path: Path) -> None:
    with Interface(tmp_path, script=[{"text": "first answer"}]) as tau:
        tau.start().send("hi")
        tau.wait("first answer")
        tau.settle()
    (file,) = (tmp_path / "agent" / "sessions").rglob("*.jsonl")
    entries = [json.loads(line) for line in file.read_text().splitlines()]
    user, assistant = [entry for entry in entries if entry["type"] == "message"][:2]
    parent = entries[-1]["id"]
    with file.open("a") as more:
        for number in range(10_000):
            for name, one in (("u", user), ("a", assistant)):
                text = [{"type": "text", "text": f"{name}{number}."}]
                entry = {**one, "id": f"{name}{number:07}", "parentId": parent}
                entry["message"] = {**one["message"], "content": text}
                more.write(json.dumps(entry) + "\n")
                parent = entry["id"]
    with Interface(tmp_path, "--continue", script=[{"text": "next answer"}], keys=REDRAW) as tau:
        tau.wait("a9999.", timeout=TIMEOUT_S)
        tau.wait_quiet()
        assert len(tau.raw()) < 60_000
        assert "u9990." in "\n".join([*tau.history(), *tau.screen()])
        tau.send("more")
        tau.wait("next answer")
        tau.settle()
        tau.assert_redraw_changes_nothing()
        assert len(tau.session_entries()) > 20_000

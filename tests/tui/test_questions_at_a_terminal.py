"""Permission questions and extensions in the whole terminal interface, in a pseudo terminal."""

from __future__ import annotations

import json
import textwrap
import time
from pathlib import Path

import pytest

from support.interface import Interface
from support.rpc_process import Json

READY = "→ 3 Deny"  # the row is marked when keys can answer


def bash(command: str, delay_ms: int = 0) -> Json:
    return {"blocks": [{"tool": "bash", "arguments": {"command": command}}], "startDelayMs": delay_ms}


def results(folder: Path) -> list[str]:
    """The texts of the tool results in the only session of this folder."""
    (file,) = (folder / "agent" / "sessions").rglob("*.jsonl")
    entries = [json.loads(line) for line in file.read_text().splitlines()]
    messages = [entry["message"] for entry in entries if entry["type"] == "message"]
    return [message["content"][0]["text"] for message in messages if message["role"] == "toolResult"]


def test_a_quiet_editor_gives_the_focus_and_a_digit_allows_the_call(tmp_path: Path) -> None:
    script = [bash("echo made > made"), {"text": "done."}]
    with Interface(tmp_path, "--permissions", "ask", script=script) as terminal:
        terminal.start().send("go")
        terminal.wait(READY)
        terminal.press("1")
        terminal.wait("done.")
        assert (tmp_path / "work" / "made").read_text() == "made\n"


@pytest.mark.promise("T04")
def test_text_that_is_typed_while_a_question_appears_is_in_the_editor_whole(tmp_path: Path) -> None:
    script = [bash("touch made", delay_ms=800), {"text": "done."}]
    with Interface(tmp_path, "--permissions", "ask", script=script) as terminal:
        terminal.start().send("go")
        text = "1 yes 2 please 3 also say why, y or n 1234 and 12"
        for character in text:
            terminal.type(character)
            time.sleep(0.03)  # a person types
        terminal.wait("Tab answers")
        terminal.wait(text)
        assert not (tmp_path / "work" / "made").exists()
        terminal.press("tab")
        terminal.wait(READY)
        terminal.press("1")
        terminal.wait("done.")
        assert text in "\n".join(terminal.box())


@pytest.mark.promise("T04")
def test_a_paste_is_never_an_answer(tmp_path: Path) -> None:
    with Interface(tmp_path, "--permissions", "ask", script=[bash("touch made"), {"text": "done."}]) as terminal:
        terminal.start().send("go")
        terminal.wait(READY)
        terminal.paste("1\n")
        terminal.wait("Tab answers")
        assert not (tmp_path / "work" / "made").exists()


def test_deny_and_say_why(tmp_path: Path) -> None:
    with Interface(tmp_path, "--permissions", "ask", script=[bash("make"), {"text": "done."}]) as terminal:
        terminal.start().send("go")
        terminal.wait(READY)
        terminal.press("4")
        terminal.wait("Enter denies")
        terminal.type("use ninja")
        terminal.wait("use ninja")
        terminal.press("enter")
        terminal.wait("done.")
        assert results(tmp_path)[0].endswith("the user does not allow it and says: use ninja")


def test_escape_denies_the_call_and_the_run_goes_on(tmp_path: Path) -> None:
    with Interface(tmp_path, "--permissions", "ask", script=[bash("touch made"), {"text": "done."}]) as terminal:
        terminal.start().send("go")
        terminal.wait(READY)
        terminal.press("escape")
        terminal.wait("done.")
        assert "the user does not allow it" in results(tmp_path)[0]


def test_escape_twice_stops_the_run(tmp_path: Path) -> None:
    script = [bash("touch made"), {"text": "not said.", "startDelayMs": 60_000}]
    with Interface(tmp_path, "--permissions", "ask", script=script) as terminal:
        terminal.start().send("go")
        terminal.wait(READY)
        terminal.press("escape")
        terminal.press("escape")
        terminal.wait("Stopped")
        assert not (tmp_path / "work" / "made").exists()


def test_questions_of_parallel_calls_come_one_after_the_other(tmp_path: Path) -> None:
    calls = [{"tool": "bash", "arguments": {"command": f"touch made{number}"}} for number in (1, 2, 3)]
    script = [{"blocks": calls}, {"text": "done."}]
    settings = {"toolExecution": "parallel"}
    with Interface(tmp_path, "--permissions", "ask", script=script, settings=settings) as terminal:
        terminal.start().send("go")
        for number, position in ((1, "1 of 3"), (2, "1 of 2"), (3, "")):
            terminal.wait(lambda shown, number=number: READY in shown and f"  touch made{number}\n" in shown)
            assert position in terminal.wait(READY)
            terminal.press("3" if number == 2 else "1")
        terminal.wait("done.")
        assert [(tmp_path / "work" / f"made{number}").exists() for number in (1, 2, 3)] == [True, False, True]


def test_the_deadline_counts_down_and_space_stops_it(tmp_path: Path) -> None:
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps({"otherwise": "ask", "deadline": 5}))
    with Interface(tmp_path, "--permissions", f"rules {rules}", script=[bash("true"), {"text": "done."}]) as terminal:
        terminal.start().send("go")
        terminal.wait(READY)
        terminal.wait(" 3s ──")
        terminal.press("space")
        terminal.wait("clock stopped")
        terminal.press("1")
        terminal.wait("done.")


def test_the_change_of_an_edit_is_in_the_question(tmp_path: Path) -> None:
    edit = {"path": "a.txt", "oldText": "fox", "newText": "dog"}
    script = [{"blocks": [{"tool": "edit", "arguments": edit}]}, {"text": "done."}]
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("the red fox\n")
    with Interface(tmp_path, "--permissions", "ask", script=script, rows=40) as terminal:
        terminal.start().send("go")
        shown = terminal.wait(READY)
        assert "-1 the red fox" in shown
        assert "+1 the red dog" in shown
        terminal.press("1")
        terminal.wait("done.")
        assert (tmp_path / "work" / "a.txt").read_text() == "the red dog\n"


EXTENSION = """
    def setup(pi):
        pi.on("session_start", lambda event, ctx: ctx.ui.notify("loaded"))

        @pi.command("show")
        async def show(args, ctx):
            ctx.ui.set_status("s", "[accent]my status[/]")
            ctx.ui.set_widget("w", [f"line {number}" for number in range(1, 15)])
            ctx.ui.set_widget("b", ["under the editor"], "belowEditor")
            ctx.ui.notify("a warning", "warning")
            answer = await ctx.ui.select("Which one?", ["red", "green"])
            ctx.ui.notify(f"chosen {answer}")
            ctx.ui.notify(str(await ctx.ui.confirm("Sure?", "Really?")))
            ctx.ui.notify(str(await ctx.ui.input("Name?", "Ann")))

        pi.register_shortcut("f9", lambda ctx: ctx.ui.notify("f9 pressed"))
"""


@pytest.fixture
def extension(tmp_path: Path) -> str:
    file = tmp_path / "extension.py"
    file.write_text(textwrap.dedent(EXTENSION))
    return str(file)


def test_an_extension_shows_widgets_and_asks(tmp_path: Path, extension: str) -> None:
    with Interface(tmp_path, "-e", extension, rows=40) as terminal:
        terminal.start().wait("loaded")
        terminal.send("/show")
        shown = terminal.wait("→ 1 red")
        for text in ("my status", "line 9\n", "+5 more", "under the editor", "a warning", "Which one?"):
            assert text in shown
        assert "line 10" not in shown
        terminal.press("2")
        terminal.wait("chosen green")
        terminal.wait("→ 2 No")
        terminal.press("1")
        terminal.wait("True")
        terminal.wait("Name?")
        _until_cursor(terminal, "Name?")
        terminal.type("Bob")
        terminal.wait("Bob")
        terminal.press("enter")
        terminal.wait(lambda shown: "Name?" not in shown and "Bob" in shown)
        terminal.type(b"\x1b[20~")  # F9
        terminal.wait("f9 pressed")


def _until_cursor(terminal: Interface, title: str) -> None:
    """Wait until the cursor is in the field below a title: then the field takes keys."""

    def is_there(shown: str) -> bool:
        rows = [at for at, text in enumerate(terminal.screen()) if title in text]
        return bool(rows) and terminal.cursor()[0] == rows[0] + 1

    terminal.wait(is_there)

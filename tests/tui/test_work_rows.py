"""The transcript and the working line in the whole program: what a person sees while the agent works."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from support.interface import Interface
from support.rpc_process import Json, calls, endless


def tool(name: str, id: str = "call", **arguments: Any) -> Json:
    return {"tool": name, "arguments": arguments, "id": id}


def answer(*blocks: Json, **more: Any) -> Json:
    return {"blocks": list(blocks), **more}


def frames(tau: Interface) -> list[str]:
    """What the program wrote, frame by frame."""
    return [part.decode(errors="replace") for part in tau.raw().split(b"\x1b[?2026h")[1:]]


MARKDOWN = """# Title

Some **bold words** and `code`, [a link](https://example.org).

| name | value |
|------|-------|
| one  | first |

```python
def f():
    return 1
```

- item one
- item two

> quoted
"""


def test_markdown_that_streams_never_shows_a_marker_that_disappears_again(tmp_path: Path) -> None:
    pieces = re.findall(r"(?s).{1,3}", MARKDOWN)
    with Interface(tmp_path, script=[{**answer({"text": pieces}), "delayMs": 4}], rows=40) as tau:
        tau.start().send("go")
        tau.wait("quoted")
        tau.settle()
        shown = "\n".join(tau.screen())
        for text in ("Title", "Some bold words and code", "a link (https://example.org)", "def f():", "item one"):
            assert text in shown, (text, shown)
        assert re.search(r"one +│? *first", shown)
        streamed = "".join(frames(tau))
        assert not any(marker in streamed for marker in ("**", "`code", "|--", "](http"))


def test_ctrl_t_collapses_thinking_and_a_setting_hides_it(tmp_path: Path) -> None:
    script = [answer({"thinking": "I wonder about it."}, {"text": "Here it is."})]
    with Interface(tmp_path, script=script) as tau:
        tau.start().send("go")
        tau.wait("Here it is.")
        row = next(at for at, text in enumerate(tau.screen()) if "I wonder about it." in text)
        assert tau.cells(row)[0].italics
        tau.press("ctrl+t")
        tau.wait("Thinking…")
        assert "I wonder" not in "\n".join(tau.screen())
        tau.press("ctrl+t")
        tau.wait("I wonder about it.")
    with Interface(tmp_path / "hidden", script=script, settings={"hideThinkingBlock": True}) as tau:
        tau.start().send("go")
        shown = tau.wait("Here it is.")
        assert "Thinking…" in shown and "I wonder" not in shown


def test_a_tool_card_is_live_and_expands_in_place(tmp_path: Path) -> None:
    command = "for i in 1 2 3 4 5 6 7 8; do echo out$i; done; while [ ! -e go ]; do sleep 0.02; done; sleep 0.15"
    arguments = json.dumps({"command": command})
    script = [
        {**answer({"tool": "bash", "arguments": [arguments[:20], arguments[20:]]}), "delayMs": 30},
        {"text": "ok"},
    ]
    with Interface(tmp_path, script=script, rows=40) as tau:
        tau.start().send("go")
        tau.wait("• $ for i")
        tau.wait("out8")
        shown = "\n".join(tau.screen())
        assert "out4" in shown and "out3" not in shown
        assert "… 3 earlier lines, Ctrl+O" in shown
        tau.press("ctrl+o")
        tau.wait("out1")
        tau.press("ctrl+o")
        tau.wait("… 3 earlier lines, Ctrl+O")
        (tmp_path / "work" / "go").touch()
        tau.wait("✓ $ for i")
        tau.wait(lambda shown: re.search(r"^  Took \d+\.\ds$", shown, re.MULTILINE) is not None)
        tau.wait("ok")


def test_an_edit_shows_its_diff_with_numbers_signs_and_marked_words(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("first\nthe red fox\nlast\n")
    edit = tool("edit", path=str(tmp_path / "work" / "a.txt"), oldText="the red fox", newText="the red dog")
    with Interface(tmp_path, script=[answer(edit), {"text": "done."}], rows=40) as tau:
        tau.start().send("go")
        shown = tau.wait("done.")
        assert "✓ edit a.txt" in shown  # relative to the folder of the session
        assert "-2 the red fox" in shown and "+2 the red dog" in shown
        row = next(at for at, text in enumerate(tau.screen()) if "+2 the red dog" in text)
        cells = tau.cells(row)
        text = "".join(cell.data for cell in cells)
        assert cells[text.index("dog")].reverse and not cells[text.index("red")].reverse


def test_tools_side_by_side_stand_in_the_order_of_their_calls(tmp_path: Path) -> None:
    script = [
        answer(
            tool("bash", "one", command="while [ ! -e go ]; do sleep 0.02; done; echo first"),
            tool("bash", "two", command="echo second"),
        ),
        {"text": "done."},
    ]
    with Interface(tmp_path, script=script, settings={"toolExecution": "parallel"}) as tau:
        tau.start().send("go")
        tau.wait("✓ $ echo second")
        assert "• $ while" in "\n".join(tau.screen())
        (tmp_path / "work" / "go").touch()
        shown = tau.wait("done.")
        assert shown.index("✓ $ while") < shown.index("  first") < shown.index("✓ $ echo second")


def test_compaction_shows_its_progress_its_summary_and_escape_stops_it(tmp_path: Path) -> None:
    script = [
        {"text": "a long answer " * 400, "usage": {"input": 30_000, "output": 2_000}},
        {"text": "second"},
        endless("half a summary"),
        {"text": "## What happened\nthe summary"},
    ]
    settings = {"compaction": {"keepRecentTokens": 10}}
    with Interface(tmp_path, script=script, settings=settings, rows=40) as tau:
        tau.start().send("go")
        tau.wait("a long answer")
        tau.settle()
        tau.send("again")
        tau.wait("second")
        tau.settle()
        tau.send("/compact")
        tau.wait("Summarising…")
        tau.press("escape")
        tau.wait("Compaction stopped.")
        tau.send("/compact")
        tau.wait("[Compacted: a summary replaces")
        tau.wait_quiet()
        assert "the summary" not in "\n".join(tau.screen())
        tau.press("ctrl+o")
        tau.wait("the summary")


def test_a_model_change_and_a_thinking_level_are_lines(tmp_path: Path) -> None:
    with Interface(tmp_path) as tau:
        tau.start().press("shift+tab")
        tau.wait("Thinking: high")


def test_escape_returns_queued_texts_to_the_editor_and_keeps_what_was_said(tmp_path: Path) -> None:
    with Interface(tmp_path, script=[endless("so far "), {"text": "again"}]) as tau:
        tau.start().send("go")
        tau.wait("so far")
        tau.send("steered")
        tau.wait("Steering: steered")
        tau.type("later")
        tau.press("alt+enter")
        tau.wait("Follow-up: later")
        assert "Alt+Up takes them back" in "\n".join(tau.screen())
        tau.type("draft")
        tau.press("escape")
        tau.wait("Stopped.")
        tau.wait(lambda shown: tau.box()[1:4] == ["steered", "later", "draft"])
        assert "so far" in "\n".join(tau.screen())
        said = [entry["message"] for entry in tau.session_entries() if entry["type"] == "message"]
        assert [message["role"] for message in said] == ["user", "assistant"]
        assert said[1]["content"][0]["text"] == "so far "


def test_escape_stops_the_shell_command_before_the_answer(tmp_path: Path) -> None:
    with Interface(tmp_path, script=[endless("so far ")]) as tau:
        tau.start().send("go")
        tau.wait("so far")
        tau.send("!echo begun; sleep 30")
        tau.wait("  begun")
        tau.press("escape")
        tau.wait("Stopped")
        assert "Working" in tau.box()[0]
        tau.press("escape")
        tau.wait(lambda shown: "Working" not in shown)
        assert "Stopped." in "\n".join(tau.screen())


def test_the_working_line_has_time_tokens_limits_and_how_to_stop(tmp_path: Path) -> None:
    limits = ["--max-cost", "1.00", "--max-turns", "7", "--allow-unknown-cost"]
    with Interface(tmp_path, *limits, script=[endless("some words of an answer ")], cols=110) as tau:
        tau.start().send("go")
        tau.wait("some words")
        tau.wait("Working 1s")
        line = tau.box()[0]
        assert re.match(r"── . Working \d+s · Esc stops · \$0\.00 of \$1\.00 · turn 1 of 7 · 6 tokens ─", line), line


def test_an_error_is_said_in_words_and_the_program_goes_on(tmp_path: Path) -> None:
    script = [{"text": "", "error": {"message": "401 no such key"}}, {"text": "better"}]
    with Interface(tmp_path, script=script) as tau:
        tau.start().send("go")
        tau.wait("Error: ")
        tau.settle()
        tau.send("again")
        tau.wait("better")


EXTENSION = """
import asyncio


def setup(pi):
    @pi.command("all")
    async def all(args, ctx):
        ui = ctx.ui
        ui.set_header(["[accent]my header[/]"])
        ui.set_hidden_thinking_label("Pondering")
        ui.set_working_message("Cooking")
        ui.set_working_indicator(["@"], 100)
        ui.set_title("a title")
        ui.set_editor_text("typed by it")
        ui.paste_to_editor(", pasted")
        ui.notify(f"{ctx.mode} {ctx.has_ui} [{ui.get_editor_text()}]", "error")

    @pi.command("hide")
    async def hide(args, ctx):
        ctx.ui.set_working_visible(False)
        ctx.ui.set_footer(["my footer"])
        ctx.ui.set_header(None)
        ctx.ui.notify(f"expanded {ctx.ui.get_tools_expanded()}")
        ctx.ui.set_tools_expanded(True)

    @pi.command("ask")
    async def ask(args, ctx):
        asked = (ctx.ui.select(f"Number {number}?", ["a", "b"]) for number in (1, 2, 3))
        ctx.ui.notify(f"answers {await asyncio.gather(*asked)}")
        ctx.ui.notify(f"late {await ctx.ui.confirm('In time?', 'no', timeout=1500)}")
        ctx.ui.notify(f"written {await ctx.ui.editor('Write', 'first')}")

    @pi.command("note")
    async def note(args, ctx):
        pi.send_message({"customType": "note", "content": "a *note*", "display": True})
"""


@pytest.fixture
def extension(tmp_path: Path) -> str:
    file = tmp_path / "extension.py"
    file.write_text(EXTENSION)
    return str(file)


def test_what_an_extension_sets_is_on_the_screen(tmp_path: Path, extension: str) -> None:
    script = [
        answer({"thinking": "hm hm"}, {"text": "an answer"}),
        {**answer({"text": ["so far ", "and more "]}), "hangAfter": 2},
    ]
    with Interface(tmp_path, "-e", extension, script=script, settings={"hideThinkingBlock": True}) as tau:
        tau.start().send("/all")
        shown = tau.wait("Error: tui True [")
        assert "my header" in shown
        tau.wait(lambda shown: "typed by it, pasted" in tau.box()[1])
        assert "a title" in tau.recorder.titles[-1]
        tau.press("ctrl+c")
        tau.send("go")
        tau.wait("an answer")
        assert "Pondering" in "\n".join(tau.screen())
        tau.settle()
        tau.send("/note")
        tau.wait("[note]")
        tau.send("more")
        tau.wait("and more")
        assert re.match(r"── @ Cooking \d+s", tau.box()[0])
        tau.send("/hide")
        tau.wait("my footer")
        tau.wait("expanded False")
        tau.wait(lambda shown: "my header" not in shown and "Cooking" not in shown)


def test_questions_of_an_extension_wait_in_order_count_down_and_are_cancelled_by_escape(
    tmp_path: Path, extension: str
) -> None:
    with Interface(tmp_path, "-e", extension) as tau:
        tau.start().send("/ask")
        tau.wait("Number 1?")
        tau.wait("1 of 3")
        tau.wait("→ 1 a")
        tau.press("2")
        tau.wait(lambda shown: "Number 2?" in shown and "→ 1 a" in shown)
        tau.press("escape")
        tau.wait(lambda shown: "Number 3?" in shown and "→ 1 a" in shown)
        tau.press("1")
        tau.wait("answers ['b', None, 'a']")
        tau.wait(lambda shown: re.search(r"\b[12]s\b", shown) is not None)
        tau.wait("late False")
        tau.wait("Write")
        tau.wait_quiet(0.7)
        tau.type(" second")
        tau.wait("first second")
        tau.press("enter")
        tau.wait("written first second")


def test_what_was_allowed_for_the_session_is_listed_and_taken_back(tmp_path: Path) -> None:
    script = [calls("touch made"), {"text": "one."}, calls("touch made"), {"text": "two."}, calls("touch made")]
    with Interface(tmp_path, "--permissions", "ask", script=script, rows=40) as tau:
        tau.start().send("go")
        tau.wait("→ 3 Deny")
        shown = "".join("".join(tau.screen()).split())  # long paths wrap
        for text in (
            "Allow bash?",
            "touch made",
            f"in {tmp_path}/work",
            "sandbox: off",
            "asked by",
            "Deny, and say why",
        ):
            assert "".join(text.split()) in shown, (text, shown)
        tau.press("2")
        tau.wait("one.")
        tau.settle()
        tau.send("go on")
        tau.wait("two.")
        tau.settle()
        tau.send("/permissions")
        tau.wait("Allowed for this session, 1:")
        tau.send("/permissions revoke 1")
        tau.wait_quiet()
        tau.send("and on")
        tau.wait("→ 3 Deny")


RENDERERS = """
def setup(pi):
    def call(args, width):
        return f"[toolTitle]counting[/] {args['text']}"

    def result(result, width, options):
        return ["[success]drawn result[/]"]

    pi.register_tool("count", "Count", {"type": "object"}, lambda: "3", render_call=call, render_result=result)
    pi.register_message_renderer("note", lambda message: ["drawn note: " + message.content])

    @pi.command("note")
    def note(args, ctx):
        pi.send_message({"customType": "note", "content": "words", "display": True})
"""


def test_renderers_of_an_extension_draw_its_tools_and_messages(tmp_path: Path) -> None:
    file = tmp_path / "extension.py"
    file.write_text(RENDERERS)
    script = [answer(tool("count", text="sheep")), {"text": "done."}]
    with Interface(tmp_path, "-e", str(file), script=script) as tau:
        tau.start().send("go")
        tau.wait("done.")
        tau.wait("✓ counting sheep")
        tau.wait("  drawn result")
        tau.settle()
        tau.send("/note")
        tau.wait("drawn note: words")


def test_shift_tab_is_the_thinking_level_while_a_question_waits(tmp_path: Path) -> None:
    with Interface(tmp_path, "--permissions", "ask", script=[calls("touch made"), {"text": "done."}]) as tau:
        tau.start().type("a draft")
        tau.wait("a draft")
        tau.press("ctrl+a")
        tau.press("ctrl+k")
        tau.send("go")
        tau.type("draft")
        tau.wait("Tab answers")
        tau.press("shift+tab")
        tau.wait("Thinking: high")
        assert not (tmp_path / "work" / "made").exists()


def test_an_error_of_an_extension_is_shown_as_one_event(tmp_path: Path) -> None:
    file = tmp_path / "extension.py"
    file.write_text("def setup(pi):\n    pi.register_command('fail', lambda args, ctx: 1 / 0)\n")
    with Interface(tmp_path, "-e", str(file), rows=30, cols=200) as tau:
        tau.start().send("/fail")
        tau.wait("Error: Extension")
        shown = tau.wait_quiet()
        assert shown.count("Error: Extension") == 1 and "failed in command" not in shown


def test_keys_right_after_a_list_was_closed_are_for_the_editor(tmp_path: Path) -> None:
    with Interface(tmp_path) as tau:
        tau.start().send("go")
        tau.wait("ok")
        tau.settle()
        tau.send("/fork")
        tau.wait("Fork before")
        tau.type(b"\x1b[27u/session")  # in one read
        tau.wait(lambda shown: tau.box()[1:2] == ["/session"])


def test_session_shows_file_counts_tokens_and_cost(tmp_path: Path) -> None:
    with Interface(tmp_path, script=[calls("true"), {"text": "fine"}], rows=40, cols=120) as tau:
        tau.start().send("hi")
        tau.wait("fine")
        tau.settle()
        tau.send("/session")
        tau.wait("Messages: 1 of yours, 2 answers, 1 tool call, 4 in all")
        shown = tau.wait("Context:")
        assert "File:" in shown and "Id: " in shown and "Tokens: " in shown

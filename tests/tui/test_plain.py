"""The plain chat, at a real terminal. Nothing sleeps: every wait is for something on the screen."""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import re
import select
import signal
import stat
import termios
import textwrap
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from support.cli_process import asked, start
from support.rpc_process import WITHIN, Agent, Json, Pipe, calls, endless, is_gone
from tau.tui.line_input import PipedInput

SEQUENCE = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]|\r")


class Terminal:
    """A terminal, the program in front of it, and what can be read on its screen."""

    def __init__(self, folder: Path, *argv: str, **how: Any) -> None:
        self._handle, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, b"\x18\0\x64\0\0\0\0\0")  # 24 lines, 100 columns
        env = {"TERM": "dumb", **how.pop("env", {})}
        self.process = start(
            folder, *argv, stdin=theirs, stdout=theirs, stderr=theirs, env=env, preexec_fn=_own_terminal, **how
        )
        os.close(theirs)
        self.screen = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._handle)

    def write(self, keys: str) -> None:
        os.write(self._handle, keys.encode())

    def until(self, wanted: str) -> str:
        """What is shown up to here, and not again."""
        until = time.monotonic() + WITHIN
        while wanted not in self.screen:
            left = max(0.0, until - time.monotonic())
            assert select.select([self._handle], [], [], left)[0], f"no {wanted!r} on {self.screen!r}"
            assert self._read(), f"it ended without {wanted!r}: {self.screen!r}"
        shown, _, self.screen = self.screen.partition(wanted)
        return shown

    def ask(self, line: str) -> str:
        """Type a line when there is a prompt; what is shown until the next prompt."""
        self.until("> ")
        self.write(line + "\n")
        self.until(line)
        shown = self.until("\n> ") + "\n"
        self.screen = "> " + self.screen
        return shown

    def code(self) -> int:
        """How it ends."""
        while self._read():
            pass
        return self.process.wait(WITHIN)

    def _read(self) -> bool:
        try:
            portion = os.read(self._handle, 65536)
        except OSError:  # nobody has the other end any more
            return False
        assert b"Traceback" not in portion, portion
        self.screen += SEQUENCE.sub(b"", portion).decode()
        return bool(portion)


def _own_terminal() -> None:
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def texts_asked(folder: Path) -> list[str]:
    return [content[0]["text"] for content in asked(folder)]


def test_a_line_is_asked_and_answered_until_ctrl_d(tmp_path: Path) -> None:
    with Terminal(tmp_path, answers=[{"text": "Hello"}, {"text": "Bye"}]) as terminal:
        assert "/help lists the commands" in terminal.until("\n")
        assert terminal.ask("hi").split("\n")[1:] == ["Hello", ""]
        assert terminal.ask("and now?").split("\n")[1:] == ["Bye", ""]
        terminal.write("\x04")
        assert terminal.code() == 0
    assert texts_asked(tmp_path) == ["hi", "and now?"]


def test_messages_of_the_command_line_are_asked_first(tmp_path: Path) -> None:
    with Terminal(tmp_path, "first words", answers=[{"text": "first answer"}, {"text": "second answer"}]) as terminal:
        terminal.until("first answer")
        assert "second answer" in terminal.ask("go on")
    assert texts_asked(tmp_path) == ["first words", "go on"]


def test_each_tool_call_is_one_line(tmp_path: Path) -> None:
    answers = [calls("echo one\necho two", "exit 3"), {"text": "done"}]
    with Terminal(tmp_path, answers=answers) as terminal:
        shown = terminal.ask("go").split("\n")
    assert shown[1:3] == ["* bash echo one echo two", "* bash exit 3"]
    assert "failed: " in shown[3] and shown[4:] == ["done", ""]


def test_ctrl_c_stops_the_answer_and_the_chat_continues(tmp_path: Path) -> None:
    with Terminal(tmp_path, answers=[endless("so far "), {"text": "again"}]) as terminal:
        terminal.until("> ")
        terminal.write("go\n")
        terminal.until("so far")
        terminal.write("\x03")
        terminal.until("Stopped.")
        assert "again" in terminal.ask("once more")
        terminal.write("\x04")
        assert terminal.code() == 0


def test_ctrl_c_stops_a_tool_with_its_processes(tmp_path: Path) -> None:
    with Pipe(tmp_path / "pid") as pipe:
        answers = [calls(f"trap '' INT; echo $$ >{pipe.path}; while :; do sleep 0.1; done"), {"text": "again"}]
        with Terminal(tmp_path, answers=answers) as terminal:
            terminal.until("> ")
            terminal.write("go\n")
            child = int(pipe.line())
            terminal.write("\x03")
            assert is_gone(child, within=WITHIN)
            assert "again" in terminal.ask("once more")


def test_ctrl_c_drops_the_line_that_is_being_written(tmp_path: Path) -> None:
    with Terminal(tmp_path) as terminal:
        terminal.until("> ")
        terminal.write("never mind")
        terminal.until("never mind")
        terminal.write("\x03")
        assert "ok" in terminal.ask("something else")
    assert texts_asked(tmp_path) == ["something else"]


def test_lines_can_be_edited_and_are_remembered(tmp_path: Path) -> None:
    with Terminal(tmp_path) as terminal:
        terminal.until("> ")
        terminal.write("wrng\x02\x02o\n")  # back twice, and a letter
        terminal.until("ok\n")
        terminal.until("> ")
        terminal.write("\x04")
        assert terminal.code() == 0
    with Terminal(tmp_path, "--continue") as terminal:
        terminal.until("> ")
        terminal.write("\x10\n")  # the line before
        terminal.until("ok\n")
    assert texts_asked(tmp_path) == ["wrong", "wrong"]
    assert stat.S_IMODE((tmp_path / "agent" / "tau_history").stat().st_mode) == 0o600


@pytest.mark.parametrize("line", ["/quit", "\x04"])
def test_there_are_two_ways_to_leave(line: str, tmp_path: Path) -> None:
    with Terminal(tmp_path) as terminal:
        terminal.until("> ")
        terminal.write(line + ("\n" if line == "/quit" else ""))
        assert terminal.code() == 0


def test_the_commands_of_the_chat(tmp_path: Path) -> None:
    with Terminal(tmp_path) as terminal:
        listed = terminal.ask("/help")
        assert [word in listed for word in ("/help", "/new", "/model", "/compact", "/quit")] == [True] * 5
        assert "scripted/scripted, thinking medium" in terminal.ask("/model")
        assert "tau/demo" in terminal.ask("/model demo")
        assert 'Model "zork" not found' in terminal.ask("/model zork")
        assert "offline demo model" in terminal.ask("hello")
        assert "Error: " in terminal.ask("/compact")
        assert "This is now: new session." in terminal.ask("/new")
        assert "understand" in terminal.ask("//what is this")
        terminal.write("\x04")
        assert terminal.code() == 0
    assert len(list((tmp_path / "agent" / "sessions").rglob("*.jsonl"))) == 2


def test_a_failure_is_reported_and_the_chat_continues(tmp_path: Path) -> None:
    answers = [{"error": {"message": "401 bad key"}}, {"text": "better"}]
    with Terminal(tmp_path, answers=answers) as terminal:
        assert "Error: 401 bad key" in terminal.ask("one")
        assert "better" in terminal.ask("two")


def test_a_model_that_repeats_a_failing_call_is_stopped_and_the_chat_continues(tmp_path: Path) -> None:
    wrong = {"blocks": [{"tool": "no_such_tool", "arguments": {}, "id": "a"}]}
    with Terminal(tmp_path, answers=[*[wrong] * 8, {"text": "better"}]) as terminal:
        shown = terminal.ask("one")
        assert shown.count("Stopped: the tool calls of 8 answers in a row all failed in the same way.") == 1, shown
        assert "better" in terminal.ask("two")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_it_with_what_runs(number: signal.Signals, code: int, tmp_path: Path) -> None:
    with Pipe(tmp_path / "pid") as pipe:
        with Terminal(tmp_path, "go", answers=[calls(f"echo $$ >{pipe.path}; sleep 300")]) as terminal:
            child = int(pipe.line())
            terminal.process.send_signal(number)
            assert terminal.code() == code
        assert is_gone(child, within=WITHIN)
    assert texts_asked(tmp_path) == ["go"]


def test_a_signal_at_the_prompt(tmp_path: Path) -> None:
    with Terminal(tmp_path) as terminal:
        terminal.until("> ")
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.code() == 143


def test_a_session_that_was_chosen_is_gone_on_with(tmp_path: Path) -> None:
    with Agent(tmp_path, {"text": "one"}) as agent:
        agent.prompt("first words")
    with Terminal(tmp_path, "--resume") as terminal:
        assert "first words" in terminal.until("Which one? [1] ")
        terminal.write("1\n")
        assert "ok" in terminal.ask("and then")
    assert texts_asked(tmp_path) == ["first words", "and then"]


@pytest.mark.promise("T01")
def test_the_answer_does_not_steer_the_terminal(tmp_path: Path) -> None:
    with Terminal(tmp_path, answers=[{"blocks": [{"text": ["\x1b", "]0;title\x07plain"]}]}]) as terminal:
        assert terminal.ask("hi") == "\nplain\n"


def test_print_mode_at_a_terminal_answers_and_ends(tmp_path: Path) -> None:
    with Terminal(tmp_path, "-p", "hi") as terminal:
        terminal.until("ok\n")
        assert terminal.code() == 0


# Questions.

ASKING = ["--permissions", "ask"]
TOUCHED = [calls("touch a"), {"text": "done"}]
NO = "anything else means no: "


def results(folder: Path) -> list[Json]:
    """What the model was told of its calls, in the only session of this folder."""
    (file,) = (folder / "agent" / "sessions").rglob("*.jsonl")
    entries = [json.loads(line) for line in file.read_text().splitlines()]
    messages = [entry["message"] for entry in entries if entry["type"] == "message"]
    return [message for message in messages if message["role"] == "toolResult"]


def test_a_call_is_shown_and_runs_when_it_is_allowed(tmp_path: Path) -> None:
    with Terminal(tmp_path, *ASKING, "go", answers=TOUCHED) as terminal:
        shown = terminal.until(NO)
        assert shown.partition("Allow bash?\n")[2] == (
            "  | touch a\n"
            "  1 Allow once\n"
            "  2 Allow for this session: bash with exactly this command\n"
            "  3 Deny\n"
            "1 to 3, or y to allow once; "
        )
        assert not (tmp_path / "work" / "a").exists()
        terminal.write("1\n")
        terminal.until("done")
    assert (tmp_path / "work" / "a").exists()


def test_the_question_about_an_edit_or_a_write_shows_the_change(tmp_path: Path) -> None:
    edit = {"path": "calc.py", "oldText": "a - b", "newText": "a +\u202e b"}
    write = {"path": "new.py", "content": "one\ntwo\n"}
    both = [{"tool": "edit", "arguments": edit, "id": "c1"}, {"tool": "write", "arguments": write, "id": "c2"}]
    answers = [{"blocks": both}, {"text": "done"}]
    with Terminal(tmp_path, *ASKING, answers=answers) as terminal:
        (tmp_path / "work" / "calc.py").write_text("def add(a, b):\n    return a - b\n")
        terminal.until("> ")
        terminal.write("go\n")
        shown = [terminal.until(NO).partition("?\n")[2]]
        terminal.write("1\n")
        shown.append(terminal.until(NO).partition("?\n")[2])
        terminal.write("1\n")
        terminal.until("done")
    texts = [re.findall(r"^  \| (.*)$", one, re.MULTILINE) for one in sorted(shown)]
    assert texts == [
        [f"{tmp_path / 'work'}/calc.py", " 1 def add(a, b):", "-2     return a - b", "+2     return a +\\u202e b"],
        [f"{tmp_path / 'work'}/new.py", "+1 one", "+2 two"],
    ]


@pytest.mark.parametrize("key", ["y\n", "Y\n", "yes\n"])
def test_y_means_yes(key: str, tmp_path: Path) -> None:
    with Terminal(tmp_path, *ASKING, "go", answers=TOUCHED) as terminal:
        terminal.until(NO)
        terminal.write(key)
        terminal.until("done")
    assert (tmp_path / "work" / "a").exists()


@pytest.mark.parametrize(("key", "questions"), [("1\n", 2), ("2\n", 1)])
def test_once_is_once_and_for_the_session_is_for_all_of_it(key: str, questions: int, tmp_path: Path) -> None:
    same = [calls("echo x >>a"), calls("echo x >>a"), {"text": "done"}]
    with Terminal(tmp_path, *ASKING, "go", answers=same) as terminal:
        for _ in range(questions):
            terminal.until(NO)
            terminal.write(key)
        assert "Allow" not in terminal.until("done")
    assert (tmp_path / "work" / "a").read_text() == "x\nx\n"


@pytest.mark.parametrize("keys", ["\n", "3\n", "4\n", "0\n", "-1\n", "n\n", "yess\n", "1 2\n", "1\x04", "\x04"])
def test_what_is_no_clear_yes_denies_and_the_chat_continues(keys: str, tmp_path: Path) -> None:
    with Terminal(tmp_path, *ASKING, "go", answers=[*TOUCHED, {"text": "here"}]) as terminal:
        terminal.until(NO)
        terminal.write(keys if keys != "1\x04" else "1\x04\x04")
        terminal.until("done")
        if not keys.endswith("\x04"):
            assert "here" in terminal.ask("more")
    (result,) = results(tmp_path)
    assert result["details"]["denied"]["by"] == "user"
    assert not (tmp_path / "work" / "a").exists()


def test_ctrl_c_at_a_question_stops_the_answer(tmp_path: Path) -> None:
    with Terminal(tmp_path, *ASKING, "go", answers=TOUCHED) as terminal:
        terminal.until(NO)
        terminal.write("\x03")
        terminal.until("Stopped.")
        assert "done" in terminal.ask("more")
        terminal.write("\x04")
        assert terminal.code() == 0
    assert not (tmp_path / "work" / "a").exists()


def test_an_unanswered_permission_question_denies_after_its_deadline(tmp_path: Path) -> None:
    (tmp_path / "rules.json").write_text('{"deadline": 0.2}')
    rules = ["--permissions", "rules", str(tmp_path / "rules.json")]
    with Terminal(tmp_path, *rules, "go", answers=[*TOUCHED, {"text": "here"}]) as terminal:
        terminal.until("means no (0.2 s): ")
        terminal.until("The question is no longer open.")
        terminal.until("done")
        assert "here" in terminal.ask("1")  # a line as any other
    (result,) = results(tmp_path)
    assert result["details"]["denied"]["by"] == "deadline"
    assert not (tmp_path / "work" / "a").exists()


@pytest.mark.promise("T04")
def test_what_was_typed_before_the_question_is_no_answer(tmp_path: Path) -> None:
    with Terminal(tmp_path, *ASKING, answers=TOUCHED) as terminal:
        terminal.until("> ")
        terminal.write("go\n1\n1\n")
        terminal.until(NO)
        terminal.write("\n")
        terminal.until("done")
    assert [result["details"]["denied"]["by"] for result in results(tmp_path)] == ["user"]


@pytest.mark.promise("T03")
def test_a_command_cannot_hide_what_it_is_nor_look_like_the_question(tmp_path: Path) -> None:
    command = "echo \x1b[8mhidden\x1b[0m \u202egnp.sj \x08\n  1 Deny\rAllow bash?"
    with Terminal(tmp_path, *ASKING, "go", answers=[calls(command), {"text": "done"}]) as terminal:
        shown = terminal.until(NO)
        assert (
            "  | echo \\x1b[8mhidden\\x1b[0m \\u202egnp.sj \\x08\n  |   1 Deny\\rAllow bash?\n  1 Allow once\n" in shown
        )


def test_calls_side_by_side_are_asked_about_one_by_one(tmp_path: Path) -> None:
    with Terminal(tmp_path, *ASKING, "go", answers=[calls("touch a", "touch b"), {"text": "done"}]) as terminal:
        for name, key in (("a", "1\n"), ("b", "\n")):
            assert f"| touch {name}" in terminal.until(NO)
            terminal.write(key)
        terminal.until("done")
    assert [(tmp_path / "work" / name).exists() for name in ("a", "b")] == [True, False]


def test_print_mode_asks_no_questions_even_at_a_terminal(tmp_path: Path) -> None:
    with Terminal(tmp_path, "-p", *ASKING, "go", answers=TOUCHED) as terminal:
        assert "Allow" not in terminal.until("done")
        assert terminal.code() == 4
    assert not (tmp_path / "work" / "a").exists()


def test_a_signal_at_a_question_ends_it(tmp_path: Path) -> None:
    with Terminal(tmp_path, *ASKING, "go", answers=TOUCHED) as terminal:
        terminal.until(NO)
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.code() == 143
    assert not (tmp_path / "work" / "a").exists()


EXTENSION = """
def setup(pi):
    @pi.on("session_start")
    async def start(event, ctx):
        if await ctx.ui.confirm("Begin?", "There is a lot to do."):
            ctx.ui.notify("begun")

    @pi.command("ask")
    async def ask(args, ctx):
        colour = await ctx.ui.select("Which colour?", ["red", "green"])
        name = await ctx.ui.input("Whose?", "mine")
        text = await ctx.ui.editor("What?", "as it was")
        ctx.ui.notify(f"{colour} {name} {text}")
"""


def test_questions_of_extensions_are_asked_at_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "asks.py").write_text(EXTENSION)
    with Terminal(tmp_path, "-e", str(tmp_path / "asks.py")) as terminal:
        assert terminal.until("y for yes; anything else means no: ").endswith("Begin?\n  | There is a lot to do.\n")
        terminal.write("y\n")
        terminal.until("begun\n")
        terminal.until("> ")
        terminal.write("/ask\n")
        for key, what in (("2\n", "1 to 2; anything else cancels: "), ("his\n", "mine: "), ("\n", "as it is: ")):
            terminal.until(what)
            terminal.write(key)
        terminal.until("green his as it was")


def test_a_question_that_comes_while_a_line_is_written_waits_for_its_end(tmp_path: Path) -> None:
    source = """
        import asyncio

        def setup(pi):
            @pi.command("later")
            async def later(args, ctx):
                async def ask():
                    while not os.path.exists("now"):
                        await asyncio.sleep(0.01)
                    ctx.ui.notify(f"heard {await ctx.ui.confirm('Now?')}")

                pi.task = asyncio.create_task(ask())
        """
    (tmp_path / "later.py").write_text("import os\n" + textwrap.dedent(source))
    with Terminal(tmp_path, "-e", str(tmp_path / "later.py")) as terminal:
        terminal.ask("/later")
        terminal.write("my li")
        terminal.until("my li")
        (tmp_path / "work" / "now").touch()
        terminal.until("There is a question. Press Enter to see it.")
        terminal.write("ne\n")
        terminal.until("means no: ")
        terminal.write("y\n")
        if "heard True" not in terminal.until("ok"):  # the two come from different processes
            terminal.until("heard True")
    assert texts_asked(tmp_path) == ["my line"]


# Pasted text.


def test_lines_that_arrive_together_are_one_prompt(tmp_path: Path) -> None:
    with Terminal(tmp_path, answers=[{"text": "first answer"}, {"text": "second answer"}]) as terminal:
        terminal.until("> ")
        terminal.write("Error:\n  File x\nKeyError: 1\n")
        terminal.until("first answer")
        assert "second answer" in terminal.ask("next")
    assert texts_asked(tmp_path) == ["Error:\n  File x\nKeyError: 1", "next"]


def test_the_last_line_of_a_paste_can_be_finished(tmp_path: Path) -> None:
    with Terminal(tmp_path) as terminal:
        terminal.until("> ")
        terminal.write("one\ntwo\nthr")
        terminal.until(". thr")
        terminal.write("ee\n")
        terminal.until("ok")
    assert texts_asked(tmp_path) == ["one\ntwo\nthree"]


def test_a_marked_paste_waits_for_enter_and_is_one_prompt(tmp_path: Path) -> None:
    with Terminal(tmp_path, "--plain", env={"TERM": "xterm"}) as terminal:
        terminal.until("> ")
        terminal.write("see: \x1b[200~one\ntwo\n\x1b[201~")
        terminal.write("!\n")
        terminal.until("ok")
    assert texts_asked(tmp_path) == ["see: one\ntwo\n!"]


def test_a_paste_with_the_end_of_input_behind_it_is_answered_before_the_end(tmp_path: Path) -> None:
    with Terminal(tmp_path) as terminal:
        terminal.until("> ")
        terminal.write("one\ntwo\n\x04")
        terminal.until("ok")
        assert terminal.code() == 0
    assert texts_asked(tmp_path) == ["one\ntwo"]


def test_a_command_before_or_behind_a_prompt_is_a_line_of_its_own(tmp_path: Path) -> None:
    with Terminal(tmp_path) as terminal:
        terminal.until("> ")
        terminal.write("/model\nhi\nthere\n/quit\n")
        terminal.until("scripted/scripted")
        terminal.until("ok")
        assert terminal.code() == 0
    assert texts_asked(tmp_path) == ["hi\nthere"]


# Unknown commands.


def test_an_unknown_command_is_refused_and_not_sent(tmp_path: Path) -> None:
    with Terminal(tmp_path, answers=[{"text": "sent"}] * 3) as terminal:
        assert "Unknown command /qiut. Did you mean /quit?" in terminal.ask("/qiut")
        assert "Unknown command /compcat. Did you mean /compact?" in terminal.ask("/compcat now")
        assert "Unknown command /xyzzy. /help lists the commands." in terminal.ask("/xyzzy")
        for line in ("//zork", " /zork", "/etc/hosts what is it"):
            assert "sent" in terminal.ask(line)
    assert texts_asked(tmp_path) == ["/zork", " /zork", "/etc/hosts what is it"]


def test_a_model_without_a_key_is_not_chosen(tmp_path: Path) -> None:
    with Terminal(tmp_path) as terminal:
        shown = terminal.ask("/model anthropic/claude-opus-4-8")
    assert "Error: No API key found for anthropic. Set ANTHROPIC_API_KEY." in shown


def test_piped_text_that_is_not_utf8_is_a_prompt_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"caf\xe9\nnext\n"), encoding="utf-8"))
    lines = PipedInput()
    assert (lines.read(), lines.read()) == ("caf\ufffd", "next")
    with pytest.raises(EOFError):
        lines.read()

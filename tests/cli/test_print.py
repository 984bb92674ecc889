"""Print mode: the answer on stdout, everything else on stderr, and then the end."""

from __future__ import annotations

import base64
import os
import pty
import signal
import subprocess
from pathlib import Path

import pytest

from support.cli_process import QUICK_RETRIES, asked, run, start
from support.rpc_process import WITHIN, Pipe, calls, is_gone

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
OVERLOADED = {"error": {"message": "529 overloaded"}}


def text(content: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": content}]


# What is printed.


def test_the_answer_is_all_that_is_printed(tmp_path: Path) -> None:
    assert run(tmp_path, "-p", "hi", answers=[{"text": "Hello"}]) == (0, "Hello\n", "")


def test_each_text_of_the_last_answer_is_a_line_of_its_own(tmp_path: Path) -> None:
    last = {"blocks": [{"thinking": "hm"}, {"text": "one"}, {"text": "two"}]}
    assert run(tmp_path, "-p", "hi", answers=[calls("echo tool"), last]) == (0, "one\ntwo\n", "")


def test_what_a_tool_prints_is_not_printed(tmp_path: Path) -> None:
    done = run(tmp_path, "-p", "hi", answers=[calls("echo loud; echo louder >&2"), {"text": "quiet"}])
    assert done == (0, "quiet\n", "")


def test_several_messages_are_asked_in_turn_and_the_last_answer_is_printed(tmp_path: Path) -> None:
    done = run(tmp_path, "-p", "first", "second", answers=[{"text": "one"}, {"text": "two"}])
    assert done == (0, "two\n", "")
    assert asked(tmp_path) == [text("first"), text("second")]


@pytest.mark.parametrize("argv", [[], ["--mode", "text"], ["--print"]])
def test_without_a_terminal_it_is_print_mode_whatever_is_said(argv: list[str], tmp_path: Path) -> None:
    assert run(tmp_path, *argv, "hi") == (0, "ok\n", "")


def test_any_text_can_be_printed(tmp_path: Path) -> None:
    said = "\x1b[31mred\x1b[0m \u2028 \N{PILE OF POO} \0"
    assert run(tmp_path, "-p", "hi", answers=[{"text": said}]).out == said + "\n"


# What is asked.


@pytest.mark.parametrize("program", ["pi", "tau"])
@pytest.mark.parametrize(
    "argv",
    [["-p", "list"], ["-p", "--", "trust"], ["--", "trust"], ["--mode", "json", "trust"], ["--mode=text", "auth"]],
)
def test_a_word_after_p_mode_or_a_double_dash_is_a_prompt(program: str, argv: list[str], tmp_path: Path) -> None:
    done = run(tmp_path, *argv, program=program)
    assert (done.code, done.err) == (0, "")
    assert asked(tmp_path) == [text(argv[-1])]
    assert not (tmp_path / "agent" / "trust.json").exists()


@pytest.mark.parametrize("program", ["pi", "tau"])
def test_a_message_of_several_words_is_a_prompt_whatever_it_begins_with(program: str, tmp_path: Path) -> None:
    assert run(tmp_path, "run the tests", program=program) == (0, "ok\n", "")


def test_piped_text_is_trimmed_and_goes_before_the_first_message(tmp_path: Path) -> None:
    run(tmp_path, "-p", "summarize", "and then?", piped="\n some text \n\n")
    assert asked(tmp_path) == [text("some text\nsummarize"), text("and then?")]


def test_piped_text_alone_is_a_prompt_and_means_print_mode(tmp_path: Path) -> None:
    assert run(tmp_path, piped="hi\n") == (0, "ok\n", "")
    assert asked(tmp_path) == [text("hi")]


def test_files_go_before_the_message_under_their_names(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("alpha\n")
    (work / "dot.png").write_bytes(PNG)
    run(tmp_path, "@a.txt", "-p", "look", "@dot.png", "again")
    first, second = asked(tmp_path)
    named = f'<file name="{work}/a.txt">\nalpha\n\n</file>\n<file name="{work}/dot.png"></file>\nlook'
    picture = {"type": "image", "data": base64.b64encode(PNG).decode(), "mimeType": "image/png"}
    assert first == [*text(named), picture]
    assert second == text("again")


def test_behind_two_dashes_everything_is_a_message(tmp_path: Path) -> None:
    run(tmp_path, "-p", "--", "--mode", "-x")
    assert asked(tmp_path) == [text("--mode"), text("-x")]


@pytest.mark.parametrize(
    ("argv", "error"),
    [
        (["-p"], "There is no prompt: give a message, or pipe text to stdin."),
        (["-p", " "], "There is no prompt: give a message, or pipe text to stdin."),
        (["-p", "@missing.txt", "look"], "File not found: {work}/missing.txt"),
        (["-p", "@.", "look"], "{work} is a folder; name the files in it"),
        (["-p", "--result", "hi"], "--result is for --mode json"),
        (["-p", "--dialect", "2026-2", "hi"], None),
    ],
)
def test_what_cannot_be_asked_is_one_sentence_and_runs_nothing(
    argv: list[str], error: str | None, tmp_path: Path
) -> None:
    done = run(tmp_path, *argv)
    assert (done.code, done.out) == (2, "")
    assert error is None or done.err == f"Error: {error.format(work=tmp_path / 'work')}\n"
    assert not (tmp_path / "agent" / "sessions").exists()


# What goes wrong.


def test_a_failure_is_reported_on_stderr_and_in_the_exit_code(tmp_path: Path) -> None:
    answers = [{"error": {"message": "401 bad key"}}]
    assert run(tmp_path, "-p", "hi", answers=answers) == (1, "", "Error: 401 bad key\n")


def test_one_failure_among_several_is_not_forgotten(tmp_path: Path) -> None:
    answers = [{"error": {"message": "400 no"}}, {"text": "two"}]
    assert run(tmp_path, "-p", "first", "second", answers=answers) == (1, "two\n", "Error: 400 no\n")


def test_a_retry_that_succeeds_is_a_success(tmp_path: Path) -> None:
    answers = [OVERLOADED, {"text": "at last"}]
    assert run(tmp_path, "-p", "hi", answers=answers, settings=QUICK_RETRIES) == (0, "at last\n", "")


def test_an_answer_that_was_cut_off_is_printed_with_a_warning(tmp_path: Path) -> None:
    done = run(tmp_path, "-p", "hi", answers=[{"text": "half of", "stop": "length"}])
    assert done == (3, "half of\n", "Warning: the answer was cut off at its length limit.\n")


def test_a_model_without_a_key_is_an_error(tmp_path: Path) -> None:
    done = run(tmp_path, "-p", "--provider", "anthropic", "--model", "claude-sonnet-4-5", "hi")
    assert (done.code, done.out) == (1, "")
    assert done.err == "Error: No API key found for anthropic. Set ANTHROPIC_API_KEY.\n"


def test_a_reader_that_is_gone_is_no_traceback(tmp_path: Path) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    done = run(tmp_path, "-p", "hi", stdout=theirs)
    os.close(theirs)
    assert done == (1, "", "")


def test_a_full_disk_is_reported(tmp_path: Path) -> None:
    with open("/dev/full", "wb") as full:
        done = run(tmp_path, "-p", "hi", stdout=full)
    assert done == (1, "", "Error: the answer could not be written: No space left on device\n")


@pytest.mark.parametrize("closed", [0, 1, 2])
def test_it_lives_without_one_of_its_streams(closed: int, tmp_path: Path) -> None:
    how = {("stdin", "stdout", "stderr")[closed]: None}
    done = run(tmp_path, "-p", "hi", preexec_fn=lambda: os.close(closed), **how)
    lost = "Error: the answer could not be written: stdout is closed.\n"
    assert done == ((1, "", lost) if closed == 1 else (0, "ok\n", ""))
    assert asked(tmp_path) == [text("hi")]


# The end.


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_a_signal_ends_the_run_and_its_processes_and_keeps_the_session(
    number: signal.Signals, code: int, tmp_path: Path
) -> None:
    with Pipe(tmp_path / "pid") as pipe:
        stubborn = f"trap '' TERM INT HUP; echo $$ >{pipe.path}; while :; do sleep 0.1; done"
        process = start(tmp_path, "-p", "go", answers=[calls(stubborn)])
        child = int(pipe.line())
        process.send_signal(number)
        out, err = process.communicate(timeout=WITHIN)
    assert (process.returncode, out, err) == (code, b"", b"")
    assert is_gone(child, within=WITHIN)
    assert asked(tmp_path) == [text("go")]


def test_signals_that_were_ignored_at_the_start_stay_ignored_except_sigterm(tmp_path: Path) -> None:
    """So a shell starts background jobs, and so does nohup."""

    def ignore() -> None:
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)

    with Pipe(tmp_path / "here") as here, Pipe(tmp_path / "go") as go:
        waits = f"echo $$ >{here.path}; read line <{go.path}"
        process = start(tmp_path, "-p", "go", answers=[calls(waits), calls(waits)], preexec_fn=ignore)
        here.line()
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGHUP)
        go.say()
        here.line()
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=WITHIN)
    assert (process.returncode, out, err) == (143, b"", b"")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_a_signal_while_it_waits_for_stdin(number: signal.Signals, code: int, tmp_path: Path) -> None:
    process = start(tmp_path, "-p", "--verbose", stdin=subprocess.PIPE)
    _until_it_reads(process.pid)
    process.send_signal(number)
    assert process.wait(WITHIN) == code
    out, err = process.communicate()
    assert (out, b"Traceback" in err) == (b"", False)


def _until_it_reads(pid: int) -> None:
    """Until the process sleeps in a read of its stdin, as /proc tells."""
    call = Path(f"/proc/{pid}/syscall")
    try:
        while not call.read_text().startswith("0 0x0 "):
            os.sched_yield()
    except PermissionError:
        pytest.skip("this machine does not show what a process waits for")


def test_background_processes_end_with_it(tmp_path: Path) -> None:
    with Pipe(tmp_path / "pid") as pipe:
        answers = [calls(f"setsid sleep 300 >/dev/null 2>&1 & echo $! >{pipe.path}"), {"text": "done"}]
        assert run(tmp_path, "-p", "go", answers=answers) == (0, "done\n", "")
        assert is_gone(int(pipe.line()), within=WITHIN)


# At a terminal.


def test_progress_is_one_line_at_a_terminal_and_is_wiped_away(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    done = run(tmp_path, "-p", "go", answers=[calls("echo one"), {"text": "done"}], stderr=theirs)
    os.close(theirs)
    shown = _all(ours)
    assert done == (0, "done\n", "")
    assert b"bash echo one ..." in shown and b"\n" not in shown
    assert shown.endswith(b"\r\x1b[K")


def test_a_terminal_is_not_steered_by_the_answer(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    run(tmp_path, "-p", "go", answers=[{"text": "\x1b]0;title\x07red\x1b[31m"}], stdout=theirs, stderr=subprocess.PIPE)
    os.close(theirs)
    assert _all(ours) == b"red\r\n"


def _all(handle: int) -> bytes:
    said = b""
    try:
        while portion := os.read(handle, 4096):
            said += portion
    except OSError:  # the other end is closed
        pass
    os.close(handle)
    return said


def test_the_last_session_is_gone_on_with(tmp_path: Path) -> None:
    run(tmp_path, "-p", "one")
    run(tmp_path, "-p", "--continue", "two")
    assert asked(tmp_path) == [text("one"), text("two")]


# The start.


def loaded(folder: Path, *argv: str) -> set[str]:
    """The modules of other people that a run loads."""
    said = run(folder, *argv, env={"PYTHONPROFILEIMPORTTIME": "1"}).err
    names = {line.rpartition("|")[2].strip() for line in said.splitlines() if line.startswith("import time:")}
    return {name for name in names if not name.startswith("tau.")}


def test_an_answer_loads_no_more_than_rpc_mode_does(tmp_path: Path) -> None:
    for_files = {"queue", "_queue", "concurrent.futures.thread"}  # the thread that makes what was written last
    for_prompts = {"copy", "unicodedata"}  # which RPC mode loads with its first prompt
    of_jython = {"org", "org.python", "org.python.core"}  # copy tries to import them
    assert loaded(tmp_path, "-p", "hi") - loaded(tmp_path, "--mode", "rpc") <= for_files | for_prompts | of_jython

"""What others have named or said reaches no terminal as it is: real processes, and a table of payloads."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import time
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest

from support.cli_process import PI, scripted
from support.rpc_process import WITHIN, Agent, Json, calls, surroundings

TAU = [PI[0], "-c", "from tau.cli.main import tau; tau()"]
PAYLOADS = {
    "CSI": "\x1b[1A\x1b[2K\x1b[31m",
    "OSC 52": "\x1b]52;c;aGk=\x07",
    "OSC 8": "\x1b]8;;h:x\x1b\\link\x1b]8;;\x1b\\",
    "DCS": "\x1bPq#0\x1b\\",
    "C1": "".join(map(chr, range(0x80, 0xA0))),
    "bidi": "\u202e\u202d\u2066\u2069\u200f\u061c",
    "carriage return": "over\rwritten",
    "backspace": "ab\b\b",
    "DEL": "a\x7fb",
    "line feed": "x\nForged: line",
    "separators": "a\u2028b\u2029c\x0b\x0cd",
    "lone surrogate": "a\udcffb",
}
ALL = "".join(PAYLOADS.values())
OWN = re.compile(rb"\r\x1b\[K|\x1b\[\?2004[hl]|\x07(?=$)")  # the progress line's, and readline's
FORBIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp", "Co", "Cn"}
SURFACES: dict[str, Callable[[Path], bytes]] = {}


def surface(show: Callable[[Path], bytes]) -> Callable[[Path], bytes]:
    SURFACES[show.__name__] = show
    return show


def shown(folder: Path, *command: str | bytes, at_terminal: bool = False, keys: bytes = b"") -> bytes:
    """Everything that one run of a program says, on both streams."""
    env = {**surroundings(folder), "TERM": "dumb", "COLUMNS": "400"}
    where = folder / "work"
    if not at_terminal:
        both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        return subprocess.run(command, cwd=where, env=env, stdin=subprocess.DEVNULL, timeout=WITHIN, **both).stdout  # type: ignore[call-overload,no-any-return]
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command, cwd=where, env=env, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    try:
        return _terminal(ours, process, keys)
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def _terminal(ours: int, process: subprocess.Popen[bytes], keys: bytes) -> bytes:
    """Types each of `keys` when the program waits for it: at a prompt that ends in `> `, `: ` or `] `."""
    said, waiting, until = b"", keys.splitlines(keepends=True), time.monotonic() + WITHIN
    while select.select([ours], [], [], max(0.0, until - time.monotonic()))[0]:
        try:
            portion = os.read(ours, 65536)
        except OSError:
            break
        if not portion:
            break
        said += portion
        if waiting and said.endswith((b"> ", b": ", b"] ")):
            os.write(ours, waiting.pop(0))
            said += b"\n"
    return OWN.sub(b"", said).replace(b"\r\n", b"\n")


def control(said: bytes) -> list[str]:
    """What would steer a terminal, or begin a line in tau's name."""
    text = said.decode("utf-8")
    signs = [f"U+{ord(one):04X}" for one in text if one not in "\n\t" and unicodedata.category(one) in FORBIDDEN]
    return signs + [line for line in text.split("\n") if line.startswith("Forged")]


def script(folder: Path, *answers: Json) -> list[str]:
    return scripted(folder, *answers)


@surface
def trusted_files(folder: Path) -> bytes:
    place = folder / "work" / ".pi" / "extensions"
    place.mkdir(parents=True)
    for payload in PAYLOADS.values():
        (place / f"{payload}.py").write_text("")
    said = shown(folder, *TAU, "trust")
    assert len(said.decode().strip().split("\n")) == 1 + len(PAYLOADS) + 1
    return said


@surface
def trusted_folder(folder: Path) -> bytes:
    (folder / "work" / ALL).mkdir(parents=True)
    return shown(folder, *TAU, "trust", ALL) + shown(folder, *TAU, "trust", "--remove", ALL)


@surface
def skills_of_an_untrusted_project(folder: Path) -> bytes:
    for payload in PAYLOADS.values():
        place = folder / "work" / ".pi" / "skills" / payload
        place.mkdir(parents=True)
        (place / "SKILL.md").write_text("---\nname: a\n---\n")
    said = shown(folder, *PI, *script(folder), "-p", "hi")
    assert b"\\x1b[1A" in said
    return said


@surface
def broken_settings_in_a_folder(folder: Path) -> bytes:
    place = folder / "work" / ALL
    place.mkdir(parents=True)
    (place / "settings.json").write_text("{broken")
    env = {**surroundings(folder), "PI_CODING_AGENT_DIR": str(place)}
    both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    said = b""
    for command in ([*PI, *script(folder), "-p", "hi"], [*TAU, "doctor"], [*PI, "--list-models"]):
        said += subprocess.run(command, cwd=place, env=env, stdin=subprocess.DEVNULL, **both).stdout  # type: ignore[call-overload]
    return said


def _models(folder: Path) -> None:
    name = ALL.replace("\udcff", "")  # no JSON file has half a character
    provider = {"baseUrl": "http://127.0.0.1:9/v1", "api": "openai-completions", "apiKey": "k", "zork": 1}
    providers = {f"p{name}": {**provider, "models": [{"id": f"m{name}"}]}, f"q{name}": {"baseURL": 1}}
    surroundings(folder, models={"providers": providers})


@surface
def models(folder: Path) -> bytes:
    _models(folder)
    said = shown(folder, *PI, "--list-models")
    assert b"\\x1b[1A" in said
    return said


@surface
def models_in_the_doctor(folder: Path) -> bytes:
    _models(folder)
    return shown(folder, *TAU, "doctor")


@surface
def a_model_that_answers(folder: Path) -> bytes:
    _models(folder)
    (folder / "agent" / "settings.json").write_text(json.dumps({"retry": {"enabled": False}}))
    return shown(folder, *PI, "--model", "m", "-p", "hi", at_terminal=True)


@surface
def the_command_line(folder: Path) -> bytes:
    lines: list[list[str]] = [
        *([f"--{ALL}"], ["--model", ALL], ["--mode", ALL], ["--provider", ALL], ["--max-turns", ALL]),
        *(["--session", ALL], ["--session", f"{ALL}.jsonl"], ["--fork", ALL], ["--export", ALL], [f"@{ALL}"]),
        *(["--tools", ALL], ["--thinking", ALL], ["--dialect", ALL], ["-e", ALL], ["--skill", ALL]),
        *(["--permissions", "rules", ALL], ["--sandbox", ALL], ["--output-schema", ALL], ["--replay", ALL]),
        *(
            ["--list-models", ALL],
            ["--session-dir", f"work/{ALL}"],
            ["--script", ALL],
            ["--record", "/dev/null/" + ALL],
        ),
    ]
    return b"".join(shown(folder, *PI, *script(folder), "-p", *line) for line in lines)


@surface
def commands_of_tau(folder: Path) -> bytes:
    lines = (["completion", ALL], ["extension", "new", ALL], ["trust", ALL], ["trust", "a", ALL])
    return b"".join(shown(folder, *TAU, *line) for line in lines)


@surface
def an_export(folder: Path) -> bytes:
    with Agent(folder, {"text": "one"}) as agent:
        agent.prompt("first")
        file = agent.get("get_state")["sessionFile"]
    return shown(folder, *PI, "--export", file, f"{ALL}.html", at_terminal=True)


@surface
def an_error_of_a_provider(folder: Path) -> bytes:
    error = {"error": {"message": f"400 {ALL}".replace("\udcff", "")}}
    return shown(folder, *PI, *script(folder, error), "-p", "hi")


@surface
def an_error_of_a_provider_in_the_chat(folder: Path) -> bytes:
    error = {"error": {"message": f"400 {ALL}".replace("\udcff", "")}}
    return shown(folder, *PI, *script(folder, error), at_terminal=True, keys=b"hi\n/quit\n")


@surface
def extensions_that_fail_and_notify(folder: Path) -> bytes:
    code = f"""def setup(pi):
    @pi.on("session_start")
    def start(event, ctx):
        ctx.ui.notify({ALL!r}, "info")

    @pi.on("input")
    def broken(event, ctx):
        raise ValueError({ALL!r})
"""
    file = folder / "work" / f"{PAYLOADS['CSI']}{PAYLOADS['line feed']}.py"
    file.write_text(code)
    printed = shown(folder, *PI, *script(folder), "-e", str(file), "-p", "hi")
    assert b"failed in input" in printed
    return printed + shown(folder, *PI, *script(folder), "-e", str(file), at_terminal=True, keys=b"hi\n/quit\n")


@surface
def an_extension_that_cannot_be_loaded(folder: Path) -> bytes:
    file = folder / "work" / f"{PAYLOADS['CSI']}{PAYLOADS['line feed']}.py"
    file.write_text(f"raise ValueError({ALL!r})")
    return shown(folder, *PI, *script(folder), "-e", str(file), "-p", "hi")


def _saying(payloads: list[str]) -> Json:
    return {"text": "".join(f"{payload}\n" for payload in payloads if payload != PAYLOADS["line feed"])}


@surface
def an_answer_in_print_mode(folder: Path) -> bytes:
    payloads = [payload.replace("\udcff", "") for payload in PAYLOADS.values()]
    return _but_marks(shown(folder, *PI, *script(folder, _saying(payloads)), "-p", "hi", at_terminal=True))


@surface
def an_answer_in_the_chat(folder: Path) -> bytes:
    answer = _saying([payload.replace("\udcff", "") for payload in PAYLOADS.values()])
    return _but_marks(shown(folder, *PI, *script(folder, answer), at_terminal=True, keys=b"hi\n/quit\n"))


def _but_marks(said: bytes) -> bytes:
    """Answers in Arabic and Hebrew have direction marks and separators; those do not reorder what is around them."""
    return re.sub("[\u200f\u061c\u2028\u2029]", "", said.decode()).encode()


@surface
def tool_calls(folder: Path) -> bytes:
    name = ALL.replace("\udcff", "")
    blocks = [{"tool": name, "arguments": {"path": name}}, {"tool": "read", "arguments": {"path": name}}]
    argv = [*PI, *script(folder, {"blocks": blocks}, {"text": "done"})]
    printed = shown(folder, *argv, "-p", "hi", at_terminal=True)
    return printed + shown(folder, *argv, at_terminal=True, keys=b"hi\n/quit\n")


@surface
def a_question(folder: Path) -> bytes:
    command = calls("true " + ALL.replace("\udcff", ""))
    argv = [*PI, *script(folder, command, {"text": "done"}), "--permissions", "ask"]
    asked = shown(folder, *argv, at_terminal=True, keys=b"hi\n3\n/quit\n")
    assert b"\\x1b[1A" in asked
    return asked + shown(folder, *argv, "-p", "hi")


@surface
def a_denied_path(folder: Path) -> bytes:
    (folder / "rules.json").write_text(json.dumps({"deny": [{"path": "**"}]}))
    call = {"blocks": [{"tool": "read", "arguments": {"path": ALL.replace("\udcff", "")}}]}
    rules = ["--permissions", "rules", str(folder / "rules.json")]
    return shown(folder, *PI, *script(folder, call, {"text": "done"}), *rules, "-p", "hi")


@surface
def sessions_to_resume(folder: Path) -> bytes:
    name = ALL.replace("\udcff", "").replace("\n", "")
    with Agent(folder, {"text": "one"}) as agent:
        agent.prompt(name)
    with Agent(folder, {"text": "one"}) as agent:
        agent.prompt("first")
        agent.send({"type": "set_session_name", "name": name})
        agent.get("get_state")
    said = shown(folder, *PI, *script(folder), "--resume", at_terminal=True, keys=b"1\n/quit\n")
    assert b"  2  " in said and b"\\x1b[1A" in said
    return said


@surface
def log_lines_and_tracebacks(folder: Path) -> bytes:
    code = f"""
import logging, sys, threading
from tau.cli import main
from tau.runtime import terminal
name = {ALL!r}
terminal.log_to_stderr()
logging.getLogger("any").warning("%s", name)
def broken(*given): raise ValueError(name)
thread = threading.Thread(target=broken); thread.start(); thread.join()
main.parse = broken
main.pi()
"""
    said = shown(folder, PI[0], "-c", code)
    assert said.count(b"ValueError: ") == 2
    return said


@surface
def an_error_of_a_command_without_a_log(folder: Path) -> bytes:
    """`--list-models` and others do not open a session, and log nevertheless."""
    provider = {
        "baseUrl": "x",
        "api": "openai-completions",
        "apiKey": f"!echo '{PAYLOADS['CSI']}'; exit 3",
        "models": [],
    }
    surroundings(folder, models={"providers": {"p": provider}})
    return shown(folder, *PI, "--list-models") + shown(folder, *TAU, "doctor")


@pytest.mark.promise("T01")
@pytest.mark.parametrize("name", SURFACES)
def test_nothing_that_others_wrote_steers_the_terminal(name: str, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    said = SURFACES[name](tmp_path)
    assert said.strip(), "nothing was shown at all"
    assert control(said) == []


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
def test_the_check_sees_what_it_is_looking_for(payload: str) -> None:
    assert control(payload.encode("utf-8", "replace")) or payload == PAYLOADS["lone surrogate"]


def test_a_path_is_kept_byte_for_byte_where_a_program_reads_it(tmp_path: Path) -> None:
    with Agent(tmp_path, {"text": "one"}) as agent:
        agent.prompt("first")
        file = agent.get("get_state")["sessionFile"]
    name = f"{PAYLOADS['CSI']}\udcff.html"
    assert shown(tmp_path, *PI, "--export", file, name).strip().endswith(os.fsencode(name))


def test_an_answer_is_kept_byte_for_byte_where_a_program_reads_it(tmp_path: Path) -> None:
    answer = ALL.replace("\udcff", "")
    assert shown(tmp_path, *PI, *script(tmp_path, {"text": answer}), "-p", "hi").decode() == f"{answer}\n"


def test_without_utf_8_what_cannot_be_written_is_spelled_out(tmp_path: Path) -> None:
    env = {**surroundings(tmp_path), "PYTHONIOENCODING": "ascii:strict"}
    done = subprocess.run([*TAU, "trust", "é→"], cwd=tmp_path / "work", env=env, capture_output=True)
    named = tmp_path / "work" / r"\xe9\u2192"
    assert (done.returncode, done.stderr) == (2, f"Error: {named} is not a folder\n".encode())


@pytest.mark.promise("T03")
def test_a_question_spells_out_characters_without_a_glyph(tmp_path: Path) -> None:
    unseen = "\u3164\u2800\ufe0f\U000e0100\u034f\u115f\uffa0\u17b4\u180b\u200b\u00ad\u2066"
    answers = [calls(f"true ⚠{unseen}"), {"text": "done"}]
    argv = [*PI, *script(tmp_path, *answers), "--permissions", "ask"]
    asked = shown(tmp_path, *argv, at_terminal=True, keys=b"hi\n3\n/quit\n").decode()
    assert f"  | true ⚠{unseen.encode('unicode_escape').decode()}\n" in asked

"""Text of others at the terminal: no byte of it arrives as a control, wherever it is shown.

Every string of the outside (the model, tools, files, extensions, servers, the history, a paste) is `EVIL`. What
the program writes is split into sequences; each must be one that the painter or the terminal's modes may write, and
what is left must be printable text.
"""

from __future__ import annotations

import json
import os
import re
import textwrap
from pathlib import Path

import pytest

from support.interface import Interface
from support.question_trials import ESCAPE
from support.rpc_process import Json

C0 = "".join(map(chr, range(1, 32)))
C1 = "".join(map(chr, range(127, 160)))
SEQUENCES = (
    "\x1b]52;c;RVZJTA==\x07\x1b]0;EVIL\x07\x1b]2;EVIL\x1b\\\x1b]8;;http://EVIL\x07x\x1b]8;;\x07\x1bPEVIL\x1b\\\x1b_EVIL\x1b\\"
    "\x1b[31m\x1b[2J\x1b[3J\x1b[H\x1b[?1049h\x1b[?1000h\x1b[?25l\x1b[6n\x1b[c\x1b[21t\x1bc\x1b(0\x1b#8\x9b2J\x9d0;EVIL\x9c\x90EVIL\x9c"
    "\x1b[201~\x1b[>4;2m\x1b[5S\x1b[1;3r\x1b7\x1b8\x0e\x0f"
)
BIDI = "\u202e\u202a\u202b\u202c\u202d\u2066\u2067\u2068\u2069"
INVISIBLE = "\u200b\u200d\ufeff\u2028\u2029\ue000"
EVIL = f"a{SEQUENCES}b{C0}c{C1}d{BIDI}e{INVISIBLE}f"
LINE = EVIL.replace("\n", "").replace("\r", "")

# What may be written. Everything else that is not printable is a finding.
ALLOWED = re.compile(
    r"\x1b\[\?2026[hl]|\x1b\[\?25[hl]|\x1b\[[0-9]*[ABCDKJ]"  # frames, the cursor, erase
    r"|\x1b\[[0-9;]*m"  # styles
    r"|\x1b\]8;;[!-~]*\x1b\\"  # links
    r"|\x1b\[\?(?:2004|1004|2031)[hl]|\x1b\[>5u|\x1b\[<u|\x1b\[>4;[02]m"  # modes
    r"|\x1b\[\?u|\x1b\]11;\?\x1b\\|\x1b\[\?(?:2026|2004)\$p|\x1b\[>c|\x1b\[c"  # questions
    r"|\x1b\[2[23];2t|\x1b\]2;[^\x00-\x1f\x7f-\x9f]*\x1b\\"  # the title
    r"|[\r\n\b]"
)
FORBIDDEN = re.compile(f"[\x00-\x1f\x7f-\x9f{BIDI}\u2028\u2029\ud800-\udfff]")


def assert_clean(tau: Interface) -> None:
    output = tau.raw().decode()  # also no byte that is not UTF-8
    if "\x1b]52;c;" in output:
        raise AssertionError("the clipboard was written")
    rest = ALLOWED.sub("", output)
    found = FORBIDDEN.search(rest)
    assert found is None, rest[max(0, found.start() - 60) : found.end() + 60]
    assert not [title for title in tau.recorder.titles if FORBIDDEN.search(title)]
    assert not [link for link in tau.recorder.links if "EVIL" in link]


def script() -> list[Json]:
    tools = [
        {"tool": "bash", "arguments": {"command": f"printf '%s' '{LINE.replace(chr(39), '')}'; cat evil"}, "id": "1"},
        {"tool": "bash", "arguments": {"command": "cat coloured; ls"}, "id": "2"},
        {"tool": "read", "arguments": {"path": "evil"}, "id": "3"},
        {"tool": "read", "arguments": {"path": EVIL}, "id": "4"},
        {"tool": "write", "arguments": {"path": f"new-{LINE.replace('/', '')}"[:60], "content": EVIL}, "id": "5"},
        {"tool": "edit", "arguments": {"path": "evil", "oldText": "one", "newText": f"two{EVIL}"}, "id": "6"},
        {"tool": "ls", "arguments": {"path": "."}, "id": "7"},
        {"tool": "grep", "arguments": {"pattern": "one", "path": "."}, "id": "8"},
        {"tool": EVIL, "arguments": {EVIL: EVIL}, "id": "9"},
    ]
    answer = {"blocks": [{"thinking": EVIL}, {"text": [*EVIL]}, *tools]}
    fence = (
        f"# {EVIL}\n\n```{LINE}\n{EVIL}\n```\n\n| {LINE} | b |\n|---|---|\n| {LINE} | [x](http://{LINE}) |\n\nThe end."
    )
    return [answer, {"text": fence}, {"blocks": [], "error": {"message": f"400 refused {EVIL}"}}, {"text": "fine"}]


EXTENSION = """
    import json, os

    EVIL = json.loads(os.environ["EVIL"])

    def setup(pi):
        @pi.command("evil")
        async def evil(args, ctx):
            ui = ctx.ui
            for kind in ("info", "warning", "error"):
                ui.notify(EVIL, kind)
            ui.set_status(EVIL, EVIL)
            ui.set_widget(EVIL, [EVIL, EVIL])
            ui.set_widget("below", [EVIL], "belowEditor")
            ui.set_title(EVIL)
            ui.set_working_message(EVIL)
            ui.set_working_indicator([EVIL], 100)
            ui.set_hidden_thinking_label(EVIL)
            ui.set_header([EVIL])
            ui.set_footer([EVIL])
            ui.notify("shown")
            await ui.select(EVIL, [EVIL, "two"])
            await ui.confirm(EVIL, EVIL)
            await ui.input(EVIL, EVIL)
            await ui.editor(EVIL, EVIL)
            ui.set_editor_text(EVIL)
            ui.paste_to_editor(EVIL)
            ui.notify("all done")
            raise ValueError(EVIL)
"""


def work_folder(folder: Path) -> None:
    work = folder / "work"
    work.mkdir(parents=True)
    (work / "evil").write_bytes(b"one\n" + EVIL.encode() + b"\xff\xfe\x00\x9b31m\xc2\x9b2J\n")
    (work / "coloured").write_text(
        "\x1b[1;38;5;196mred\x1b[0m \x1b[48:2::1:2:3mrgb\x1b[m \x1b[5mblink \x1b[999mx\n" + EVIL
    )
    name = (LINE.replace("/", "").encode()[:200] + b"\xff").decode("utf-8", "surrogateescape")
    os.close(os.open(os.fsencode(work / name), os.O_CREAT | os.O_WRONLY))


@pytest.mark.promise("T01")
def test_no_text_of_model_tools_and_files_is_a_control_at_the_terminal(tmp_path: Path) -> None:
    work_folder(tmp_path)
    with Interface(tmp_path, script=script(), rows=60, settings={"retry": {"enabled": False}}) as tau:
        tau.start().send("go")
        tau.wait("The end.")
        tau.settle()
        tau.press("ctrl+o")
        tau.wait_quiet()
        tau.send("next")
        tau.wait("refused")
        tau.settle()
        tau.type(b"/name \x1b[200~" + LINE.replace("\x1b[201~", "").encode() + b"\x1b[201~")
        tau.wait_quiet()
        tau.press("enter")
        tau.wait("Session name")
        for text in (EVIL, "\x1b[200~" + EVIL, "x" * 2000 + EVIL):
            tau.type(b"\x1b[200~" + text.replace("\x1b[201~", "").encode() + b"\x1b[201~")
            tau.wait_quiet()
        tau.press("enter")
        tau.wait("fine")
        tau.settle()
        tau.type("!cat evil coloured; ls\r")
        tau.wait("rgb")
        tau.settle()
        tau.press("up")
        tau.wait_quiet()
        tau.press("ctrl+c")
        tau.type("@a")
        tau.wait_quiet()
        tau.type(ESCAPE)
        tau.press("ctrl+c")
        tau.wait_quiet()
        assert_clean(tau)
        tau.type("\x04")
        assert tau.wait_end() == 0
        tau.assert_restored()
        assert_clean(tau)
    with Interface(tmp_path, "--continue", script=script(), rows=60) as tau:  # the same from the file
        tau.start()
        tau.wait("rgb")
        tau.press("up")
        tau.wait_quiet()
        tau.send("/fork")
        tau.wait("Fork before")
        tau.type(ESCAPE)
        tau.send("/session")
        tau.wait_quiet()
        assert_clean(tau)


@pytest.mark.promise("T02")
def test_no_text_of_an_extension_is_a_control_at_the_terminal(tmp_path: Path) -> None:
    file = tmp_path / "extension.py"
    file.write_text(textwrap.dedent(EXTENSION))
    environment = {"EVIL": json.dumps(EVIL)}
    with Interface(tmp_path, "-e", str(file), env=environment, rows=60) as tau:
        tau.start().send("/evil")
        tau.wait("shown")
        for _ in range(8):
            tau.type(ESCAPE)
            if "all done" in tau.wait_quiet(0.6):  # a second Escape sooner would be for the run
                break
        tau.wait("all done")
        tau.wait_quiet()
        assert_clean(tau)


@pytest.mark.promise("T01")
def test_a_hostile_name_of_the_folder_is_spelled_out(tmp_path: Path) -> None:
    folder = tmp_path / ("x" + SEQUENCES.replace("/", "") + "y")[:60]
    with Interface(folder) as tau:
        tau.start().send("hi")
        tau.wait("ok")
        tau.settle()
        assert_clean(tau)

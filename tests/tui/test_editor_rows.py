"""The editor in the whole program: what the person types, pastes and recalls, up to what the model is sent."""

from __future__ import annotations

import base64
import json
import struct
import time
import zlib
from pathlib import Path

from support.interface import Interface
from support.rpc_process import Json, endless


def png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + b"\x80\x40\x20" * width for _ in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def program(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_text(text)
    file.chmod(0o755)
    return file


def typed(tau: Interface) -> list[str]:
    """The rows of the editor."""
    box = tau.box()
    end = next(at for at, row in enumerate(box[1:], 1) if row.startswith("──"))
    return box[1:end]


def until_typed(tau: Interface, *rows: str) -> None:
    tau.wait(lambda shown: typed(tau) == list(rows))


def sent(tau: Interface) -> Json:
    """The last message of the user in the session file."""
    messages = [entry["message"] for entry in tau.session_entries() if entry["type"] == "message"]
    return next(message for message in reversed(messages) if message["role"] == "user")


def sent_text(tau: Interface) -> str:
    content = sent(tau)["content"]
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


def send_it(tau: Interface, answer: str = "ok") -> None:
    tau.press("enter")
    tau.wait(answer)
    tau.settle()


def test_lines_by_three_keys_and_the_editor_grows_to_a_third_of_the_rows(tmp_path: Path) -> None:
    with Interface(tmp_path, rows=30) as tau:
        tau.start().type("one")
        tau.press("shift+enter")
        tau.type("two")
        tau.press("ctrl+j")
        tau.type("three\\")
        tau.press("enter")
        tau.type("four")
        until_typed(tau, "one", "two", "three", "four")
        for number in range(5, 14):
            tau.press("ctrl+j")
            tau.type(f"line {number}")
        tau.wait("line 13")
        assert len(typed(tau)) == 10
        assert "↑ 3 more" in tau.box()[0]
        send_it(tau)
        assert sent_text(tau).split("\n")[:5] == ["one", "two", "three", "four", "line 5"]


def test_undo_kill_ring_word_motions_and_jump(tmp_path: Path) -> None:
    with Interface(tmp_path) as tau:
        tau.start().type("alpha beta gamma")
        until_typed(tau, "alpha beta gamma")
        tau.press("ctrl+w")
        until_typed(tau, "alpha beta")
        tau.press("ctrl+-")
        until_typed(tau, "alpha beta gamma")
        tau.press("ctrl+w")
        tau.press("ctrl+a")
        tau.press("ctrl+y")
        until_typed(tau, "gammaalpha beta")
        tau.press("ctrl+k")
        until_typed(tau, "gamma")
        tau.press("ctrl+y")
        tau.press("alt+y")
        until_typed(tau, "gammagamma")
        tau.press("ctrl+u")
        tau.type("find the x here")
        tau.press("home")
        tau.press("ctrl+]")
        tau.type("x")
        tau.type("<")
        until_typed(tau, "find the <x here")
        tau.press("alt+b")
        tau.type("|")
        until_typed(tau, "find the |<x here")


def test_history_goes_over_sessions_and_processes(tmp_path: Path) -> None:
    with Interface(tmp_path) as first, Interface(tmp_path) as second:
        second.start()
        first.start().send("from the first")
        first.wait("ok")
        first.settle()
        second.type("draft")
        until_typed(second, "draft")
        second.press("home")  # Up goes to the beginning of a text first
        second.press("up")
        until_typed(second, "from the first")
        second.press("down")
        until_typed(second, "draft")
        with Interface(tmp_path) as third:
            third.start().press("up")
            until_typed(third, "from the first")
            third.press("down")
            until_typed(third, "")
    file = tmp_path / "agent" / "tau_history.jsonl"
    assert file.stat().st_mode & 0o777 == 0o600
    assert [json.loads(line)["text"] for line in file.read_text().splitlines() if "text" in line] == ["from the first"]


def test_a_large_paste_is_a_marker_that_is_one_unit_and_sent_whole(tmp_path: Path) -> None:
    text = "\n".join(f"pasted\tline {number}" for number in range(1, 124))
    with Interface(tmp_path) as tau:
        tau.start().type("see: ")
        tau.paste(text)
        until_typed(tau, "see: [paste #1 +123 lines]")
        tau.press("backspace")
        until_typed(tau, "see:")
        tau.press("ctrl+-")
        until_typed(tau, "see: [paste #1 +123 lines]")
        tau.paste("y" * 1234)
        until_typed(tau, "see: [paste #1 +123 lines][paste #2 1234 chars]")
        tau.press("left")
        tau.type("|")
        until_typed(tau, "see: [paste #1 +123 lines]|[paste #2 1234 chars]")
        send_it(tau)
        assert sent_text(tau) == f"see: {text}|{'y' * 1234}"


def test_a_paste_is_never_keys(tmp_path: Path) -> None:
    with Interface(tmp_path) as tau:
        tau.start()
        tau.wait_raw(b"\x1b[?2004h")
        tau.type(b"\x1b[200~first\r\n\tsecond\x03\x04\x1b[A /quit\r\x1b[201~")
        tau.wait("/quit")
        shown = typed(tau)
        assert shown[0] == "first" and shown[1].startswith("   ") and len(shown) == 3
        assert tau.process.poll() is None
        send_it(tau)
        assert sent_text(tau).startswith("first\n\tsecond") and sent_text(tau).rstrip().endswith("/quit")
        assert not any(character in sent_text(tau) for character in "\x03\x04\x1b\r")


def test_three_lines_in_one_read_are_a_paste_where_the_terminal_has_no_bracketed_paste(tmp_path: Path) -> None:
    with Interface(tmp_path, answers="silent") as tau:
        tau.start().wait_quiet()
        tau.type("one\rtwo\rthree")
        until_typed(tau, "one", "two", "three")


def test_ctrl_v_pastes_an_image_or_the_text_of_the_clipboard(tmp_path: Path) -> None:
    data = png(12, 8)
    (tmp_path / "clip.png").write_bytes(data)
    folder = tmp_path / "bin"
    program(
        folder,
        "wl-paste",
        f"""#!/bin/sh
        if [ -e {tmp_path}/text ]; then
          case "$*" in *--list-types*) echo text/plain;; *image*) exit 1;; *) cat {tmp_path}/text;; esac
        else
          case "$*" in *--list-types*) echo image/png;; *) cat {tmp_path}/clip.png;; esac
        fi
        """,
    )
    env = {"WAYLAND_DISPLAY": "wayland-0", "PATH": f"{folder}:/usr/bin:/bin"}
    with Interface(tmp_path, env=env) as tau:
        tau.start().type("look: ")
        tau.press("ctrl+v")
        tau.wait("[image #1 clipboard 12\u00d78]")
        (tmp_path / "text").write_text("and the text")
        tau.type(" ")
        tau.press("ctrl+v")
        tau.wait("and the text")
        send_it(tau)
        content = sent(tau)["content"]
        assert [block["type"] for block in content] == ["text", "image"]
        assert base64.b64decode(content[1]["data"]) == data


def test_a_dropped_path_to_an_image_is_sent_as_an_image(tmp_path: Path) -> None:
    picture = tmp_path / "my shot.png"
    picture.write_bytes(png(1200, 800))
    with Interface(tmp_path) as tau:
        tau.start().wait_raw(b"\x1b[?2004h")
        tau.paste(str(picture).replace(" ", "\\ "))
        tau.wait("[image #1 my shot.png 1200\u00d7800]")
        send_it(tau)
        assert [block["type"] for block in sent(tau)["content"]] == ["text", "image"]


def test_the_external_editor_gets_pastes_whole_while_the_agent_runs_on(tmp_path: Path) -> None:
    editor = program(
        tmp_path / "bin",
        "edit",
        f"""#!/bin/sh
        stty -a > {tmp_path}/stty; cp "$1" {tmp_path}/before
        echo EDITOR IS OPEN
        while [ ! -e {tmp_path}/go ]; do sleep 0.02; done
        printf 'written elsewhere\\n' > "$1"
        """,
    )
    pasted = "\n".join(f"pasted {number}" for number in range(20))
    script = [{"blocks": [{"tool": "bash", "arguments": {"command": "sleep 0.4; echo ran > ran"}}]}, {"text": "ended"}]
    with Interface(tmp_path, script=script, settings={"externalEditor": str(editor)}) as tau:
        tau.start().send("go")
        tau.wait("Working")
        tau.wait_raw(b"\x1b[?2004h")
        tau.paste(pasted)
        tau.wait("[paste #1 +20 lines]")
        tau.press("ctrl+g")
        tau.wait("EDITOR IS OPEN")
        while not (tmp_path / "work" / "ran").exists():
            time.sleep(0.02)
        (tmp_path / "go").touch()
        tau.wait("written elsewhere")
        tau.wait("ended")
        tau.settle()
        until_typed(tau, "written elsewhere")
    assert (tmp_path / "before").read_text() == pasted
    assert " icanon" in (tmp_path / "stty").read_text()


def test_at_files_and_tab_paths_and_commands_with_arguments(tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "some folder").mkdir(parents=True)
    (work / "some folder" / "notes.txt").write_text("what is in the notes\n")
    (work / "shot.png").write_bytes(png(4, 4))
    with Interface(tmp_path) as tau:
        tau.start().type("read @notes")
        tau.wait("notes.txt")
        tau.press("tab")
        tau.wait('read @"some folder/notes.txt"')
        tau.type("and @sho")
        tau.wait("shot.png")
        tau.press("tab")
        tau.wait("@shot.png")
        send_it(tau)
        assert "what is in the notes" in sent_text(tau)
        assert [block["type"] for block in sent(tau)["content"]] == ["text", "image"]
        tau.type("open ./so")
        tau.press("tab")
        until_typed(tau, 'open "./some folder/')
        tau.press("ctrl+c")
        until_typed(tau, "")
        tau.type("/thin")
        tau.wait("thinking  [level]")
        tau.press("tab")
        tau.type("hi")
        tau.wait("high")
        tau.press("tab")
        until_typed(tau, "/thinking high")
        tau.press("enter")
        tau.wait("• high")


def test_a_shell_command_shows_its_output_live_and_escape_stops_it(tmp_path: Path) -> None:
    with Interface(tmp_path) as tau:
        tau.start().send("!echo first; sleep 30; echo never")
        tau.wait("  first")
        tau.wait("Running 1s · Esc stops")
        tau.press("escape")
        tau.wait("Stopped")
        tau.wait(lambda screen: "Running" not in screen)
        tau.send("!!echo secret")
        tau.wait("  secret")
        assert any(row == "!! echo secret" for row in tau.screen())
        tau.wait_quiet()
        tau.send("hello")
        tau.wait("ok")
        tau.settle()
        entries = [entry["message"] for entry in tau.session_entries() if entry["type"] == "message"]
        commands = [message for message in entries if message["role"] == "bashExecution"]
        assert [(one["command"][:11], one.get("excludeFromContext", False)) for one in commands] == [
            ("echo first;", False),
            ("echo secret", True),
        ]


def test_a_full_screen_program_gets_a_plain_message(tmp_path: Path) -> None:
    with Interface(tmp_path) as tau:
        tau.start().send("!vim notes.txt")
        tau.wait("vim needs the whole terminal.")
        tau.type("still here")
        until_typed(tau, "still here")


def test_output_of_commands_that_run_at_once_stays_apart(tmp_path: Path) -> None:
    with Interface(tmp_path) as tau:
        tau.start().send("!echo one; while [ ! -e go ]; do sleep 0.05; done; echo last of one")
        tau.wait("  one")
        tau.send("!echo two; touch go")
        tau.wait("  last of one")
        rows = [row for row in tau.screen() if row.startswith(("!", "  ")) and "Took" not in row]
        assert [row[:11].strip() for row in rows] == ["! echo one;", "one", "last of o", "! echo two;", "two"]


def test_the_cursor_is_at_the_caret_in_wide_text_and_a_cluster_is_one_step(tmp_path: Path) -> None:
    with Interface(tmp_path) as tau:
        tau.start().type("漢字 👩‍👩‍👧 é")
        tau.wait("漢")
        tau.wait(lambda shown: tau.cursor()[1] == 9)
        assert "25" not in tau.modes()  # the cursor is visible
        tau.press("left")
        tau.press("left")
        tau.press("left")
        tau.wait(lambda shown: tau.cursor()[1] == 5)
        tau.press("backspace")
        tau.press("backspace")
        tau.wait(lambda shown: tau.cursor()[1] == 2)
        tau.press("enter")
        tau.wait("ok")
        tau.settle()
        assert sent_text(tau) == "漢👩‍👩‍👧 é"


def test_escape_closes_the_completion_before_it_stops_the_answer(tmp_path: Path) -> None:
    with Interface(tmp_path, script=[endless("so far ")]) as tau:
        tau.start().send("go")
        tau.wait("so far")
        tau.type("/mod")
        tau.wait("/model")
        tau.press("escape")
        tau.wait(lambda shown: "/model" not in shown)
        assert "Working" in tau.box()[0]
        tau.press("escape")
        tau.wait("Stopped.")
        until_typed(tau, "/mod")


def test_the_list_of_commands_has_templates_skills_and_extensions(tmp_path: Path) -> None:
    agent = tmp_path / "agent"
    (agent / "prompts").mkdir(parents=True)
    (agent / "prompts" / "zreview.md").write_text("---\ndescription: review it\n---\nReview $1 well.\n")
    (agent / "skills" / "zsolve").mkdir(parents=True)
    (agent / "skills" / "zsolve" / "SKILL.md").write_text("---\nname: zsolve\ndescription: solve it\n---\nSolve.\n")
    extension = tmp_path / "extension.py"
    extension.write_text(
        "def setup(pi):\n    pi.register_command('zrun', lambda args, ctx: None, description='run it')\n"
    )
    with Interface(tmp_path, "-e", str(extension)) as tau:
        tau.start().type("/z")
        shown = tau.wait(lambda shown: all(name in shown for name in ("zreview", "zsolve", "zrun")))
        assert all(about in shown for about in ("review it", "solve it", "run it"))
        tau.type("rev")
        tau.wait(lambda shown: "zsolve" not in shown)
        tau.press("tab")
        tau.type("this")
        until_typed(tau, "/zreview this")
        send_it(tau)
        assert sent_text(tau) == "Review this well."

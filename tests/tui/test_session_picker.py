"""The session picker in the whole program: /resume, --resume, rename, delete, a session of another process."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from support.interface import Interface
from support.limits import no_descriptors
from support.rpc_process import endless
from tau.store.locks import lock
from tau.store.sessions import folder_for

USAGE = {"input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 2}
COST = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}


def write_session(folder: Path, id: str, prompt: str, answer: str, *, cwd: str = "", age: float = 60) -> Path:
    """A session file of the project, `age` seconds old."""
    cwd = cwd or str(folder / "work")
    place = folder_for(cwd, folder / "agent")
    place.mkdir(parents=True, exist_ok=True)
    stamp = "2026-01-01T00:00:00.000Z"
    said = {"role": "assistant", "content": [{"type": "text", "text": answer}], "usage": {**USAGE, "cost": COST}}
    said |= {"api": "scripted", "provider": "scripted", "model": "scripted", "stopReason": "stop", "timestamp": 0}
    entries = [
        {"type": "session", "version": 3, "id": id, "timestamp": stamp, "cwd": cwd},
        {"type": "message", "id": f"{id}1", "parentId": None, "timestamp": stamp}
        | {"message": {"role": "user", "content": prompt, "timestamp": 0}},
        {"type": "message", "id": f"{id}2", "parentId": f"{id}1", "timestamp": stamp, "message": said},
    ]
    path = place / f"2026-01-01T00-00-00-000Z_{id}.jsonl"
    path.write_text("".join(f"{json.dumps(entry, separators=(',', ':'))}\n" for entry in entries))
    os.utime(path, (time.time() - age,) * 2)
    return path


@pytest.mark.parametrize(("rows", "cols"), [(24, 80), (15, 40)])
def test_resume_opens_the_chosen_session(rows: int, cols: int, tmp_path: Path) -> None:
    write_session(tmp_path, "aaa", "first question", "the first answer", age=7200)
    write_session(tmp_path, "bbb", "second question", "the second answer")
    write_session(tmp_path, "ccc", "far away", "the far answer", cwd="/somewhere/else")
    with Interface(tmp_path, rows=rows, cols=cols) as tau:
        tau.start().send("/resume")
        shown = tau.wait(lambda shown: "first question" in shown and "second question" in shown)
        assert "2h" in tau.wait("2h")
        assert "far away" not in shown
        tau.press("tab")
        tau.wait("far away")
        tau.press("tab")
        tau.wait(lambda shown: "far away" not in shown)
        tau.type("first")
        tau.wait(lambda shown: "second question" not in shown)
        tau.press("enter")
        tau.wait("the first answer")
        tau.settle()


def test_the_picker_searches_in_messages_also_while_an_answer_streams(tmp_path: Path) -> None:
    write_session(tmp_path, "aaa", "first question", "a rare zebra")
    write_session(tmp_path, "bbb", "second question", "nothing")
    with Interface(tmp_path, script=[endless("so far ")]) as tau:
        tau.start().send("go")
        tau.wait("so far")
        tau.send("/resume")
        tau.wait("second question")
        tau.type('"rare zebra"')
        tau.wait(lambda shown: "first question" in shown and "second question" not in shown)
        tau.press("enter")
        tau.wait("a rare zebra")
        tau.settle()


def test_resume_with_words_searches_for_them(tmp_path: Path) -> None:
    write_session(tmp_path, "aaa", "first question", "the first answer")
    write_session(tmp_path, "bbb", "second question", "the second answer")
    with Interface(tmp_path) as tau:
        tau.start().send("/resume second")
        tau.wait(lambda shown: "→ second question" in shown and "> second" in shown)
        assert not any("first question" in row for row in tau.screen())


def test_resume_at_start_opens_the_picker(tmp_path: Path) -> None:
    write_session(tmp_path, "aaa", "first question", "the first answer")
    with Interface(tmp_path, "--resume") as tau:
        tau.wait("first question")
        tau.press("enter")
        tau.wait("the first answer")
        tau.settle()


def test_escape_in_the_picker_at_the_start_ends_the_program(tmp_path: Path) -> None:
    write_session(tmp_path, "aaa", "first question", "the first answer")
    with Interface(tmp_path, "--resume", "never sent") as tau:
        tau.wait("first question")
        tau.press("escape")
        assert tau.wait_end() == 0
        assert "No session was chosen." in tau.screen()
        tau.assert_restored()


def test_without_a_descriptor_the_picker_says_that_the_list_is_not_complete(tmp_path: Path) -> None:
    write_session(tmp_path, "aaa", "first question", "the first answer")
    write_session(tmp_path, "ccc", "far away", "the far answer", cwd="/somewhere/else")
    with Interface(tmp_path) as tau:
        tau.start().send("/resume")
        tau.wait("first question")
        with no_descriptors(tau.process.pid):
            tau.press("tab")
            assert "far away" not in tau.wait("Too many open files. Try again later.")
        tau.press("escape")
        tau.wait(lambda shown: "Sessions" not in shown)
        with no_descriptors(tau.process.pid):
            tau.send("/resume")
            tau.wait("Too many open files. Try again later.")
        tau.send("/resume")
        tau.wait("first question")


def test_the_argument_of_resume_is_completed_with_sessions(tmp_path: Path) -> None:
    write_session(tmp_path, "aaa-1", "first question", "the first answer", age=7200)
    write_session(tmp_path, "bbb-2", "second question", "the second answer")
    with Interface(tmp_path) as tau:
        tau.start().type("/resume ")
        tau.wait(lambda shown: "→ second question" in shown and "first question" in shown and "2h" in shown)
        tau.type("first")
        tau.wait(lambda shown: "→ first question" in shown and "second" not in shown)
        tau.press("tab")
        tau.wait("/resume aaa-1")
        tau.press("enter")
        tau.wait("the first answer")


def test_ctrl_r_renames_a_session_without_opening_it(tmp_path: Path) -> None:
    path = write_session(tmp_path, "aaa", "first question", "the first answer")
    with Interface(tmp_path) as tau:
        tau.start().send("/resume")
        tau.wait("first question")
        tau.press("ctrl+r")
        tau.wait("Name of the session")
        tau.type("Zebra hunt")
        tau.press("enter")
        tau.wait(lambda shown: "Sessions" in shown and "→ Zebra hunt" in shown)
        tau.press("ctrl+n")
        tau.wait("named")
        assert "Zebra hunt" in tau.wait("Zebra hunt")
    entry = json.loads(path.read_text().splitlines()[-1])
    assert (entry["type"], entry["name"]) == ("session_info", "Zebra hunt")


def test_ctrl_d_deletes_a_session_after_a_question(tmp_path: Path) -> None:
    path = write_session(tmp_path, "aaa", "first question", "the first answer")
    with Interface(tmp_path) as tau:
        tau.start().send("/resume")
        tau.wait("first question")
        tau.press("ctrl+d")
        tau.wait("→ Keep it")
        tau.press("enter")  # the chosen row keeps it
        tau.wait(lambda shown: "Sessions" in shown and "first question" in shown)
        assert path.exists()
        tau.press("ctrl+d")
        tau.wait("→ Keep it")
        tau.press("down")
        tau.press("enter")
        tau.wait("Nothing found")
    assert not path.exists()


def test_a_deleted_session_goes_to_the_trash_if_there_is_a_program_for_it(tmp_path: Path) -> None:
    path = write_session(tmp_path, "aaa", "first question", "the first answer")
    content = path.read_bytes()
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "trash").write_text(f'#!/bin/sh\nmv "$1" {tmp_path}/trashed\n')
    (programs / "trash").chmod(0o755)
    with Interface(tmp_path, env={"PATH": f"{programs}:{os.environ['PATH']}"}) as tau:
        tau.start().send("/resume")
        tau.wait("first question")
        tau.type("\x04\x1b[B\r")  # in one go: nothing of it is for the editor
        tau.wait("Nothing found")
    assert not path.exists() and (tmp_path / "trashed").read_bytes() == content


def test_the_open_session_is_not_deleted(tmp_path: Path) -> None:
    with Interface(tmp_path, script=[{"text": "one"}]) as tau:
        tau.start().send("hi")
        tau.wait("one")
        tau.settle()
        tau.send("/resume")
        tau.wait("→ ✓ hi")
        tau.press("ctrl+d")
        tau.wait("→ Keep it")
        tau.press("down")
        tau.press("enter")
        tau.wait("The session that is open cannot be deleted")
    assert len(tau.session_entries()) > 1


@pytest.fixture
def locked(tmp_path: Path) -> Path:
    return write_session(tmp_path, "aaa", "first question", "the first answer")


def offered(tau: Interface) -> None:
    tau.start().send("/resume")
    tau.wait("first question")
    tau.press("enter")
    tau.wait(f"Process {os.getpid()}")


def test_a_session_of_another_process_can_be_looked_at(tmp_path: Path, locked: Path) -> None:
    before = locked.read_bytes()
    with locked.open("rb") as file, Interface(tmp_path) as tau:
        assert lock(file.fileno())
        offered(tau)
        tau.press("enter")
        tau.wait(lambda shown: "look only" in shown and "the first answer" in shown and "back in this session" in shown)
    assert locked.read_bytes() == before


def test_a_session_of_another_process_can_be_forked(tmp_path: Path, locked: Path) -> None:
    with locked.open("rb") as file, Interface(tmp_path, script=[{"text": "in the copy"}]) as tau:
        assert lock(file.fileno())
        offered(tau)
        tau.press("down")
        tau.press("enter")
        tau.wait("copy of first question")
        tau.send("go on")
        tau.wait("in the copy")
        tau.settle()
    copies = [path for path in locked.parent.glob("*.jsonl") if path != locked]
    assert [json.loads(path.read_text().splitlines()[0])["parentSession"] for path in copies] == [str(locked)]


def test_a_session_of_another_process_can_be_waited_for(tmp_path: Path, locked: Path) -> None:
    with locked.open("rb") as file, Interface(tmp_path) as tau:
        assert lock(file.fileno())
        offered(tau)
        tau.press("up")
        tau.press("enter")
        tau.wait("Waiting for the session")
        file.close()
        tau.wait("the first answer")
        tau.settle()


def test_import_copies_a_session_file_and_opens_it(tmp_path: Path) -> None:
    path = write_session(tmp_path, "aaa", "first question", "the first answer", cwd="/somewhere/else")
    with Interface(tmp_path) as tau:
        copied = path.rename(tmp_path / "work" / "old.jsonl")
        tau.start().send("/import old.jsonl")
        tau.wait("Continue here")  # its own folder does not exist
        tau.press("enter")
        tau.wait("the first answer")
        tau.settle()
    assert (folder_for(str(tmp_path / "work"), tmp_path / "agent") / "old.jsonl").read_bytes() == copied.read_bytes()


def test_import_refuses_what_is_not_a_session(tmp_path: Path) -> None:
    with Interface(tmp_path) as tau:
        (tmp_path / "work" / "notes.txt").write_text("hello")
        tau.start().send("/import notes.txt")
        tau.wait("session file; it was left untouched")


def test_name_clone_and_new_act_on_the_session(tmp_path: Path) -> None:
    with Interface(tmp_path, script=[{"text": "one"}]) as tau:
        tau.start().send("hi")
        tau.wait("one")
        tau.settle()
        tau.send("/name Parser")
        tau.wait("Session name: Parser")
        tau.send("/clone")
        tau.wait("copy of the session")
        tau.send("/new")
        tau.wait("new session")
        tau.settle()
    files = (tmp_path / "agent" / "sessions").rglob("*.jsonl")
    entries = [[json.loads(line) for line in path.read_text().splitlines()] for path in sorted(files)]
    assert [any(entry.get("name") == "Parser" for entry in one) for one in entries] == [True, True]
    assert entries[1][0]["parentSession"]

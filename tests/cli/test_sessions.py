"""`tau sessions`, and `--session` and `--export` with the ids that it lists."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from support.cli_process import PI, Done, asked, run
from support.rpc_process import WITHIN, surroundings
from tau.cli.command_help import COMMAND_HELP
from tau.cli.flags import COMMANDS
from tau.cli.main import COMMANDS as MODULES
from tau.cli.main import main

TAU = [PI[0], "-c", "from tau.cli.main import tau; tau()"]


def tau(folder: Path, *argv: str) -> Done:
    env = surroundings(folder, None)
    done = subprocess.run(
        [*TAU, *argv],
        cwd=folder / "work",
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=WITHIN,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def session(folder: Path, id: str, title: str, changed: int) -> Path:
    """A session file of the project in `folder`."""
    cwd = str(folder / "work")
    place = folder / "agent" / "sessions" / ("--" + cwd.strip("/").replace("/", "-") + "--")
    place.mkdir(parents=True, exist_ok=True)
    message = {"role": "user", "content": [{"type": "text", "text": title}], "timestamp": 1}
    entry = {
        "type": "message",
        "id": "a",
        "parentId": None,
        "timestamp": "2026-01-01T00:00:00.000Z",
        "message": message,
    }
    header = {"type": "session", "version": 3, "id": id, "timestamp": "2026-01-01T00:00:00.000Z", "cwd": cwd}
    path = place / f"2026-01-01T00-00-00-000Z_{id}.jsonl"
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in (header, entry)))
    os.utime(path, (changed, changed))
    return path


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path


def test_sessions_are_listed_with_ids_and_files_newest_first(project: Path) -> None:
    old, new = (
        session(project, "01a1-x", "Fix the parser", 1_000_000),
        session(project, "01a2-y", "Add a test", 2_000_000),
    )
    done = tau(project, "sessions")
    ids, files = done.out.splitlines()[::2], done.out.splitlines()[1::2]
    assert [line.split()[0] for line in ids] == ["01a2-y", "01a1-x"]
    assert [line.endswith(title) for line, title in zip(ids, ("Add a test", "Fix the parser"), strict=True)] == [
        True
    ] * 2
    assert [line.strip() for line in files] == [str(new), str(old)]
    assert tau(project, "sessions", "parser").out.split()[0] == "01a1-x"
    assert tau(project, "sessions", "--all").out == done.out
    assert tau(project, "sessions", "nope") == (0, "", 'No session matches "nope".\n')


def test_no_sessions_are_no_error(project: Path) -> None:
    done = tau(project, "sessions")
    assert (done.code, done.out) == (0, "")
    assert done.err.startswith("There are no sessions of this project.")


@pytest.mark.parametrize(
    "argv", [["--export", "01a2"], ["--export", "--continue"], ["--continue", "--export", "o.html"]]
)
def test_a_session_is_exported_by_its_id_or_as_the_last_one(project: Path, argv: list[str]) -> None:
    session(project, "01a1-x", "the old one", 1_000_000)
    session(project, "01a2-y", "the new one", 2_000_000)
    done = tau(project, *argv)
    assert (done.code, done.err) == (0, "")
    page = (project / "work" / done.out.strip()).read_text()
    assert "the new one" in page and "the old one" not in page


def test_an_id_may_have_an_output_file_behind_it(project: Path) -> None:
    session(project, "01a1-x", "the old one", 1_000_000)
    done = tau(project, "--export", "01a1", "page.html")
    assert (done.code, done.out) == (0, "page.html\n")


def test_started_as_pi_an_export_prints_what_pi_prints(project: Path) -> None:
    session(project, "01a1-x", "the old one", 1_000_000)
    assert run(project, "--export", "01a1", "page.html").out == "Exported to: page.html\n"


@pytest.mark.parametrize("flag", ["--session", "--fork", "--export"])
def test_the_beginning_of_an_id_must_mean_one_session(project: Path, flag: str) -> None:
    session(project, "01a1-x", "one", 1_000_000)
    session(project, "01a1-y", "two", 2_000_000)
    done = run(project, "-p", flag, "01a1", *([] if flag == "--export" else ["hi"]))
    listed = "2 sessions have an id that begins with '01a1': 01a1-y, 01a1-x. Give more of it."
    assert done == (2, "", f"Error: {listed}\n")
    assert run(project, "-p", flag, "01a1-y", *([] if flag == "--export" else ["hi"])).code == 0


def test_a_whole_id_means_its_session_even_if_another_begins_with_it(project: Path) -> None:
    session(project, "01a1", "one", 1_000_000)
    session(project, "01a1-y", "two", 2_000_000)
    assert run(project, "-p", "--session", "01a1", "hi").code == 0


def test_continue_does_not_skip_a_last_session_that_cannot_be_read(project: Path) -> None:
    session(project, "01a1-x", "one", 1_000_000)
    broken = session(project, "01a1-y", "two", 2_000_000)
    broken.write_text("not a session\n")
    done = run(project, "-p", "--continue", "hi")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"Error: The last session of this project cannot be read: {broken}.")
    broken.write_text("")  # never was one
    assert run(project, "-p", "--continue", "hi").code == 0


# Commands and their help.


def test_every_command_has_a_summary_and_a_help() -> None:
    assert list(COMMANDS) == list(COMMAND_HELP) == list(MODULES)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_its_own_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main("tau", [name, "--help"]) == 0
    assert capsys.readouterr() == (COMMAND_HELP[name] + "\n", "")


@pytest.mark.parametrize("program", ["pi", "tau"])
def test_the_help_lists_the_commands(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(program, ["--help"]) == 0
    out = capsys.readouterr().out
    assert [f"  tau {name}" in out for name in COMMANDS] == [True] * len(COMMANDS)


def test_sessions_of_a_folder_with_a_long_path_are_kept_and_listed(tmp_path: Path) -> None:
    folder = tmp_path.joinpath(*["x" * 60] * 5)
    for prompt in ("one", "two"):
        assert run(folder, "-c", "-p", prompt) == (0, "ok\n", "")
    assert [content[0]["text"] for content in asked(folder)] == ["one", "two"]
    listed = subprocess.run([*TAU, "sessions"], cwd=folder / "work", env=surroundings(folder), capture_output=True)
    assert listed.stdout.decode().splitlines()[0].endswith("4 messages  one")

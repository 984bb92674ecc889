"""Whatever tau writes down is for its user alone, whatever the umask says."""

from __future__ import annotations

import json
import os
import pty
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cli_process import PI, run
from support.rpc_process import Agent, Json, calls, texts
from support.secret_canaries import Echo, Nest

TAU = [*PI[:2], "from tau.cli.main import tau; tau()"]
LONG = "seq 1 100000"


@pytest.fixture(params=[0o022, 0o000], ids=["umask 022", "umask 000"])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


class Yard:
    """The places of one user, and what was in them before tau came."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("home", "agent", "work/.pi", "tmp"):
            (folder / name).mkdir(parents=True)
        (folder / "work" / ".pi" / "settings.json").write_text("{}")
        # Not PI_CODING_AGENT_DIR: so that the folders in between are made, too.
        self.env = {"PI_CODING_AGENT_DIR": "", "TMPDIR": str(folder / "tmp")}
        self._before = {"script.json", "stderr", *(str(path.relative_to(folder)) for path in folder.rglob("*"))}

    def loose(self) -> dict[str, str]:
        """What tau made and others can look at, write to or search."""
        return {name: oct(mode) for name, mode in self.made().items() if mode & 0o077}

    def made(self) -> dict[str, int]:
        paths = {str(path.relative_to(self.folder)): path for path in self.folder.rglob("*")}
        return {name: stat.S_IMODE(path.lstat().st_mode) for name, path in paths.items() if name not in self._before}


def has(yard: Yard, *ends: str) -> bool:
    return all(any(name.endswith(end) for name in yard.made()) for end in ends)


@pytest.mark.promise("D13", "F20", "G10")
def test_sessions_and_what_comes_of_them_are_private(tmp_path: Path, umask: int) -> None:
    yard = Yard(tmp_path)
    more = ["--session-dir", str(tmp_path / "elsewhere" / "deep")]
    with Agent(tmp_path, calls(LONG), {"text": "ok"}, env=yard.env) as agent:
        assert "Full output: " in texts(agent.prompt("go"), "toolResult")[0]
        agent.get("bash", command=LONG)
        agent.get("set_session_name", name="x")
        agent.get("set_thinking_level", level="off")
        agent.get("set_auto_compaction", enabled=False)
        agent.get("set_steering_mode", mode="all")
        agent.get("export_html")
        agent.get("export_html", outputPath="named.html")
        agent.get("fork", entryId=agent.get("get_fork_messages")["messages"][0]["entryId"])
        agent.prompt("again")
        agent.get("clone")
        agent.get("new_session")
        agent.prompt("once more")
    assert run(tmp_path, *more, "--session", "named.jsonl", "-p", "hi", env=yard.env).code == 0
    assert run(tmp_path, *more, "--mode", "json", "hi", env=yard.env).code == 0
    assert yard.loose() == {}
    assert has(yard, ".pi/agent", "settings.json", "named.html", "named.jsonl", "elsewhere/deep", ".log")
    assert len([name for name in yard.made() if name.endswith(".jsonl")]) >= 5


@pytest.mark.promise("G04")
def test_trust_keys_recordings_and_histories_are_private(tmp_path: Path, umask: int) -> None:
    yard = Yard(tmp_path)
    env = {**os.environ, "HOME": str(tmp_path / "home"), **yard.env}
    subprocess.run([*TAU, "trust"], cwd=tmp_path / "work", env=env, check=True, capture_output=True)
    save = "from tau.store.auth import AuthFile; from tau.store.paths import agent_dir; "
    save += 'AuthFile(agent_dir() / "auth.json").change("x", {"type": "api_key", "key": "k"})'
    subprocess.run([sys.executable, "-c", save], cwd=tmp_path / "work", env=env, check=True)
    ours, theirs = pty.openpty()
    argv = [*PI, "--plain", "--model", "demo"]
    process = subprocess.Popen(argv, cwd=tmp_path / "work", env=env, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    os.write(ours, b"hello\n/quit\n")
    try:
        while os.read(ours, 4096):
            pass
    except OSError:  # the other end is closed
        pass
    assert process.wait() == 0
    os.close(ours)
    assert yard.loose() == {}
    assert has(yard, "trust.json", "auth.json", "tau_history", ".jsonl")


def test_recordings_are_private(tmp_path: Path, umask: int) -> None:
    with Echo() as server:
        nest = Nest(tmp_path / "place", server)
        before = set(tmp_path.rglob("*"))
        argv = [*PI, *nest.args, "-p", "--record", str(tmp_path / "new" / "recordings"), "hi"]
        env = nest.surroundings()
        known: set[Path] = {*before, tmp_path / "place" / "agent" / "settings.json", *nest.secret_files}
        subprocess.run(argv, cwd=tmp_path / "place" / "work", env=env, check=True, capture_output=True)
    made = {path: stat.S_IMODE(path.stat().st_mode) for path in set(tmp_path.rglob("*")) - known}
    assert {path.name: oct(mode) for path, mode in made.items() if mode & 0o077} == {}
    assert [path for path in made if path.suffix == ".json"]


def test_an_old_session_that_others_could_read_is_private_once_it_is_lifted(tmp_path: Path, umask: int) -> None:
    yard = Yard(tmp_path)
    message: Json = {"role": "user", "content": "one", "timestamp": 1}
    lines: list[Json] = [
        {"type": "session", "id": "s", "timestamp": "2025-01-01T00:00:00.000Z", "cwd": str(tmp_path / "work")}
    ]
    lines.append({"type": "message", "timestamp": "2025-01-01T00:00:00.000Z", "message": message})
    old = tmp_path / "work" / "old.jsonl"
    old.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert run(tmp_path, "--session", str(old), "-p", "hi", env=yard.env).code == 0
    assert (yard.loose(), has(yard, "old.jsonl", "old.jsonl.bak")) == ({}, True)


@pytest.mark.promise("G04")
@pytest.mark.parametrize("mode", [0o644, 0o660, 0o666])
def test_keys_that_others_could_read_are_made_private_with_a_warning(tmp_path: Path, mode: int) -> None:
    yard = Yard(tmp_path)
    file = tmp_path / "agent" / "auth.json"
    file.write_text("{}")
    file.chmod(mode)
    done = run(tmp_path, "-p", "hi", env={**yard.env, "PI_CODING_AGENT_DIR": str(tmp_path / "agent")})
    assert (stat.S_IMODE(file.stat().st_mode), done.out) == (0o600, "ok\n")
    assert f"{file}: other users could read it" in done.err


@pytest.mark.promise("F20", "F20b")
def test_output_goes_to_a_new_file_with_an_unpredictable_name(tmp_path: Path) -> None:
    yard = Yard(tmp_path)
    with Agent(tmp_path, calls(LONG), calls(LONG), {"text": "ok"}, env=yard.env) as agent:
        agent.prompt("go")
    names = sorted(path.name for path in (tmp_path / "tmp").iterdir())
    assert len(set(names)) == 2 and all(len(name) == len("pi-bash-.log") + 16 for name in names)

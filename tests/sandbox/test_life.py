"""A sandbox ends with its agent, however that ends, and leaves nothing behind: no process, no folder, no name."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from long.witness import Heart
from support.rpc_process import WITHIN, Agent
from support.sandbox_escapes import HIDING, LEVELS, LIMIT, PYTHON, SECRET, Place, missing
from tau.runtime.machine.jobs import LOST
from tau.runtime.sandbox.tree_removal import remove_tree

ENDS: dict[str, Callable[[Agent], object]] = {
    "its client closes stdin": lambda agent: agent.close(),
    "SIGTERM": lambda agent: agent.signal(signal.SIGTERM),
    "SIGINT": lambda agent: agent.signal(signal.SIGINT),
    "kill -9": lambda agent: agent.signal(signal.SIGKILL),
}


@pytest.fixture(params=LEVELS)
def level(request: pytest.FixtureRequest) -> str:
    if why := missing(request.param):
        pytest.skip(why)
    return str(request.param)


@pytest.fixture
def confined(tmp_path: Path, level: str) -> Iterator[Place]:
    place = Place(tmp_path, level)
    yield place
    place.agent.end()


def within(limit: float, done: Callable[[], bool]) -> bool:
    until = time.monotonic() + limit
    while not done() and time.monotonic() < until:
        time.sleep(0.01)
    return done()


def started(place: Place, command: str) -> str:
    """A command that has said it is ready; the id of its response."""
    id = place.agent.send("bash", command=f"{command.replace('echo ready', 'touch ready')}")
    assert within(WITHIN, (place.tree / "ready").exists)
    (place.tree / "ready").unlink()
    return id


def beginnings(agent: Agent) -> list[Path]:
    """The private folders of an agent, which its sandbox names in its command line."""
    children = [int(pid) for pid in Path(f"/proc/{agent.pid}/task/{agent.pid}/children").read_text().split()]
    lines = [Path(f"/proc/{pid}/cmdline").read_text() for pid in children]
    return [path for path in Path("/tmp").glob("tau-sandbox-*") for line in lines if path.name in line]


@pytest.mark.promise("B09", "B10", "B11", "B12", "X08")
@pytest.mark.parametrize("end", ENDS)
def test_nothing_is_alive_two_seconds_after_its_end(confined: Place, end: str) -> None:
    for command in list(HIDING.values())[:3]:
        started(confined, command)
    (private,) = beginnings(confined.agent)
    assert (private.stat().st_mode & 0o777, len(confined.commands()) >= 3) == (0o700, True)
    ENDS[end](confined.agent)
    # Whoever closes stdin waits for the commands that are under way; the others do not.
    if end == "its client closes stdin":
        confined.agent.signal(signal.SIGTERM)
    assert confined.left() == set()
    assert within(WITHIN, lambda: not private.exists())
    assert within(WITHIN, lambda: not (confined.tree / ".pi").exists())


@pytest.mark.promise("B13", "B14", "B15", "F06")
@pytest.mark.parametrize("hiding", list(HIDING)[:3])
def test_an_aborted_command_leaves_no_processes(confined: Place, hiding: str) -> None:
    id = started(confined, HIDING[hiding])
    begun = time.monotonic()
    with Heart() as heart:
        confined.agent.ask("abort_bash")
        assert confined.agent.response(id)["data"]["cancelled"] is True
        taken = time.monotonic() - begun
    assert taken - heart.lost(begun) < LIMIT
    assert confined.left() == set()
    assert confined.run("echo still here") == "still here\n"


def test_a_killed_sandbox_is_restarted_and_nothing_runs_without_it(confined: Place) -> None:
    agent = confined.agent
    confined.run("true")
    (child,) = (int(pid) for pid in Path(f"/proc/{agent.pid}/task/{agent.pid}/children").read_text().split())
    os.kill(child, signal.SIGKILL)
    responses = [agent.ask("bash", command=f"cat {confined.private[0]} 2>&1; echo again") for _ in range(4)]
    # One of them may have been taken by the supervisor just before it died.
    lost = [response for response in responses if not response["success"]]
    assert len(lost) <= 1 and all(LOST in response["error"] for response in lost), lost
    said = [response["data"]["output"] for response in responses if response["success"]]
    assert all(text.endswith("again\n") and SECRET not in text for text in said), said


@pytest.mark.promise("X01", "X02")
def test_a_runner_that_a_command_kills_takes_nothing_out_of_the_sandbox(confined: Place) -> None:
    """Signals to every process it can see, one after the other; the next commands are in a sandbox again."""
    agent = confined.agent
    killing = (
        "for pid in $(ls /proc | grep -x '[0-9]*' | grep -vx $$); do kill -9 $pid; done; kill -STOP -1; kill -9 -1"
    )
    for _ in range(2):
        agent.ask("bash", command=killing)
        responses = [agent.ask("bash", command=f"cat {confined.private[0]}; echo again") for _ in range(3)]
        said = [response["data"]["output"] for response in responses if response["success"]]
        assert said and all(SECRET not in text for text in said) and "again\n" in said[-1], responses
    assert confined.left() == set()


def test_two_agents_share_a_folder_and_what_is_protected_in_it(tmp_path: Path, level: str) -> None:
    (tmp_path / "work").mkdir()
    pi = tmp_path / "work" / ".pi"
    with Agent(tmp_path, args=["--sandbox", level]) as first:
        assert first.get("get_state")["sandbox"] == level
        with Agent(tmp_path, args=["--sandbox", level]) as second:
            assert second.get("get_state")["sandbox"] == level
            first.close()
            first.exit_code()
            said = second.get("bash", command="echo x > .pi/settings.json; rmdir .pi; mkdir .pi2")
            assert said["exitCode"] == 0 and pi.is_dir() and not list(pi.iterdir())
    assert within(WITHIN, lambda: os.listdir(tmp_path / "work") == [".pi2"])


def test_a_folder_of_the_user_s_that_is_empty_stays(tmp_path: Path, level: str) -> None:
    (tmp_path / "work" / ".pi").mkdir(parents=True)
    with Agent(tmp_path, args=["--sandbox", level]) as agent:
        agent.get("bash", command="true")
    assert within(WITHIN, lambda: not (tmp_path / "work" / ".git").exists())
    assert (tmp_path / "work" / ".pi").is_dir()


DEEP = """
import os, sys
os.chdir(sys.argv[1])
for _ in range(3000):
    os.mkdir("d" * 20)
    os.chdir("d" * 20)
open("bottom", "w").close()
os.chdir(sys.argv[1])
os.mkdir("shut")
open("shut/file", "w").close()
os.chmod("shut", 0)
os.chmod(sys.argv[1], 0o555)
"""


@pytest.mark.promise("X08")
def test_folders_deeper_than_a_path_can_name_are_removed_at_the_end(confined: Place) -> None:
    """3000 nested folders: more than Python can recurse, and 60 KB of names."""
    (confined.tree / "deep.py").write_text(DEEP)
    assert confined.run(f"{PYTHON} -I deep.py /tmp && echo made") == "made\n"
    (private,) = beginnings(confined.agent)
    confined.agent.close()
    try:
        assert confined.agent.exit_code() == 0
        assert within(WITHIN, lambda: not private.exists() and not (confined.tree / ".pi").exists())
        assert "Traceback" not in confined.agent.stderr
    finally:
        subprocess.run(["rm", "-rf", private], check=True)  # nothing that pytest could not clear up stays


def test_a_tree_is_removed_without_following_links_whatever_its_names_and_modes(tmp_path: Path) -> None:
    top, kept = tmp_path / "top", tmp_path / "kept"
    kept.mkdir()
    (kept / "file").touch()
    for name in ("a/b/c", "a/b/.tau-removed-1", ".tau-removed-2/x", "shut/in"):
        (top / name).mkdir(parents=True)
        (top / name / "file").touch()
    (top / ".tau-removed-3").touch()
    for place in ("to-folder", "a/to-folder", "a/b/c/to-folder"):
        (top / place).symlink_to(kept)
    (top / "dangling").symlink_to("nowhere")
    os.mkfifo(top / "a" / "fifo")
    for name in ("shut/in", "shut", "a"):
        (top / name).chmod(0)
    remove_tree(str(top))
    assert (os.listdir(tmp_path), os.listdir(kept)) == (["kept"], ["file"])
    remove_tree(str(top))  # which is gone
    (tmp_path / "link").symlink_to(kept)
    remove_tree(str(tmp_path / "link"))
    assert os.listdir(kept) == ["file"]

"""What a loss costs: attempts that are continued (`--after-loss`), workers that outlive a coordinator (`--orphans`)."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from long.fleet_kills import rows
from support.fleets import FleetRun, repository, wait_for
from support.library_agent import calls
from tau.fleet import mailbox
from tau.fleet.adoption import PREFIX, find_orphans
from tau.fleet.mailbox import LineFile, Mailbox, append, living
from tau.fleet.takeover import INTERRUPTED
from tau.records.base import encode
from tau.records.fleet import Beat, Hello


def waiting_agent(folder: Path) -> FleetRun:
    """Agents that write a line to a file, and then wait until there is a file `go`."""
    go = folder / "go"
    command = f"echo line >> new.txt; touch {folder}/waits-$$; until test -e {go}; do sleep 0.05; done"
    return FleetRun(folder, [calls("bash", command=command), {"text": "ok"}])


def wait_for_agents(folder: Path, count: int) -> None:
    wait_for(lambda: len(list(folder.glob("waits-*"))) >= count, "the agents do not work")


def test_a_lost_attempt_is_continued_in_its_folder_and_its_session(tmp_path: Path) -> None:
    fleet = waiting_agent(tmp_path)
    fleet.tasks([{"id": "a", "repo": str(repository(tmp_path / "repo")), "setup": "echo once >> setup.txt"}])
    process = fleet.start("--after-loss", "continue", "--workers", "2", "--concurrency", "1")
    wait_for_agents(tmp_path, 1)
    ((pid,),) = [(pid,) for pid in fleet.workers() if f"process {pid}\n" in _log(fleet, "1.partial")]
    os.kill(pid, signal.SIGKILL)
    (tmp_path / "go").touch()
    assert process.wait(60) == 0
    result = fleet.results()["a"]
    assert (result["attempt"], result["outcome"]) == (2, "done")
    patch = (fleet.out / "tasks" / "a" / "2" / "patch.diff").read_text()
    assert patch.count("+line\n") == 2, "the work of the lost attempt is gone"
    assert patch.count("+once\n") == 1, "setup ran again"
    session = (fleet.out / "tasks" / "a" / "2" / "session.jsonl").read_text()
    assert session.count("Do it.") == 1
    assert session.count(INTERRUPTED[:40]) == 1
    assert "continues attempt 1" in _log(fleet, "2")
    assert not list((fleet.out / "local" / "work").glob("*"))


def _log(fleet: FleetRun, attempt: str) -> str:
    return Path(fleet.out, "tasks", "a", attempt, "worker.log").read_text()


def test_workers_of_a_killed_coordinator_go_on_and_are_found_again(tmp_path: Path) -> None:
    fleet = waiting_agent(tmp_path)
    fleet.tasks({"id": f"t{number}"} for number in range(3))
    worker = f"{sys.executable} -m tau fleet worker --slots 2 --root {fleet.out / 'local'}"
    flags = ("--orphans", "keep", "--concurrency", "2", "--worker", worker)
    process = fleet.start(*flags)
    wait_for_agents(tmp_path, 2)
    (orphan,) = fleet.workers()
    process.kill()
    process.wait()
    process = fleet.start(*flags)
    wait_for(lambda: list((fleet.out / "orphans").glob("*.in")), "the worker was not found")
    (tmp_path / "go").touch()
    assert process.wait(60) == 0
    found = fleet.results()
    assert {id: result["attempt"] for id, result in found.items()} == {"t0": 1, "t1": 1, "t2": 1}
    assert {found[id]["worker"].startswith(PREFIX) for id in ("t0", "t1")} == {True}
    assert len(rows(fleet, "select 1 from attempt")) == 3
    assert not rows(fleet, "select 1 from attempt where ended is null")
    wait_for(lambda: orphan not in fleet.workers(), "the worker does not end")


def test_an_orphan_is_known_by_its_last_beat_and_only_while_it_beats(tmp_path: Path) -> None:
    from tau import __version__

    box = Mailbox(tmp_path)
    for line in (Hello(__version__, 0), Beat(["a#1", "b#2"]), Beat(["b#2"])):
        box.write(encode(line))
    other = Mailbox(tmp_path)
    other.write(encode(Hello("0.0.1", 0)))
    other.write(encode(Beat(["c#1"])))
    (name,) = find_orphans(tmp_path)
    assert find_orphans(tmp_path) == {name: {"b": 2}}
    past = time.time() - 2 * mailbox.MAX_AGE_S
    for path in tmp_path.glob("*.out"):
        os.utime(path, (past, past))
    assert living(tmp_path) == []
    assert find_orphans(tmp_path / "nothing") == {}


def test_lines_of_a_mailbox_are_read_once_and_when_they_are_complete(tmp_path: Path) -> None:
    file = LineFile(tmp_path / "lines")
    assert list(file.read()) == []
    append(tmp_path / "lines", b"one")
    with (tmp_path / "lines").open("ab") as torn:
        torn.write(b"\ntw")
    assert list(file.read()) == [b"one"]
    append(tmp_path / "lines", b"o")
    assert list(file.read()) == [b"two"]

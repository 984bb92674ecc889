"""The program among clients that are no good and files that are hostile; and the kit itself, where it can be wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from faults.clients import dripping, read_until
from faults.mutations import Random
from faults.processes import Watch, below
from faults.sessions import mutated_session, samples, use_session
from faults.settings import SAMPLES, mutated_file
from faults.streams import mutated_stream
from support.rpc_process import WITHIN, Agent, Json, as_record, calls, joined_deltas, texts


def test_a_slow_client_gets_every_record_in_order(tmp_path: Path) -> None:
    pieces = [f"{at:06d} " for at in range(2_000)]
    with Agent(tmp_path, {"blocks": [{"text": pieces}]}, listening=False) as agent:
        agent.write(b'{"type":"prompt","message":"go"}\n{"id":"last","type":"get_state"}\n')
        with dripping(agent, 400_000) as heard:
            until = time.monotonic() + WITHIN
            while b'"agent_settled"' not in heard:  # the end of stdin would end the run
                assert time.monotonic() < until
                time.sleep(0.01)
            agent.close()
            assert agent.exit_code() == 0
    records: list[Json] = [record for line in bytes(heard).splitlines() if (record := as_record(line)) is not None]
    assert len(records) == heard.count(b"\n")
    assert texts(records, "assistant") == ["".join(pieces)] == [joined_deltas(records)]
    assert [record["id"] for record in records if record["type"] == "response" and "id" in record] == ["last"]


def test_a_killed_agent_leaves_no_processes_behind(tmp_path: Path) -> None:
    command = "sleep 300 & setsid sleep 300 & echo be''gun; sleep 300"
    with Agent(tmp_path, calls(command), listening=False) as agent:
        agent.write(b'{"type":"prompt","message":"go"}\n')
        read_until(agent, b"begun")
        with Watch(agent.pid) as watch:
            assert len(watch) >= 4
            agent.signal(signal.SIGKILL)
            assert watch.left(within=WITHIN) == []


def test_a_watch_sees_who_is_left() -> None:
    shell = subprocess.Popen(["sh", "-c", "sleep 300 & sleep 300"], start_new_session=True)
    try:
        while len(below(shell.pid)) < 2:
            os.sched_yield()
        with Watch(shell.pid) as watch:
            shell.kill()
            left = watch.left(within=0.1)
            assert len(left) == len(watch) == 2
            for pid in left:
                os.kill(pid, signal.SIGKILL)
            assert watch.left(within=WITHIN) == []
    finally:
        shell.kill()
        shell.wait()


@pytest.mark.promise("G01", "G02", "G03")
@pytest.mark.parametrize("name", SAMPLES)
def test_whatever_is_in_a_file_of_ours_the_program_starts_and_leaves_it_alone(name: str, tmp_path: Path) -> None:
    for number in range(5):
        folder = tmp_path / str(number)
        (folder / "agent").mkdir(parents=True)
        file = folder / "agent" / name
        file.write_bytes(data := mutated_file(name, Random(f"{name}/{number}")))
        with Agent(folder) as agent:
            assert agent.get("get_state")["sessionId"]
            assert texts(agent.prompt("hello"), "assistant") == ["ok"]
        assert file.read_bytes() == data


def test_what_is_broken_was_whole_before(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    for lines in samples():
        path.write_bytes(b"\n".join(lines) + b"\n")
        assert use_session(path)
        path.unlink()


def test_the_same_seed_breaks_the_same_way() -> None:
    for number in range(50):
        assert mutated_session(Random(number)) == mutated_session(Random(number))
        assert mutated_stream(Random(number)) == mutated_stream(Random(number))

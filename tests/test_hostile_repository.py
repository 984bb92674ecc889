"""A repository that wants to be obeyed: every trick is played on the real program, and none may work without trust."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from support.hostile_repos import TRICKS, WORDS, Place, a_place, approved
from support.rpc_process import Agent, texts


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with a_place(tmp_path) as place:
        yield place


def test_there_are_as_many_tricks_as_were_promised() -> None:
    assert len(TRICKS) >= 20


@pytest.mark.promise("G05", "G06", "G07", "G08", "G09", "S01", "S02", "S03", "S04", "S05", "S06")
@pytest.mark.parametrize("name", TRICKS)
def test_no_trick_is_honoured_without_trust(place: Place, name: str) -> None:
    TRICKS[name].play(place)
    assert place.play() == set()


@pytest.mark.parametrize("name", [name for name, one in TRICKS.items() if one.works is not None])
def test_the_same_works_where_it_is_meant_to(place: Place, name: str) -> None:
    TRICKS[name].play(place)
    works = TRICKS[name].works
    assert works is not None
    works(place)
    assert TRICKS[name].by in place.play()


# What does not fit into the table.


def test_a_trusted_repository_installs_nothing_either(place: Place) -> None:
    TRICKS["package_that_is_installed"].play(place)
    approved(place)
    assert place.play() == set()


def test_python_m_takes_no_module_but_tau_itself_from_the_repository(place: Place) -> None:
    TRICKS["modules_in_the_working_directory"].play(place)
    shutil.rmtree(place.work / "tau")
    (place.work / "tau.py").unlink()
    assert place.play([sys.executable, "-m", "tau", "--mode", "rpc"]) == set()


def test_a_search_runs_nothing_of_the_repository(tmp_path: Path) -> None:
    mark, work = tmp_path / "pwned", tmp_path / "work"
    work.mkdir()
    for name in ("rg", "evil"):
        (work / name).write_text(f'#!/bin/sh\ntouch {mark}\ncat "$1"\n')
        (work / name).chmod(0o755)
    (work / "ripgreprc").write_text(f"--pre={work}/evil\n")
    (work / "needle.txt").write_text("needle\n")
    config = {"RIPGREP_CONFIG_PATH": str(work / "ripgreprc")}
    call = {"tool": "grep", "arguments": {"pattern": "needle"}, "id": "1"}
    with Agent(tmp_path, {"blocks": [call]}, {"text": "ok"}, args=["--tools", "grep"], env=config) as agent:
        assert "needle.txt:1: needle" in texts(agent.prompt("search"), "toolResult")[0]
    assert not mark.exists()
    if shutil.which("rg"):
        subprocess.run(["rg", "needle", work], env={**os.environ, **config}, check=False, capture_output=True)
        assert mark.exists()


@pytest.mark.parametrize("args", [[], ["--approve"]])
@pytest.mark.parametrize(
    "name",
    ["settings.json", "SYSTEM.md", "extensions", "extensions/x.py", "mcp.json", "prompts/p.md", "skills/s/SKILL.md"],
)
def test_a_named_pipe_in_place_of_a_file_does_not_block(place: Place, name: str, args: Sequence[str]) -> None:
    pipe = place.work / ".pi" / name
    pipe.parent.mkdir(parents=True)
    os.mkfifo(pipe)
    place.args += args
    assert place.play() == set()


def test_a_huge_settings_file_is_not_read(place: Place) -> None:
    place.put("work/.pi/settings.json", "{")
    os.truncate(place.work / ".pi" / "settings.json", 1 << 40)
    approved(place)
    assert place.play() == set()


def test_what_was_ignored_is_reported_once_and_how_to_trust_it(tmp_path: Path) -> None:
    (tmp_path / "work" / ".pi").mkdir(parents=True)
    (tmp_path / "work" / ".pi" / "SYSTEM.md").write_text(WORDS)
    with Agent(tmp_path) as agent:
        agent.prompt("go")
        agent.get("new_session")
        assert agent.stderr.count(".pi/SYSTEM.md") == 1
        assert "`tau trust`" in agent.stderr and "--approve" in agent.stderr


def test_a_decision_not_to_trust_is_not_reported_again(tmp_path: Path) -> None:
    (tmp_path / "work" / ".pi").mkdir(parents=True)
    (tmp_path / "work" / ".pi" / "SYSTEM.md").write_text(WORDS)
    with Agent(tmp_path, args=["--no-approve"]) as agent:
        agent.prompt("go")
        assert agent.stderr == ""


# The agent's own files.


def writes(*paths: Path) -> Mapping[str, Any]:
    calls = [
        {"tool": "write", "arguments": {"path": str(path), "content": "{}"}, "id": f"call_{at}"}
        for at, path in enumerate(paths)
    ]
    return {"blocks": calls}


@pytest.mark.promise("H03")
@pytest.mark.parametrize("allowed", [False, True])
def test_a_model_does_not_write_what_decides_about_it(tmp_path: Path, allowed: bool) -> None:
    work, agent_dir = tmp_path / "work", tmp_path / "agent"
    wanted = [agent_dir / "trust.json", agent_dir / "extensions" / "x.py", work / ".pi" / "extensions" / "x.py"]
    wanted += [work / ".pi" / "settings.json", agent_dir / "sessions" / "x.jsonl"]
    answers = dict(writes(*wanted)), {"text": "ok"}
    settings = {"allowConfigWrites": allowed}
    with Agent(tmp_path, *answers, settings=settings, args=["--tools", "write"]) as agent:
        results = texts(agent.prompt("go"), "toolResult")
    assert [path.exists() for path in wanted] == [allowed] * len(wanted)
    assert ["may not write" in result for result in results] == [not allowed] * len(wanted)


def test_a_repository_cannot_allow_it(tmp_path: Path) -> None:
    settings = tmp_path / "work" / ".pi" / "settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text('{"allowConfigWrites": true}')
    wanted = tmp_path / "agent" / "trust.json"
    args = ["--tools", "write", "--approve"]
    with Agent(tmp_path, dict(writes(wanted)), {"text": "ok"}, args=args) as agent:
        agent.prompt("go")
    assert not wanted.exists()

"""What failed once: every input in tests/faults/corpus, again."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from faults.corpus import found
from faults.sessions import use_session
from faults.streams import Case, read_stream
from long.fuzz import tell
from support.loop_kit import byte_by_byte
from support.rpc_process import Agent


@pytest.mark.parametrize("file", found("sessions"), ids=lambda file: file.stem)
def test_a_session_that_failed_once_is_opened_and_used(file: Path, tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    shutil.copyfile(file, path)
    use_session(path)
    shutil.copyfile(file, path)
    with Agent(tmp_path, args=["--session", str(path)]) as agent:
        agent.get("get_state")


@pytest.mark.parametrize("file", found("streams"), ids=lambda file: file.stem)
def test_an_answer_that_failed_once_is_read(file: Path) -> None:
    data = file.read_bytes()
    for portions in ([data], byte_by_byte(data)):
        asyncio.run(read_stream(Case(file.parent.name, portions)))


def test_lines_that_failed_once_get_one_response_each(tmp_path: Path) -> None:
    with Agent(tmp_path) as agent:
        for file in found("lines"):
            tell(agent, [file.read_bytes()])

"""Faults of model servers in the real program, over a real connection; tests/llm/test_faults.py has more of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.faulty_models import FAULTS, TOUCH, half_commands_run, wrong_endings
from support.provider_servers import SPEAKERS, Speaker

each_api = pytest.mark.parametrize("speaker", SPEAKERS, ids=[speaker.api for speaker in SPEAKERS])


@pytest.mark.promise("E01", "E02", "E03", "E05", "E06", "E07", "E09", "E11", "E13", "E15", "E22")
@each_api
def test_no_fault_of_a_server_is_taken_for_an_answer_and_the_next_prompt_works(
    speaker: Speaker, tmp_path: Path
) -> None:
    assert wrong_endings(speaker, list(FAULTS), tmp_path) == []


@pytest.mark.promise("E04", "E19")
@each_api
def test_a_command_that_was_cut_is_not_run_and_a_whole_one_is(speaker: Speaker, tmp_path: Path) -> None:
    cuts = range(0, len(TOUCH), 4)
    assert half_commands_run(speaker, [*cuts, len(TOUCH)], tmp_path) == 1

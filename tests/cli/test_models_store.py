"""Programs read `models-store.json` for the models there are: cc-connect shows a card of them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from support.cli_process import PROGRAMS
from support.model_server import NOWHERE
from tau.llm.catalog import LOCAL_PROVIDERS

OWN = {
    "lab": {"baseUrl": NOWHERE, "api": "openai-completions", "apiKey": "k", "models": [{"id": "m", "name": "The M"}]}
}
LISTED = {"lab": {"models": [{"id": "m", "name": "The M"}]}}
OF_PI = {"models": [{"id": "new"}], "lastModified": 1}


def start(folder: Path, program: str = "pi") -> None:
    silent = {name: {"baseUrl": NOWHERE} for name in LOCAL_PROVIDERS}
    (folder / "models.json").write_text(json.dumps({"providers": {**silent, **OWN}}))
    clean = {"PATH": os.environ["PATH"], "HOME": str(folder), "PI_CODING_AGENT_DIR": str(folder)}
    command = [*PROGRAMS[program], "--mode", "rpc", "--no-session"]
    subprocess.run(command, cwd=folder, env=clean, stdin=subprocess.DEVNULL, check=True, timeout=30)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, LISTED),
        ({}, LISTED),
        ({"groq": {"models": [{"id": "of a key that is gone"}]}}, LISTED),
        ({"openai": OF_PI, "lab": OF_PI}, {"openai": OF_PI, "lab": OF_PI}),
        ({"openai": OF_PI}, {"openai": OF_PI, **LISTED}),
        (["other"], ["other"]),
    ],
)
def test_pi_names_the_usable_models_and_keeps_what_pi_wrote(tmp_path: Path, before: Any, after: Any) -> None:
    store = tmp_path / "models-store.json"
    if before is not None:
        store.write_text(json.dumps(before))
    start(tmp_path)
    assert json.loads(store.read_text()) == after
    unchanged = store.stat().st_ino
    start(tmp_path)
    assert store.stat().st_ino == unchanged


def test_a_file_that_is_not_json_and_other_programs_leave_it(tmp_path: Path) -> None:
    store = tmp_path / "models-store.json"
    start(tmp_path, "tau")
    assert not store.exists()
    store.write_text("{")
    start(tmp_path)
    assert store.read_text() == "{"

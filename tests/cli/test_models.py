from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from support.cli_process import PROGRAMS
from support.model_server import NOWHERE
from tau.cli.models import table
from tau.llm.catalog import LOCAL_PROVIDERS
from tau.records.models import Model, Price


def test_models_are_a_table_for_people() -> None:
    models = [
        Model("m", "M", "a", "lab", "", True, ["text", "image"], Price(1.25, 10), 1048576, 65536),
        Model("a-longer-one", "A", "a", "lab", "", context_window=131072, max_tokens=512),
        Model("x", "X", "a", "another-lab", "", cost=Price(0.075, 0.3), context_window=1000000, max_tokens=32000),
    ]
    assert table(models) == [
        "provider     model         context  max-out  thinking  images  $ in   $ out",
        "lab          m             1.0M     65.5K    yes       yes     1.25   10   ",
        "lab          a-longer-one  131.1K   512      no        no                  ",
        "another-lab  x             1M       32K      no        no      0.075  0.3  ",
    ]
    assert table(models, prices=False)[:2] == [  # byte for byte the table of pi
        "provider     model         context  max-out  thinking  images",
        "lab          m             1.0M     65.5K    yes       yes   ",
    ]


def list_models(
    folder: Path, *words: str, program: str = "tau", **environment: str
) -> subprocess.CompletedProcess[str]:
    silent = {"providers": {name: {"baseUrl": NOWHERE} for name in LOCAL_PROVIDERS}}
    (folder / "models.json").write_text(json.dumps(silent))
    clean = {"PATH": os.environ["PATH"], "HOME": str(folder), "PI_CODING_AGENT_DIR": str(folder), **environment}
    command = [*PROGRAMS[program], "--list-models", *words]
    return subprocess.run(
        command, cwd=folder, env=clean, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=30
    )


def test_without_a_key_the_providers_are_listed_with_what_each_needs(tmp_path: Path) -> None:
    done = list_models(tmp_path)
    assert done.returncode == 0
    assert done.stderr.startswith("No models are available yet. These providers can be used, each with its key:\n")
    needs = {line.split()[0]: line.split()[-1] for line in done.stdout.splitlines()}
    assert (needs["anthropic"], needs["groq"], needs["github-models"]) == (
        "ANTHROPIC_API_KEY",
        "GROQ_API_KEY",
        "GITHUB_TOKEN",
    )
    assert "--model demo" in done.stdout


def test_without_a_key_a_word_lists_models_that_could_be_used(tmp_path: Path) -> None:
    done = list_models(tmp_path, "anthropic/claude-opus-4-8")
    assert done.stderr == "No model that can be used now matches. These need a key:\n"
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("anthropic ")]
    assert [(row[1], row[-1]) for row in rows] == [("claude-opus-4-8", "ANTHROPIC_API_KEY")]
    assert list_models(tmp_path, "demo").stdout.splitlines()[-1].endswith("--model demo")
    assert list_models(tmp_path, "zork").stdout == 'No models matching "zork"\n'


def test_pi_lists_only_usable_models_on_stdout_which_programs_read(tmp_path: Path) -> None:
    for words in ((), ("anthropic",)):
        done = list_models(tmp_path, *words, program="pi")
        assert done.stdout == "" and "ANTHROPIC_API_KEY" in done.stderr
    head, *rows = list_models(tmp_path, "opus", program="pi", ANTHROPIC_API_KEY="k").stdout.splitlines()
    assert head.split() == ["provider", "model", "context", "max-out", "thinking", "images"]
    assert rows and {len(row.split()) for row in rows} == {6}


def test_with_a_key_only_usable_models_are_listed(tmp_path: Path) -> None:
    done = list_models(tmp_path, "opus", ANTHROPIC_API_KEY="k")
    assert {line.split()[0] for line in done.stdout.splitlines()} == {"provider", "anthropic"}
    assert done.stderr == ""

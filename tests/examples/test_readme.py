"""What README.md shows is tried: a reader who copies it gets what it promises."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from support.rpc_process import WITHIN, surroundings
from tau.llm.catalog import Catalog, parse_providers

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def block(language: str, containing: str) -> str:
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    (found,) = [text for text in blocks if containing in text]
    return str(found)


def test_rpc_in_ten_lines_is_ten_lines_and_answers(tmp_path: Path) -> None:
    env = surroundings(tmp_path)
    env["PATH"] = f"{Path(sys.executable).parent}:{env['PATH']}"
    (tmp_path / "work" / "notes.txt").write_text("hello\n")
    example = block("python", "Popen")
    done = subprocess.run(
        [sys.executable, "-c", example],
        cwd=tmp_path / "work",
        env=env,
        capture_output=True,
        encoding="utf-8",
        timeout=WITHIN,
        check=True,
    )
    assert example.count("\n") == 10
    assert "notes.txt" in done.stdout


def test_the_provider_of_the_readme_is_one() -> None:
    given, problems = parse_providers(json.loads(block("json", "providers")))
    assert problems == []
    assert [model.id for model in Catalog(given).models_of("mine")] == ["claude-sonnet-4-5"]

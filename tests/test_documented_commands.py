"""The shell commands of README, the quickstart and the task pages work as printed, in order.

All blocks of a page run in one shell, in a small project under git, with an API key that leads to a server of the
test. A block that cannot run says why in its fence: ```sh not-run: REASON. So does every block that needs a terminal,
another program or a package index.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from markdown_it import MarkdownIt

from support.anthropic_server import ModelServer
from support.model_server import serving
from support.rpc_process import WITHIN, surroundings

ROOT = Path(__file__).parents[1]
PAGES = [
    "README.md",
    "docs/quickstart.md",
    "docs/coming-from-pi.md",
    "docs/coming-from-other-agents.md",
    "docs/ci.md",
    "docs/web-app.md",
    "docs/local-models.md",
    "docs/troubleshooting.md",
    "docs/acp.md",
    "docs/packages.md",
]
NOT_RUN = "not-run: "
PREPARE = (
    "git init -q -b main && git add *.md *.py && git commit -qm first && git update-ref refs/remotes/origin/main main"
)
PROJECT = {
    "README.md": "# Tides\n\nTables of tides.\n",
    "app.py": "print('hello')\n",
}


def blocks(page: str) -> Iterator[tuple[str, str]]:
    """Yield the info and the text of each fenced shell or YAML block."""
    for token in MarkdownIt("commonmark").parse((ROOT / page).read_text(encoding="utf-8")):
        if token.type == "fence" and token.info.split(" ")[0] in ("sh", "bash", "yaml"):
            yield token.info, token.content
        elif token.type == "code_block":
            raise AssertionError(f"{page}: an indented block does not say what it is: {token.content}")


def commands(page: str) -> list[str]:
    """Return the blocks that run. A workflow counts with its steps named "Review"."""
    found = []
    for info, text in blocks(page):
        language, _, mark = info.partition(" ")
        if language == "yaml":
            jobs = yaml.safe_load(text)["jobs"].values()
            steps = [step for job in jobs for step in job["steps"] if "Review" in step.get("name", "")]
            assert steps
            found += [f"export {name}=your-key" for step in steps for name in step.get("env", {})]
            found += [step["run"] for step in steps]
        elif not mark.startswith(NOT_RUN):
            assert not mark, f"{page}: {info}"
            found.append(text)
    return found


@pytest.fixture
def project(tmp_path: Path) -> Iterator[tuple[Path, dict[str, str]]]:
    """A project with a change that is not committed, and an environment whose models are servers of this test."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed: the commands were not run")
    local = {"object": "list", "data": [{"id": "qwen3", "object": "model"}]}
    with ModelServer("Hello.") as server, serving(local) as (address, _):
        anthropic = {"baseUrl": server.models["providers"]["mock"]["baseUrl"]}
        models = {"providers": {"anthropic": anthropic, "ollama": {"baseUrl": address}}}
        env = surroundings(tmp_path, models=models)
        scripts = Path(sys.executable).parent
        env |= {"PATH": f"{scripts}:{env['PATH']}", "GIT_CONFIG_GLOBAL": "/dev/null", "GITHUB_BASE_REF": "main"}
        for role in ("AUTHOR", "COMMITTER"):
            env |= {f"GIT_{role}_NAME": "tau", f"GIT_{role}_EMAIL": "tau@example.com"}
        work = tmp_path / "work"
        for name, text in PROJECT.items():
            (work / name).write_text(text)
        (work / "examples").symlink_to(ROOT / "examples")
        subprocess.run(["bash", "-c", PREPARE], cwd=work, env=env, check=True)
        (work / "app.py").write_text("print('hello, world')  # TODO\n")
        yield work, env


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_work_in_order(page: str, project: tuple[Path, dict[str, str]]) -> None:
    work, env = project
    script = "\n".join(["set -euo pipefail", *commands(page)])
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=work,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=3 * WITHIN,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "I did not understand" not in done.stdout


@pytest.mark.parametrize("page", PAGES)
def test_a_block_that_does_not_run_says_why(page: str) -> None:
    """Python without a mark is run by test_code_blocks.py."""
    tokens = MarkdownIt("commonmark").parse((ROOT / page).read_text(encoding="utf-8"))
    marks = [token.info.partition(" ")[2] for token in tokens if token.type == "fence"]
    assert [mark for mark in marks if mark and not re.fullmatch(r"(not-run|fragment): \w.+", mark)] == []


def test_no_page_installs_from_an_index_entry_that_does_not_exist() -> None:
    """tau is not on a package index: every page installs it from a clone or a wheel."""
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "examples/README.md"]
    named = [page.name for page in pages for line in page.read_text(encoding="utf-8").splitlines()
             if "install" in line and "tau-agent" in line]  # fmt: skip
    assert named == []

"""Lines that try to get past a deny rule, against a real bash, and ordinary lines that must not be asked about.

bash_evasions.json: `rule` is the denied command, `runs` that the line really runs it
on a machine that has the programs in `needs`. What `rm` and `curl` do here is to
remove or empty the file `victim`; `git push` fills the repository remote.git.
ordinary_commands.json: commands of public repositories, with their sources.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tau.core.checks.permissions import Call, Rules
from tau.records.permissions import Permissions, Rule

FOLDER = Path(__file__).parent
EVASIONS: list[dict[str, Any]] = json.loads((FOLDER / "bash_evasions.json").read_text())
ORDINARY: list[dict[str, str]] = json.loads((FOLDER / "ordinary_commands.json").read_text())
AT_ONCE = 60  # lines in one test
CHUNKS = [EVASIONS[at : at + AT_ONCE] for at in range(0, len(EVASIONS), AT_ONCE)]
CONTENT = "keep\n"
LIMIT_S = 60
RULE_SETS = [["rm"], ["git push"], ["curl"], ["rm", "git push", "curl", "docker push", "npm publish"]]
MUST_PASS = [
    "npm ci && npm test",
    "pytest -q | tee log",
    "for f in *.py; do black $f; done",
    "find . -name '*.pyc' -exec chmod 644 {} +",
    "python -m pip install -e .",
    "docker build -t app:latest --build-arg VERSION=1.2 .",
    "curl -fsSL https://example.com/a.tar.gz | tar xz",
    "git commit -m 'rm the old files'",
    "git stash push",
    "git add -A && git commit -m 'push it'",
    "git checkout $(git describe --tags)",
    "docker run --rm -it image",
    "docker rm container",
    "grep -rn rm src | head -5",
    "apt-get install -y curl git",
    "echo rm",
    "cat README.md | head -20",
    "ls -la && cat package.json",
    "sed -i 's/a/b/' config.txt",
    "sed -n '1,20p' src/main.c",
    "awk '{print $1}' file | sort | uniq -c",
    'while read -r f; do wc -l "$f"; done < files.txt',
    "if [ -f x ]; then cat x; else echo none; fi",
    "export PATH=$HOME/bin:$PATH && make test",
    "for i in $(seq 1 3); do echo $i; done",
    "cat > notes.md <<'EOF'\n# rm is a command\nEOF",
    "mkdir -p build && cd build && cmake .. && make -j$(nproc)",
    "git log --oneline | head -20",
    "python3 script.py --flag > out.txt 2>&1",
    "gcc main.c -o main && ./main",
    "find . -name '*.py' | xargs wc -l",
    "python -c 'import sys; print(sys.version)'",
    "node -p \"require('./package.json').version\"",
    "cp .env.example .env && npm run dev",
    "tar xzf a.tar.gz && cd a && ./configure && make",
    'x=$(git rev-parse HEAD); echo "$x"',
    "count=0; for f in *; do count=$((count+1)); done; echo $count",
    "timeout 60 npm test",
    "NODE_ENV=production npm run build",
    "git diff HEAD~1 -- src | cat",
    "test -d node_modules || npm install",
]


def verdict(line: str, *denied: str) -> str:
    rules = Rules(Permissions(deny=[Rule(tool="bash", command=list(denied))], otherwise="allow"), "/home/u", "/home")
    return rules.verdict(Call("bash", commands=[line])).what


def prepare(folder: Path, rule: str) -> None:
    folder.mkdir()
    (folder / "victim").write_text(CONTENT)
    if rule != "git push":
        return
    for arguments in (
        ["init", "-q", "-b", "main", "."],
        ["-c", "user.name=a", "-c", "user.email=b@c", "commit", "-q", "--allow-empty", "-m", "x"],
        ["init", "-q", "--bare", "remote.git"],
        ["remote", "add", "origin", "./remote.git"],
        ["config", "push.default", "current"],
        ["config", "push.autoSetupRemote", "true"],
    ):
        subprocess.run(["git", *arguments], cwd=folder, env=environment(folder), check=True, capture_output=True)


def environment(folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "BASH", "PYTHON"))}
    return {**kept, "HOME": str(folder), "TERM": "dumb", "GIT_CONFIG_NOSYSTEM": "1"}


def ran_what_is_denied(case: dict[str, Any], folder: Path, patience_s: float = 0) -> bool:
    """Run a line in a real bash, in a new folder. `patience_s` is for what it leaves in the background."""
    prepare(folder, case["rule"])
    process = subprocess.Popen(
        ["bash", "-c", case["line"]],
        cwd=folder,
        env=environment(folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        process.wait(LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    until = time.monotonic() + patience_s
    while not has_happened(case["rule"], folder):
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def has_happened(rule: str, folder: Path) -> bool:
    if rule == "git push":
        return (folder / "remote.git" / "refs" / "heads" / "main").exists()
    victim = folder / "victim"
    return not victim.exists() or victim.read_text() != CONTENT


def is_possible(case: dict[str, Any]) -> bool:
    needs = case.get("needs", [])
    return all(os.geteuid() == 0 if name == "root" else shutil.which(name) is not None for name in needs)


def test_there_are_enough_lines_of_every_class() -> None:
    assert len(EVASIONS) >= 330
    assert sum(case.get("runs", False) for case in EVASIONS) >= 330
    assert len(ORDINARY) >= 200
    assert all(line["repository"] and line["path"] for line in ORDINARY)


@pytest.mark.parametrize("at", range(len(CHUNKS)))
def test_no_line_runs_what_is_denied(at: int, tmp_path: Path) -> None:
    """A line that is asked about is denied where no client can answer. What is allowed really runs."""
    allowed = [case for case in CHUNKS[at] if verdict(case["line"], case["rule"]) == "allow"]
    evaded = [
        case["line"]
        for number, case in enumerate(allowed)
        if is_possible(case) and ran_what_is_denied(case, tmp_path / str(number), patience_s=1)
    ]
    assert evaded == []


@pytest.mark.parametrize("at", range(len(CHUNKS)))
def test_without_rules_the_lines_really_run_what_is_denied(at: int, tmp_path: Path) -> None:
    """Otherwise the lines would prove nothing."""
    if sys.platform != "linux" or shutil.which("bash") is None:
        pytest.skip("the lines are for bash and the programs of Linux")
    cases = [case for case in CHUNKS[at] if case.get("runs") and is_possible(case)]
    with ThreadPoolExecutor(4) as pool:
        ran = list(pool.map(lambda case: ran_what_is_denied(case[1], tmp_path / str(case[0])), enumerate(cases)))
    harmless = [case for case, deleted in zip(cases, ran, strict=True) if not deleted]
    # Lines with a process in the background are slow on a busy machine: these get another try, alone.
    assert [
        case["line"]
        for at, case in enumerate(harmless)
        if not ran_what_is_denied(case, tmp_path / f"again{at}", patience_s=10)
    ] == []


@pytest.mark.parametrize("line", MUST_PASS)
def test_ordinary_work_is_not_asked_about(line: str) -> None:
    assert verdict(line, "rm", "git push") == "allow"


@pytest.mark.parametrize("denied", RULE_SETS, ids=" and ".join)
def test_few_ordinary_commands_are_asked_about_needlessly(
    denied: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [one["line"] for one in ORDINARY if verdict(one["line"], *denied) == "ask"]
    with capsys.disabled():
        print(
            f" [deny {', '.join(denied)}: {len(asked)} of {len(ORDINARY)} asked, {len(asked) / len(ORDINARY):.1%}] ",
            end="",
        )
    assert len(asked) < len(ORDINARY) / 10, asked

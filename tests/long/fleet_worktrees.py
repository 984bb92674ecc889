"""Many work trees of one repository at once: no lock error, and the repository is what it was before.

    python tests/long/fleet_worktrees.py [TASKS]

Each task changes a file in a work tree of its own, and leaves a patch and a branch; the hooks of the repository fail.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.fleets import FleetRun, repository
from support.library_agent import calls


def state(repo: Path) -> list[str]:
    """What people see of a repository: its status, its configuration, its work trees and whether it is sound."""
    commands = (["status", "--porcelain=v2", "--branch"], ["config", "--list", "--local"], ["worktree", "list"])
    said = [
        subprocess.run(["git", *words], cwd=repo, capture_output=True, text=True, check=True).stdout
        for words in commands
    ]
    subprocess.run(["git", "fsck", "--strict"], cwd=repo, capture_output=True, check=True)
    return said


def main(count: int) -> None:
    with tempfile.TemporaryDirectory(prefix="tau-fleet-") as made:
        folder = Path(made)
        files = {f"d{number % 30}/f{number}.txt": f"{number}\n" * 20 for number in range(762)}
        repo = repository(folder / "repo", files)
        hook = repo / ".git" / "hooks" / "post-checkout"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text("#!/bin/sh\nexit 1\n")
        hook.chmod(0o755)
        before = state(repo)
        fleet = FleetRun(folder, [calls("write", path="new.txt", content="hello\n"), {"text": "ok"}])
        fleet.tasks({"id": f"t{number}", "repo": str(repo), "output": "branch"} for number in range(count))
        done = fleet.run("--concurrency", str(count), "--per-worker", str(-(-count // 2)), timeout=3600)
        assert done.returncode == 0, done.stdout + done.stderr
        results = fleet.results().values()
        assert [one["id"] for one in results if one["patch"] is None or one["attempt"] != 1] == []
        branches = subprocess.run(
            ["git", "branch", "--list", "tau/*"], cwd=repo, capture_output=True, text=True, check=True
        )
        assert len(branches.stdout.splitlines()) == count
        assert state(repo) == before
    print(f"{count} work trees at once: {len(results)} patches and branches, the repository is unchanged")


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 200)

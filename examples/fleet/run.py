"""Twenty tasks on a small repository, each by an agent of its own, with the demo model: no key, no network.

python examples/fleet/run.py [FOLDER]

FOLDER gets the repository, the results and a report. Run it again with the same one: it goes on where it was.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
AUTHOR = ["-c", "user.name=example", "-c", "user.email=example@localhost"]


def make_repository(folder: Path) -> None:
    shutil.copytree(HERE / "project", folder, ignore=shutil.ignore_patterns("__pycache__"))
    for words in (["init", "--quiet"], ["add", "."], [*AUTHOR, "commit", "--quiet", "-m", "Twelve functions"]):
        subprocess.run(["git", *words], cwd=folder, check=True)


def main(place: Path) -> None:
    repository, out = place / "project", place / "run"
    if not repository.exists():
        make_repository(repository)
    fleet = [sys.executable, "-m", "tau", "fleet"]
    flags = ["--repo", repository, "--model", "demo", "--concurrency", "20"]
    # The demo model runs the commands of tasks.jsonl and no others, so the example needs no sandbox.
    subprocess.run([*fleet, "run", HERE / "tasks.jsonl", "--out", out, *flags, "--sandbox", "none"], check=False)
    subprocess.run([*fleet, "report", out], check=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        folder = Path(sys.argv[1])
        folder.mkdir(parents=True, exist_ok=True)
        main(folder)
    else:
        with tempfile.TemporaryDirectory(prefix="tau-fleet-") as made:
            main(Path(made))

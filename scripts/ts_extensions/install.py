"""Installs the packages of packages.txt with `tau install`, each with its version, and starts tau with all of them.

    python scripts/ts_extensions/install.py AGENT_FOLDER --node PROGRAM

AGENT_FOLDER is made; npm fetches the packages. Prints one line per package. load.py, behave.py and stories.py try what
is installed there with --packages AGENT_FOLDER/npm.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--node", required=True)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    agent = given.folder.resolve()
    work = agent / "empty"
    work.mkdir(parents=True, exist_ok=True)
    env = {**os.environ, "PI_CODING_AGENT_DIR": str(agent)}
    settings = agent / "settings.json"
    if not settings.exists():
        settings.write_text(json.dumps({"extensionHost": {"node": given.node, "loadTimeoutMs": 60000}}))
    wanted = [line for line in (HERE / "packages.txt").read_text().split() if given.only in line]
    tau = [sys.executable, "-m", "tau"]
    failed = 0
    for name in wanted:
        words = [*tau, "install", f"npm:{name}"]
        done = subprocess.run(words, env=env, cwd=work, capture_output=True, text=True)
        failed += done.returncode != 0
        said = done.stdout if done.returncode == 0 else done.stderr
        print(
            f"{'installed' if done.returncode == 0 else 'FAILED   '} {name}: {' '.join(said.split()[2:])}", flush=True
        )
    listed = subprocess.run([*tau, "list", "--json"], env=env, cwd=work, capture_output=True, text=True, check=True)
    rows = json.loads(listed.stdout)
    fine = [row for row in rows if not row["missing"] and not row["changed"] and row["locked"]]
    print(f"{len(wanted) - failed} of {len(wanted)} installed; {len(fine)} of {len(rows)} there, unchanged and locked")


if __name__ == "__main__":
    main()

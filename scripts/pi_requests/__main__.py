"""Record the requests of a release of pi, and compare them with those in tests/golden/requests.

    python scripts/pi_requests                  compare; the exit code is 1 if they differ
    python scripts/pi_requests --write          write them there
    python scripts/pi_requests --cache FOLDER   keep pi in this folder

Needs npm. The release, and Node 22 if this machine's is older, are installed into a cache folder (about 300 MB). It
takes some minutes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
RELEASE = "0.87.1"
RECORDED = HERE.parent.parent / "tests" / "golden" / "requests" / f"pi-{RELEASE}.jsonl"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tau" / "pi_requests"
PACKAGE = f"@earendil-works/pi-ai@{RELEASE}"
NODE = 22
INSTALL_TIMEOUT_S = 600.0
SHOWN = 10


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python scripts/pi_requests", description="Record the requests of pi.")
    parser.add_argument("--write", action="store_true", help="replace the recorded requests")
    parser.add_argument("--cache", type=Path, default=CACHE, help="folder for pi (%(default)s)")
    chosen = parser.parse_args(argv)
    node, pi = install(chosen.cache.absolute())
    found = run([node, str(HERE / "record.mjs"), str(pi)])
    if chosen.write:
        RECORDED.write_text(found)
        return 0
    new, old = found.splitlines(), RECORDED.read_text().splitlines()
    different = [line for line in new if line not in old]
    print(f"{len(new)} families, {len(old)} recorded, {len(different)} different")
    for line in different[:SHOWN]:
        print(f"  {line[:200]}")
    return 1 if different or len(new) != len(old) else 0


def install(cache: Path) -> tuple[str, Path]:
    """The program Node, and the folder of the package."""
    mark, own = cache / "installed", needs_own_node()
    wanted = f"{PACKAGE} {own}"
    if not mark.exists() or mark.read_text() != wanted:
        shutil.rmtree(cache, ignore_errors=True)
        cache.mkdir(parents=True)
        npm = ["npm", "install", "--prefix", str(cache), "--no-audit", "--no-fund"]
        if own:
            run([*npm, f"node@{NODE}"])  # with its install script, which fetches the program
        run([*npm, "--ignore-scripts", PACKAGE])
        mark.write_text(wanted)
    node = str(cache / "node_modules" / "node" / "bin" / "node") if own else "node"
    return node, cache / "node_modules" / "@earendil-works" / "pi-ai"


def needs_own_node() -> bool:
    if shutil.which("npm") is None:
        sys.exit("npm is not installed")
    version = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout
    return int(version.strip().lstrip("v").partition(".")[0]) < NODE


def run(command: list[str]) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=INSTALL_TIMEOUT_S
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The same task file on every engine of fleets: the tables are equal but for times and workers.

    python scripts/fleet_engines.py [--tasks 40]

Engines: local processes, commands (a shell, and `ssh localhost` where it works without a password), dask where it is
installed (`pip install '.[fleet]'`). Those that are not there are named.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from long.fleet_monkey import ANSWERS, table
from support.fleets import FleetRun, repository

TWICE = "\N{MULTIPLICATION SIGN}2"
SSH = ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=3", "localhost"]


def engines(folder: Path) -> dict[str, list[str]]:
    """Flags by name; an empty list for an engine that cannot be tried here."""
    worker = f"{sys.executable} -m tau fleet worker --root {folder}/elsewhere-{{n}} --slots 5"
    has_ssh = subprocess.run([*SSH, "true"], capture_output=True, check=False).returncode == 0
    return {
        "local": ["--workers", "2"],
        "command: sh": ["--worker", f'sh -c "exec {worker}" {TWICE}'],
        "command: ssh": ["--worker", f"{' '.join(SSH)} {worker} {TWICE}"] if has_ssh else [],
        "dask": ["--engine", "dask", "--workers", "2"] if importlib.util.find_spec("distributed") else [],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=40)
    given = parser.parse_args()
    tables = {}
    with tempfile.TemporaryDirectory() as root:
        repo = repository(Path(root) / "repo")
        for name, flags in engines(Path(root)).items():
            if not flags:
                print(f"{name:14} not tried: it is not there")
                continue
            folder = Path(root) / f"engine-{len(tables)}"
            folder.mkdir()
            fleet = FleetRun(folder, ANSWERS)
            fleet.script = Path(root) / "script.json"
            fleet.script.write_bytes((folder / "script.json").read_bytes())
            fleet.tasks(
                {"id": f"t{number}", "repo": str(repo), "check": f"test {number} -ne 7"}
                for number in range(given.tasks)
            )
            started = time.monotonic()
            done = fleet.run("--concurrency", "10", *flags, timeout=600)
            took = time.monotonic() - started
            assert done.returncode == 1, done.stdout + done.stderr  # task 7 is not solved
            tables[name] = table(fleet)
            print(f"{name:14} {len(tables[name])} results in {took:.1f} s", flush=True)
    first = next(iter(tables.values()))
    differ = [name for name, found in tables.items() if found != first]
    print(f"{len(tables)} engines: {'the tables are equal' if not differ else 'DIFFERENT: ' + ', '.join(differ)}")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())

"""Compare which resources tau and real pi use, for the rows of the tests of package filters.

    PYTHONPATH=tests:tests/store:tests/core python scripts/package_filters.py --pi FOLDER [--node PROGRAM]

FOLDER is that of package_peer.py. Prints rows that differ. Exit code 1 if there are any.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import test_package_filters as filters
import test_package_loading as loading

PI = "node_modules/@earendil-works/pi-coding-agent"
PROGRAM = """
import { readFileSync, writeFileSync } from "node:fs";
import { relative } from "node:path";
const [pi, place] = process.argv.slice(1);
const work = `${place}/work`;
const { DefaultPackageManager } = await import(`${pi}/dist/core/package-manager.js`);
const { SettingsManager } = await import(`${pi}/dist/core/settings-manager.js`);
const found = [];
for (const [user, project] of JSON.parse(readFileSync(`${place}/rows.json`, "utf8"))) {
    writeFileSync(`${place}/agent/settings.json`, JSON.stringify({ packages: user }));
    writeFileSync(`${work}/.pi/settings.json`, JSON.stringify({ packages: project }));
    const settingsManager = SettingsManager.create(work, `${place}/agent`, { projectTrusted: true });
    const manager = new DefaultPackageManager({ cwd: work, agentDir: `${place}/agent`, settingsManager });
    const resolved = await manager.resolve();
    const all = ["extensions", "skills", "prompts"].flatMap((kind) => resolved[kind]);
    const used = all.filter((one) => one.enabled && one.metadata.origin === "package");
    found.push(used.map((one) => `${one.metadata.scope[0]}:${relative(one.metadata.baseDir, one.path)}`).sort());
}
console.log(JSON.stringify(found));
"""


def rows() -> list[tuple[list[Any], list[Any]]]:
    """The entries of the user and of the project. `big` has all files of the table of filters."""
    found = [(user, project) for user, project, _ in loading.SCOPES]
    found += [([{"source": "npm:big", "extensions": one, "skills": one}], []) for one, _ in filters.CHOSEN]
    nothing = {"source": "npm:big", "extensions": [], "skills": []}
    override = {"source": "npm:big", "autoload": False}
    found += [([nothing], [{**override, "extensions": one, "skills": one}]) for one, _ in filters.OVERRIDES]
    return found


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pi", required=True, type=Path)
    parser.add_argument("--node", default=shutil.which("node"))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        (place / "agent").mkdir()
        (place / "work" / ".pi").mkdir(parents=True)
        kit = {name.replace("b.py", "b.ts"): text for name, text in loading.KIT.items()}  # pi knows no Python
        for folder in (loading.of_user(place), loading.of_project(place)):
            loading.make(folder, kit)
        lists = {"extensions": [one for one in filters.ALL if one.endswith(".ts")], "skills": ["skills"]}
        loading.make(loading.of_user(place, "big"), {one: loading.SKILL.format("x") for one in filters.ALL}, lists)
        tried = rows()
        (place / "rows.json").write_text(json.dumps(tried))
        words = [arguments.node, "--input-type=module", "-e", PROGRAM, str((arguments.pi / PI).resolve()), name]
        done = subprocess.run(words, capture_output=True, text=True, env={"PI_OFFLINE": "1", "HOME": name}, check=True)
        different = 0
        for (user, project), theirs in zip(tried, json.loads(done.stdout), strict=True):
            used, _ = loading.names(place, user, project)
            mine = sorted(path for paths in used.values() for path in paths)
            if mine != theirs:
                different += 1
                print(f"{user} {project}\n  pi  {theirs}\n  tau {mine}")
    print(f"{len(tried)} rows, {different} differ")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())

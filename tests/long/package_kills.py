"""kill -9 during the installation and the update of packages: the old state or the new one is there, never another.

python tests/long/package_kills.py [MOMENTS]        20 moments of each of eight commands take some minutes

Also at each step: before and after the calls that change something on disk. With -l, packages of a project, which must
stay trusted.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.npm_registry import Registry, serve_registry
from support.package_place import SKILL, TAU, Place

VERSIONS = ("1.0.0", "1.1.0")
SOURCES = {"npm": "npm:kit", "git": "git:example.org/me/kit"}
KILLED_BY_US = -9
# Each call that changes what the next start sees, and its occurrences in one command.
STEPS = (
    *(("tau.store.packages.installer.change_lock", 1), ("tau.store.packages.installer.change_lock", 2)),
    *(("tau.store.packages.npm.exchange", 1), ("tau.store.packages.git.exchange", 1)),
    *(("tau.store.packages.staging.remove_tree", 1), ("tau.cli.packages_change.add_entry", 1)),
)
KILLER = """
import os, signal, sys
from importlib import import_module
from tau.cli.main import main
place, count, when = sys.argv[1], int(sys.argv[2]), sys.argv[3]
module, _, name = place.rpartition(".")
import_module("tau.cli.packages_change")
real, calls = getattr(import_module(module), name), [0]
def stop():
    os.kill(os.getpid(), signal.SIGKILL)
def step(*words, **more):
    calls[0] += 1
    if calls[0] == count and when == "before":
        stop()
    found = real(*words, **more)
    if calls[0] == count:
        stop()
    return found
setattr(import_module(module), name, step)
sys.exit(main("tau", sys.argv[4:]))
"""


def files(version: str) -> dict[str, str]:
    names = [f"skills/s{number}/SKILL.md" for number in range(20)]
    return {name: SKILL.format(Path(name).parent.name) + version for name in names}


class Trial:
    """One kind of package, with two versions of it."""

    def __init__(self, folder: Path, kind: str, registry: Registry | None, *, local: bool = False) -> None:
        self.kind, self.source = kind, SOURCES[kind]
        self.local = local
        self.place = Place(folder, registry.url if registry else "http://127.0.0.1:9")
        self.registry = registry
        self.repository = self.place.repository("me/kit", files(VERSIONS[0])) if kind == "git" else None
        if registry:
            registry.publish("kit", VERSIONS[0], files(VERSIONS[0]))
        self.base = self.place.work / ".pi" if local else self.place.agent
        self.folder = self.base / ("npm/node_modules/kit" if kind == "npm" else "git/example.org/me/kit")

    def publish_second(self) -> None:
        if self.registry:
            self.registry.publish("kit", VERSIONS[1], files(VERSIONS[1]))
        elif self.repository:
            self.place.commit(self.repository, files(VERSIONS[1]))

    def run(self, *words: str, after: float | None = None, program: Sequence[str] = (str(TAU),)) -> float:
        """Run tau; with `after`, kill it after so many seconds. Returns how long it ran."""
        begun = time.monotonic()
        errors = self.place.home / "stderr"
        with errors.open("wb") as stderr:
            process = subprocess.Popen(
                [*program, *words],
                cwd=self.place.work,
                env=self.place.env,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                stdin=subprocess.DEVNULL,
            )
        try:
            code = process.wait(after)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        assert code in (0, KILLED_BY_US), (words, errors.read_text())
        return time.monotonic() - begun

    def version(self) -> str | None:
        """The version on disk; None if there is none. Fails if the files are not those of one version."""
        if not self.folder.exists():
            return None
        found = {str(path.relative_to(self.folder)): path.read_text() for path in self.folder.glob("skills/*/*")}
        versions = [version for version in VERSIONS if found == files(version)]
        assert len(versions) == 1, (self.folder, len(found))
        return versions[0]

    def check(self, allowed: tuple[str | None, ...]) -> str | None:
        version = self.version()
        assert version in allowed, version
        listed = self.place.tau("list")
        assert "not trusted" not in listed.stderr, listed
        for row in self.place.rows():
            assert row["source"] == self.source and not row["missing"] and not row["changed"], row
        return version

    @property
    def install(self) -> tuple[str, ...]:
        return ("install", self.source, *(["-l"] if self.local else []))

    def repair(self, version: str) -> None:
        """The same command again leads to the wanted state, and nothing is left beside it."""
        self.run(*self.install)
        assert self.check((version,)) == version
        assert self.place.packages(local=self.local) == [self.source]
        left = [path for path in self.base.rglob(".tau-staging-*") if ".git" not in path.parts[:-1]]
        assert left == [], left
        lock = json.loads((self.base / "packages.lock.json").read_text())["packages"]
        assert all("next" not in entry for entry in lock.values()), lock

    def installs(self, moments: int) -> list[str | None]:
        """Kill the first installation, at moments spread over its time."""
        whole = self.run(*self.install)
        states: list[str | None] = []
        for number in range(moments):
            self.run("remove", self.source, *self.install[2:])
            self.run(*self.install, after=whole * (number + 0.5) / moments)
            states.append(self.check((None, VERSIONS[0])))
            self.repair(VERSIONS[0])
        return states

    def updates(self, moments: int) -> list[str | None]:
        """Kill an update from the first version to the second."""
        self.run(*self.install)
        before = self._saved()
        self.publish_second()
        whole = self.run("update")
        assert self.version() == VERSIONS[1]
        states: list[str | None] = []
        for number in range(moments):
            self._restore(before)
            assert self.version() == VERSIONS[0]
            self.run("update", after=whole * (number + 0.5) / moments)
            states.append(self.check(VERSIONS))
            self.run("update")
            self.repair(VERSIONS[1])
        return states

    def steps(self, what: str) -> dict[str, str | None]:
        """Kill an installation or an update before and after each step; returns the version after each kill."""
        self.run(*self.install)
        before = self._saved()
        self.publish_second()
        states: dict[str, str | None] = {}
        for place, count in STEPS:
            for when in ("before", "after"):
                self._restore(before)
                allowed: tuple[str | None, ...] = VERSIONS
                if what == "install":
                    self.run("remove", self.source, *self.install[2:])
                    allowed = (None, VERSIONS[1])
                words = self.install if what == "install" else ("update",)
                self.run(*words, program=[sys.executable, "-c", KILLER, place, str(count), when])
                states[f"{when} {place.removeprefix('tau.store.packages.')} {count}"] = self.check(allowed)
                self.run("update")
                self.repair(VERSIONS[1])
        return states

    def _saved(self) -> Path:
        saved = self.place.home.parent / "saved"
        saved.mkdir()
        subprocess.run(["cp", "-a", str(self.place.home), str(self.place.work), str(saved)], check=True)
        return saved

    def _restore(self, saved: Path) -> None:
        subprocess.run(["rm", "-rf", str(self.place.home), str(self.place.work)], check=True)
        subprocess.run(["cp", "-a", *map(str, saved.iterdir()), str(saved.parent)], check=True)


def main() -> None:
    moments = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    for kind, what, local in product(filter(shutil.which, SOURCES), ("installs", "updates"), (False, True)):
        name = f"{kind} {what}{' -l' if local else ''}"
        with tempfile.TemporaryDirectory() as scratch, serve_registry() as registry:
            trial = Trial(Path(scratch), kind, registry if kind == "npm" else None, local=local)
            print(f"{name}, at each step: {trial.steps(what.removesuffix('s'))}", flush=True)
        with tempfile.TemporaryDirectory() as scratch, serve_registry() as registry:
            trial = Trial(Path(scratch), kind, registry if kind == "npm" else None, local=local)
            states = getattr(trial, what)(moments)
            counts = {str(state): states.count(state) for state in dict.fromkeys(states)}
            print(f"{name}: {moments} kills, state after them: {counts}", flush=True)


if __name__ == "__main__":
    main()

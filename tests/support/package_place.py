"""A home and a project for package commands, with git repositories that example.org stands for."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from support.npm_registry import npm_variables
from tau.cli.main import main

TAU = Path(sys.executable).parent / "tau"
WITHIN = 60


class Done(NamedTuple):
    stdout: str
    stderr: str


class Place:
    """A home, a working folder, and the environment of programs in it."""

    def __init__(self, folder: Path, url: str = "http://127.0.0.1:9") -> None:
        self.home, self.work = folder / "home", folder / "work"
        self.agent = self.home / ".pi" / "agent"
        self.work.mkdir(parents=True)
        self.agent.mkdir(parents=True)
        self.env = npm_variables(self.home, url) | {
            "GIT_CONFIG_GLOBAL": str(folder / "gitconfig"),
            "GIT_CONFIG_SYSTEM": os.devnull,
        }
        for name in ("user", "author", "committer"):
            self.env |= {f"GIT_{name.upper()}_NAME": "t", f"GIT_{name.upper()}_EMAIL": "t@example.org"}
        (folder / "gitconfig").write_text(f'[url "file://{folder}/repos/"]\n\tinsteadOf = https://example.org/\n')
        self.repos = folder / "repos"

    def tau(self, *words: str, code: int = 0, **more: str) -> Done:
        """Run the program in this process: most tests are about what it does with npm and git, not about its start."""
        with pytest.MonkeyPatch.context() as patch:
            for name in os.environ.keys() - self.env.keys():
                patch.delenv(name)
            for name, value in {**self.env, **more}.items():
                patch.setenv(name, value)
            patch.chdir(self.work)
            out, err = io.TextIOWrapper(io.BytesIO()), io.TextIOWrapper(io.BytesIO())
            with redirect_stdout(out), redirect_stderr(err):
                found = main("tau", list(words))
        done = Done(*(stream.buffer.getvalue().decode() for stream in (out, err)))  # type: ignore[attr-defined]
        assert found == code, (words, done)
        return done

    def packages(self, *, local: bool = False) -> list[Any]:
        file = (self.work / ".pi" if local else self.agent) / "settings.json"
        found: list[Any] = json.loads(file.read_text())["packages"] if file.exists() else []
        return found

    def rows(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.tau("list", "--json").stdout)
        return found

    def git(self, *words: str, cwd: Path) -> None:
        subprocess.run(["git", *words], cwd=cwd, env=self.env, check=True, capture_output=True)

    def repository(self, name: str, files: Mapping[str, str]) -> Path:
        if shutil.which("git") is None:
            pytest.skip("git is not on this machine: repositories were NOT cloned")
        folder = self.repos / name
        folder.mkdir(parents=True)
        self.git("init", "-q", "-b", "main", cwd=folder)
        self.commit(folder, files)
        return folder

    def commit(self, folder: Path, files: Mapping[str, str]) -> None:
        write(folder, files)
        self.git("add", "-A", cwd=folder)
        self.git("commit", "-qm", "c", cwd=folder)


def write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


SKILL = "---\nname: {0}\ndescription: about {0}\n---\n{0}\n"

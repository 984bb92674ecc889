"""Where packages are installed: the folders of pi, so that both programs share installations.

user       <agent folder>/npm/node_modules/<name>, <agent folder>/git/<host>/<path>
project    .pi/npm/..., .pi/git/...
temporary  <agent folder>/tmp/extensions/..., for -e npm:... and -e git:..., kept for the next such run
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from tau.core.packages.sources import GitSource, LocalSource, NpmSource, Source
from tau.records.base import Value

PackageScope = Literal["user", "project", "temporary"]


class Layout(Value):
    """The folders of one scope. `base` has the settings file, and is what local paths are relative to."""

    scope: PackageScope
    base: Path
    npm: Path
    git: Path

    def folder(self, source: Source) -> Path:
        """Return where a package is, or would be."""
        match source:
            case NpmSource():
                return self.npm / "node_modules" / source.name
            case GitSource():
                # A temporary root belongs to one repository; see temporary.py.
                host = "" if self.scope == "temporary" else source.host
                return self.git / host / source.path
            case LocalSource():
                return Path(os.path.normpath(self.base / os.path.expanduser(source.path)))

    def root(self, source: Source) -> Path | None:
        """Return the folder that must contain all files of a package; None for a local one."""
        if isinstance(source, LocalSource):
            return None
        return self.npm if isinstance(source, NpmSource) else self.git

    def identity(self, source: Source) -> str:
        return f"local:{self.folder(source)}" if isinstance(source, LocalSource) else source.identity

    @property
    def lock_file(self) -> Path:
        return self.base / "packages.lock.json"


def user_layout(agent_dir: Path) -> Layout:
    return Layout("user", agent_dir, agent_dir / "npm", agent_dir / "git")


def project_layout(cwd: Path) -> Layout:
    base = cwd / ".pi"
    return Layout("project", base, base / "npm", base / "git")


def global_npm_folder() -> Path | None:
    """Where older versions of pi installed: npm's global folder, found without starting npm."""
    prefix = next((value for name in ("npm_config_prefix", "NPM_CONFIG_PREFIX") if (value := os.environ.get(name))), "")
    if not prefix:
        for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
            if os.path.isabs(folder) and os.access(os.path.join(folder, "npm"), os.X_OK):
                prefix = os.path.dirname(folder)
                break
    return Path(prefix, "lib", "node_modules") if prefix else None

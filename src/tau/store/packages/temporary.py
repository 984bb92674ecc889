"""Packages for one run: `-e npm:...` and `-e git:...`. They are kept for the next such run."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Sequence
from pathlib import Path

from tau.core.packages.sources import GitSource, LocalSource, NpmSource, parse_source
from tau.store.files import make_folder
from tau.store.packages.configured import ConfiguredPackage
from tau.store.packages.errors import PackageError
from tau.store.packages.installer import Installer
from tau.store.packages.layout import Layout
from tau.store.resource_query import PackageFile

logger = logging.getLogger(__name__)


def temporary_layout(agent_dir: Path, source: NpmSource | GitSource) -> Layout:
    """The folders of a package that one run uses. As in pi, there is one npm root, and one folder per repository."""
    base = agent_dir / "tmp" / "extensions"
    prefix, suffix = ("npm", "") if isinstance(source, NpmSource) else (f"git-{source.host}", source.path)
    digest = hashlib.sha256(f"{prefix}-{suffix}".encode()).hexdigest()[:8]
    root = base / prefix / digest
    return Layout("temporary", base, root, root)


class TemporaryPackages:
    def __init__(self, agent_dir: Path, npm_command: Sequence[str] | None) -> None:
        self._agent_dir = agent_dir
        self._npm_command = npm_command

    def files(self, text: str, *, fetches: bool) -> dict[str, list[PackageFile]]:
        """Return what a package offers, by kind. Fetches it if it is missing. Raises ValueError or OSError."""
        source = parse_source(text)
        if isinstance(source, LocalSource):
            raise ValueError("it is not a package")
        package = ConfiguredPackage(text, source, temporary_layout(self._agent_dir, source))
        if package.problem():
            if not fetches:
                raise ValueError("it is not on this machine, and nothing is fetched offline")
            self._install(package)
        contents = package.contents()
        return {
            kind: [PackageFile(Path(path), "temporary", text, contents.root) for path in paths]
            for kind, paths in contents.files(None).items()
        }

    def _install(self, package: ConfiguredPackage) -> None:
        base = package.layout.base
        make_folder(base)
        os.chmod(base, 0o700)
        logger.warning("installing %s for this run", package.text)
        try:
            Installer(package.layout, self._npm_command, lambda line: logger.info("%s", line)).install(
                package.source, lambda: None
            )
        except PackageError as error:
            raise ValueError(str(error)) from None

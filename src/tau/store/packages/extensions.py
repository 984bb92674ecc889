"""The extensions of packages, as the extension loader takes them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from tau.store.extension_files import ExtensionPath, FoundExtension, expand
from tau.store.packages.configured import ConfiguredPackage
from tau.store.packages.offers import PackageFolder
from tau.store.resource_query import PackageFile


def found_extensions(files: Iterable[PackageFile], content: Mapping[str, str] | None) -> list[FoundExtension]:
    """Return the extensions to load. `content` is what trust in the project is bound to."""
    return [_found(one, file, content) for file in files if file.used for one in _paths(file.path)]


def entries_of(package: ConfiguredPackage, place: Path, root: Path | None) -> list[Path]:
    """Return what a package could load as extensions, wherever its manifest says that these are.

    `place` is where its folder is now, `root` the folder that must contain its files; None for a local package.
    """
    contents = PackageFolder(place, within=root)
    offered = list(contents.files(package.filters, ("extensions",))["extensions"])
    if root is None and not contents.has_resources():
        offered.append(str(place))  # it may be one extension itself
    folder = package.layout.folder(package.source)
    found = [one.path for name in offered for one in _paths(Path(name))]
    return [Path(os.path.normpath(folder / os.path.relpath(path, place))) for path in found]


def _paths(path: Path) -> list[ExtensionPath]:
    """A folder in a manifest, or a local folder that is one extension, stands for what is in it."""
    if os.path.isdir(path):
        return expand(path)
    return [ExtensionPath(path)]


def _found(one: ExtensionPath, file: PackageFile, content: Mapping[str, str] | None) -> FoundExtension:
    return FoundExtension(
        one.path,
        file.scope == "temporary",
        "cli" if file.scope == "temporary" else file.scope,
        content if file.scope == "project" else None,
        file.base,
        _node_package(one, file.base),
        file.source,
        _hint(file),
    )


def _hint(file: PackageFile) -> str:
    """What to say if the extension cannot be loaded: a native module lacks its binary until a script makes it."""
    if not file.unbuilt:
        return ""
    flags = " ".join(f"--allow-scripts {name}" for name in file.unbuilt)
    return f"Install scripts that were not run may be why; to run them: tau install {file.source} {flags}"


def _node_package(one: ExtensionPath, base: Path) -> Path | None:
    """The folder with all modules of an extension for Node. One in Python is a file or a folder of its own."""
    return base if one.needs_node and os.path.isdir(base) else None

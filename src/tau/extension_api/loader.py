"""Imports the file or package of an extension, as a module with a private name.

Only sources are used: bytecode beside them is not trusted, so it is neither read nor written. The folder is not put on
sys.path, where its modules could shadow others, or be shadowed; an extension of several files is a package, and its
files use relative imports.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import Any

from tau.concurrency.tasks import failure_of
from tau.errors import ExtensionFailure

MODULE_NAME = "tau_extension"


class ModuleSources:
    """The modules of an extension: `digests` has the SHA-256 of every file that may be imported, by path.

    What has been compiled is kept: the modules are executed again for each session, whatever has become of their files.
    """

    def __init__(self, digests: Mapping[str, str]) -> None:
        self._digests = digests
        self._compiled: dict[str, CodeType] = {}
        sys.meta_path.insert(0, PackageFinder(self))

    def has(self, file: Path) -> bool:
        return str(file) in self._compiled or os.path.isfile(file)

    def code(self, path: str, loader: SourceFileLoader) -> CodeType:
        """Compile exactly the bytes whose digest was checked, so that a file cannot change between check and use."""
        if path not in self._compiled:
            data = loader.get_data(path)
            if self._digests.get(path) != sha256(data).hexdigest():
                raise ImportError(f"{path} changed since the extension was loaded; reload to use the new version")
            self._compiled[path] = loader.source_to_code(data, path)
        return self._compiled[path]


def load_setup(path: str, sources: ModuleSources) -> Callable[[Any], Any]:
    """Execute the modules of an extension and return its `setup` function. Raises ExtensionFailure with file and line.

    Modules of an earlier execution are used no longer, except by what still runs.
    """
    file = Path(path) / "__init__.py" if os.path.isdir(path) else Path(path)
    for name in [name for name in sys.modules if name.startswith(f"{MODULE_NAME}.")]:
        del sys.modules[name]
    spec = _spec(MODULE_NAME, file, sources)
    module = module_from_spec(spec)
    sys.modules[MODULE_NAME] = module
    try:
        _execute(module, spec)
    except SyntaxError as error:
        raise ExtensionFailure(f"{error.filename}:{error.lineno}: {error.msg}") from None
    except BaseException as error:
        raise ExtensionFailure(describe_error(failure_of(error), path)) from None
    setup: Callable[[Any], Any] | None = getattr(module, "setup", None)
    if not callable(setup):
        raise ExtensionFailure(f"{file} has no function setup(pi)")
    return setup


def describe_error(error: BaseException, path: str) -> str:
    """Return the text of an error and the location in the extension, for display."""
    place = error_location(error, path)
    return f"{error_text(error)} ({place})" if place else error_text(error)


def error_text(error: BaseException) -> str:
    """Return the text of an exception, with its type where the text alone means little."""
    message = str(error)
    if isinstance(error, ExtensionFailure) or (
        message and not isinstance(error, KeyError | AssertionError | StopIteration)
    ):
        return message
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def error_location(error: BaseException, path: str) -> str | None:
    """Return the innermost line of the extension in the traceback, as file:line."""
    at: TracebackType | None = error.__traceback__
    lines = [
        f"{frame.filename}:{frame.lineno}" for frame in traceback.extract_tb(at) if frame.filename.startswith(path)
    ]
    return lines[-1] if lines else None


def _execute(module: ModuleType, spec: ModuleSpec) -> None:
    assert spec.loader is not None
    spec.loader.exec_module(module)


def _spec(name: str, file: Path, sources: ModuleSources) -> ModuleSpec:
    places = [str(file.parent)] if file.name == "__init__.py" else None
    loader = VerifiedSourceLoader(name, str(file), sources)
    spec = spec_from_file_location(name, file, loader=loader, submodule_search_locations=places)
    assert spec is not None
    return spec


class VerifiedSourceLoader(SourceFileLoader):
    """Loads a module of an extension from its checked source."""

    def __init__(self, name: str, path: str, sources: ModuleSources) -> None:
        super().__init__(name, path)
        self._sources = sources

    def get_code(self, fullname: str) -> CodeType:
        return self._sources.code(self.get_filename(fullname), self)


class PackageFinder:
    """Meta path finder for the modules of the extension's own package."""

    def __init__(self, sources: ModuleSources) -> None:
        self._sources = sources

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(f"{MODULE_NAME}.") or path is None:
            return None
        last = fullname.rpartition(".")[2]
        for folder in map(Path, path):
            for file in (folder / last / "__init__.py", folder / f"{last}.py"):
                if self._sources.has(file):
                    return _spec(fullname, file, self._sources)
        return None

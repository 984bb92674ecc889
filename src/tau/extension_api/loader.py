"""Import the file or package of an extension, as a module that nobody else can meet.

Only sources count: bytecode that lies beside them may be anybody's, so it is
neither read nor written. The folder is not put on the path, where it would stand
before or behind modules of the same names; an extension of several files is a
package, and its files import each other with a dot.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import Any

from tau.errors import ExtensionFailure

NAME = "tau_extension"


def load(path: str, modules: Mapping[str, str]) -> Callable[[Any], Any]:
    """The function `setup` of an extension. What goes wrong is an ExtensionFailure that names file and line.

    `modules` has the SHA-256 of every file that may be imported, by its path.
    """
    file = Path(path) / "__init__.py" if Path(path).is_dir() else Path(path)
    spec = _spec(NAME, file, modules)
    module = module_from_spec(spec)
    sys.modules[NAME] = module
    sys.meta_path.insert(0, Inside(modules))
    try:
        _execute(module, spec)
    except SyntaxError as error:
        raise ExtensionFailure(f"{error.filename}:{error.lineno}: {error.msg}") from None
    except Exception as error:
        raise ExtensionFailure(told(error, path)) from None
    setup: Callable[[Any], Any] | None = getattr(module, "setup", None)
    if not callable(setup):
        raise ExtensionFailure(f"{file} has no function setup(pi)")
    return setup


def told(error: BaseException, path: str) -> str:
    """What happened and where in the extension it did, for people."""
    place = where(error, path)
    return f"{text(error)} ({place})" if place else text(error)


def text(error: BaseException) -> str:
    """The words of an exception; its name where the words alone mean nothing."""
    words = str(error)
    if isinstance(error, ExtensionFailure) or (
        words and not isinstance(error, KeyError | AssertionError | StopIteration)
    ):
        return words
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


def where(error: BaseException, path: str) -> str | None:
    """The last line of the extension that took part, as file:line."""
    at: TracebackType | None = error.__traceback__
    lines = [
        f"{frame.filename}:{frame.lineno}" for frame in traceback.extract_tb(at) if frame.filename.startswith(path)
    ]
    return lines[-1] if lines else None


def _execute(module: ModuleType, spec: ModuleSpec) -> None:
    assert spec.loader is not None
    spec.loader.exec_module(module)


def _spec(name: str, file: Path, modules: Mapping[str, str]) -> ModuleSpec:
    places = [str(file.parent)] if file.name == "__init__.py" else None
    loader = FromSource(name, str(file), modules)
    spec = spec_from_file_location(name, file, loader=loader, submodule_search_locations=places)
    assert spec is not None
    return spec


class FromSource(SourceFileLoader):
    """Compiles exactly the bytes that it has compared, so that no change between the two goes unseen."""

    def __init__(self, name: str, path: str, modules: Mapping[str, str]) -> None:
        super().__init__(name, path)
        self._modules = modules

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        data = self.get_data(path)
        if self._modules.get(path) != sha256(data).hexdigest():
            raise ImportError(f"{path} changed since the extension was loaded; reload to use the new version")
        return self.source_to_code(data, path)


class Inside:
    """Finds the modules of the extension's own package."""

    def __init__(self, modules: Mapping[str, str]) -> None:
        self._modules = modules

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(f"{NAME}.") or path is None:
            return None
        last = fullname.rpartition(".")[2]
        for folder in map(Path, path):
            for file in (folder / last / "__init__.py", folder / f"{last}.py"):
                if file.is_file():
                    return _spec(fullname, file, self._modules)
        return None

"""Quick imports: load the compiled modules of large packages without searching for them.

Python looks for a module in every way it knows: it lists folders, tries endings, and builds paths again and again, a
third of what loading a small module costs. In these packages a module is where its name says. So its compiled file
is opened first, and used if it belongs to the source file as it is now, by the same rule as Python's. In every other
case Python's own search goes on as if this were not here.
"""

from __future__ import annotations

import marshal
import os
import sys
from collections.abc import Sequence
from importlib._bootstrap_external import MAGIC_NUMBER  # importlib.util has it too, but would have to be loaded
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import CodeType, ModuleType

PACKAGES = ("tau.", "asyncio.")
HEADER = 16  # bytes: magic number, flags, time of change and size of the source file


class CompiledLoader(SourceFileLoader):
    """A loader that has read the compiled code already. It lives as long as the module, the bytes do not."""

    def __init__(self, name: str, path: str, code: bytes) -> None:
        self.name = name
        self.path = path
        self._code = code

    def get_code(self, fullname: str) -> CodeType | None:
        data, self._code = self._code, b""
        if not data:
            return super().get_code(fullname)
        code: CodeType = marshal.loads(memoryview(data)[HEADER:])
        return code


class CompiledFinder:
    """A finder for the modules of PACKAGES."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if path is None or not name.startswith(PACKAGES):
            return None
        folder, last = path[0], name[name.rfind(".") + 1 :]
        return _found(name, folder, last, None) or _found(name, f"{folder}/{last}", "__init__", f"{folder}/{last}")


def _found(name: str, folder: str, file: str, package: str | None) -> ModuleSpec | None:
    source, compiled = f"{folder}/{file}.py", f"{folder}/__pycache__/{file}.{sys.implementation.cache_tag}.pyc"
    try:
        handle = os.open(compiled, os.O_RDONLY | os.O_CLOEXEC)
        try:
            data = os.read(handle, os.fstat(handle).st_size)
        finally:
            os.close(handle)
        state = os.stat(source)
    except OSError:
        return None
    expected = b"%b\0\0\0\0%b%b" % (
        MAGIC_NUMBER,
        (int(state.st_mtime) & 0xFFFFFFFF).to_bytes(4, "little"),
        (state.st_size & 0xFFFFFFFF).to_bytes(4, "little"),
    )
    if not data.startswith(expected):
        return None
    spec = ModuleSpec(name, CompiledLoader(name, source, data), origin=source, is_package=package is not None)
    spec.has_location = True
    spec.cached = compiled
    if package is not None:
        spec.submodule_search_locations = [package]
    return spec


def install() -> None:
    """Search quickly from now on, if nothing about imports is unusual."""
    if sys.flags.optimize == 0 and sys.pycache_prefix is None and CompiledFinder not in sys.meta_path:
        sys.meta_path.insert(0, CompiledFinder)

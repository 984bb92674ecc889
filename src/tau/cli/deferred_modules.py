"""Deferred modules: loaded when one of their names is first used, not when they are imported.

Libraries import at their top what they rarely need: asyncio imports `ssl` and `inspect`, msgspec imports the module
that makes JSON schemas. Loading all of that is a sixth of a start. A deferred module is a placeholder in
`sys.modules`, which importers keep. At the first access to an attribute it loads the real module, and from then on it
has the same names.
"""

from __future__ import annotations

import os
import sys
from _thread import allocate_lock
from types import ModuleType
from typing import Any

# Each is imported as a whole (`import x`) at the top of the modules in the comment. `from x import name` would load it.
DEFERRED = (
    "asyncio.sslproto",  # asyncio
    "base64",  # tau
    "copy",  # tau
    "glob",  # tau
    "inspect",  # asyncio
    "ipaddress",  # urllib.parse
    "json",  # tau
    "linecache",  # asyncio
    "locale",  # subprocess
    "mmap",  # tau
    "msgspec.inspect",  # msgspec
    "msgspec.msgpack",  # msgspec
    "msgspec.toml",  # msgspec
    "msgspec.yaml",  # msgspec
    "pkgutil",  # tau
    "platform",  # uuid, which msgspec imports
    "ssl",  # asyncio
    "textwrap",  # msgspec
    "traceback",  # asyncio, logging
    "zlib",  # tau
)


def _extract_stack(frame: Any, limit: int | None = None) -> Any:
    _ = sys.modules["traceback"].StackSummary  # only the real module has it
    return sys.modules["traceback"].extract_stack(frame, limit)


# Names that are used at every start, and what they are until the module is loaded.
UNTIL_LOADED: dict[str, dict[str, Any]] = {
    "ssl": {"SSLSocket": ()},  # asyncio asks of every socket if it is one
    "traceback": {"extract_stack": _extract_stack},  # asyncio keeps it, for its debug mode
    "platform": {"system": lambda: os.uname().sysname},  # uuid asks for it when it is imported
}


_replacing = allocate_lock()


class DeferredModule(ModuleType):
    """A placeholder for a module."""

    def __getattr__(self, name: str) -> Any:
        real = _load(self)
        for known in UNTIL_LOADED.get(self.__name__, ()):
            self.__dict__.pop(known, None)
        self.__dict__.update(vars(real))
        return getattr(real, name)


def _load(placeholder: DeferredModule) -> ModuleType:
    """Import the real module. When several threads do, the lock that Python has for each module makes them wait."""
    name = placeholder.__name__
    with _replacing:
        if sys.modules.get(name) is placeholder:
            del sys.modules[name]
    __import__(name)
    return sys.modules[name]


def defer(names: tuple[str, ...] = DEFERRED) -> None:
    """Defer these modules, except those that are loaded already."""
    for name in names:
        if name not in sys.modules:
            placeholder = DeferredModule(name)
            placeholder.__dict__.update(UNTIL_LOADED.get(name, {}))
            sys.modules[name] = placeholder

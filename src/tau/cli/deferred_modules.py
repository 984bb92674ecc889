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
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

# Each is imported as a whole (`import x`) at the top of the modules in the comment. `from x import name` would load it.
DEFERRED = (
    "asyncio.format_helpers",  # asyncio
    "asyncio.sslproto",  # asyncio
    "asyncio.staggered",  # asyncio
    "asyncio.trsock",  # asyncio
    "base64",  # tau
    "binascii",  # tau
    "concurrent.futures",  # asyncio
    "copy",  # tau
    "datetime",  # msgspec
    "difflib",  # tau
    "fnmatch",  # pathlib
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
    "ntpath",  # pathlib
    "pkgutil",  # tau
    "platform",  # uuid, which msgspec imports
    "shlex",  # tau
    "shutil",  # tau
    "ssl",  # asyncio
    "subprocess",  # asyncio
    "tempfile",  # tau
    "textwrap",  # msgspec
    "traceback",  # asyncio, logging
    "zlib",  # tau
    *(("asyncio.graph",) if sys.version_info >= (3, 14) else ()),  # asyncio; its dataclasses need `inspect`
)


def _extract_stack(f: Any = None, limit: int | None = None) -> Any:
    _ = sys.modules["traceback"].StackSummary  # only the real module has it
    return sys.modules["traceback"].extract_stack(sys._getframe(1) if f is None else f, limit)


def _datetime() -> dict[str, Any]:
    """The public names, without the second implementation in Python that the module has."""
    found = vars(__import__("_datetime"))
    return {"UTC": found["timezone"].utc, **{name: value for name, value in found.items() if name[0] != "_"}}


def _call_graph() -> dict[str, Any]:
    """What asyncio imports from the module, as functions that load it, and the name by which asyncio knows it."""

    def load_and_call(name: str) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            _ = sys.modules["asyncio.graph"].__file__  # only the real module has it
            return getattr(sys.modules["asyncio.graph"], name)(*args, **named)

        return call

    functions = ("capture_call_graph", "format_call_graph", "print_call_graph")
    classes = ("FrameCallGraphEntry", "FutureCallGraph")
    names: dict[str, Any] = {name: load_and_call(name) for name in (*functions, *classes)}
    return {**names, "graph": SimpleNamespace(__all__=(*names,)), "__all__": (*names, "graph")}


# Names that are used at every start, and what they are until the module is loaded.
UNTIL_LOADED: dict[str, Callable[[], dict[str, Any]]] = {
    "asyncio.graph": _call_graph,
    "concurrent.futures": lambda: {name: name for name in ("ALL_COMPLETED", "FIRST_COMPLETED", "FIRST_EXCEPTION")},
    "datetime": _datetime,
    "platform": lambda: {"system": lambda: os.uname().sysname},  # uuid asks for it when it is imported
    "ssl": lambda: {"SSLSocket": ()},  # asyncio asks of every socket if it is one
    "subprocess": lambda: {"DEVNULL": -3, "PIPE": -1, "STDOUT": -2},
    "traceback": lambda: {"extract_stack": _extract_stack},  # asyncio keeps it, for its debug mode
}


_replacing = allocate_lock()


class DeferredModule(ModuleType):
    """A placeholder for a module."""

    def __getattr__(self, name: str) -> Any:
        if name == "__path__" and self.__name__ in UNTIL_LOADED:  # asked for by `from x import name`; no package here
            raise AttributeError(name)
        real = _load(self)
        self.__dict__.update(vars(real))  # instead of what it had until now, too
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
            if name in UNTIL_LOADED:
                placeholder.__dict__.update(UNTIL_LOADED[name]())
            sys.modules[name] = placeholder
            if name == "concurrent.futures":
                vars(__import__("concurrent"))["futures"] = placeholder  # where importers look for it

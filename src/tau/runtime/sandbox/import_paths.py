"""Import paths: folders from which tau, started again, or one of its extension processes would load code.

Code that sandboxed commands write there would run outside the sandbox: a module that shadows another one, or
`sitecustomize`, which Python imports at every start from wherever it finds it. Folders that do not exist yet count,
too, if Python would search them once they are created.
"""

from __future__ import annotations

import os
import site
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

MAX_PTH_BYTES = 1 << 20
CUSTOMIZATION_MODULES = ("sitecustomize", "usercustomize")
OWN_ENVIRONMENT = "Install tau in an environment of its own, for example with pipx"


class CodePath(NamedTuple):
    path: str  # real path
    loader: str  # the program that searches it, as the beginning of a sentence
    remedy: str  # a sentence without its full stop


def code_paths(folders: Sequence[str], environment: Mapping[str, str] = os.environ) -> Iterator[CodePath]:
    """Yield all such folders and files.

    `folders` are those in which tau or an extension process may be started; relative paths are resolved from each.
    """
    for entry, remedy in (*_module_folders(environment), *_named_by_site()):
        yield from (CodePath(path, "Python looks for modules in", remedy) for path in _real(entry, folders))
    if sys.pycache_prefix:
        remedy = "Start it without PYTHONPYCACHEPREFIX"
        yield from (
            CodePath(path, "Python caches compiled modules in", remedy) for path in _real(sys.pycache_prefix, folders)
        )
    for name in ("LD_LIBRARY_PATH", "LD_PRELOAD"):
        for entry in _linked(name, environment):
            yield from (
                CodePath(path, "Programs load libraries from", f"Start it without that folder in {name}")
                for path in _real(entry, folders)
            )


def is_importable(place: str, entry: str) -> bool:
    """True if `place`, a folder in an entry of sys.path, has the name of a module that Python or tau imports."""
    folder, name = os.path.split(place)
    return folder == entry and (name in CUSTOMIZATION_MODULES or name in sys.stdlib_module_names or name in sys.modules)


def _module_folders(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield entries of sys.path, and of PYTHONPATH, which -I hides from us but not from extension processes."""
    given = environment.get("PYTHONPATH")
    named = given.split(os.pathsep) if given else []
    for entry in named:
        yield entry, "Start it without that folder in PYTHONPATH"
    absolute = {os.path.abspath(entry) for entry in named}
    # The empty entry is this process's working folder; extension processes, which run elsewhere, do not have it.
    for position, entry in enumerate(place or os.getcwd() for place in sys.path):
        if position == 0 and not sys.flags.safe_path and os.path.abspath(entry) not in absolute:
            yield entry, "Start it with -P, or from another folder"
        else:
            yield entry, OWN_ENVIRONMENT


def _named_by_site() -> Iterator[tuple[str, str]]:
    """Yield the user's site-packages and the folders named in `.pth` files.

    sys.path is not enough, because Python leaves out folders that do not exist yet.
    """
    places = [entry for entry in sys.path if entry.endswith("-packages")]
    if (users := _users_packages()) is not None:
        yield users, "Do not grant that folder, or set PYTHONNOUSERSITE=1"
        places.append(users)
    for place in dict.fromkeys(places):
        yield from ((entry, OWN_ENVIRONMENT) for entry in _named_by_pth(place))


def _users_packages() -> str | None:
    """Return the user's site-packages; None if Python does not search it.

    That is so with PYTHONNOUSERSITE, and in a virtual environment that does not see the system's packages.
    """
    if os.environ.get("PYTHONNOUSERSITE"):
        return None
    isolated = sys.prefix != sys.base_prefix and not any(
        entry.endswith("-packages") and not entry.startswith(sys.prefix + "/") for entry in sys.path
    )
    return None if isolated else site.getusersitepackages()


def _named_by_pth(folder: str) -> Iterator[str]:
    names: list[str] = []
    with suppress(OSError):
        names = [name for name in os.listdir(folder) if name.endswith(".pth")]
    for name in names:
        with suppress(OSError), open(os.path.join(folder, name), "rb") as file:
            for line in file.read(MAX_PTH_BYTES).decode("utf-8", "replace").splitlines():
                entry = line.rstrip()
                if entry and not entry.startswith(("#", "import ", "import\t")) and "\0" not in entry:
                    yield os.path.join(folder, entry)


def _linked(name: str, environment: Mapping[str, str]) -> Iterator[str]:
    """Yield what the dynamic linker searches or loads. An empty entry of LD_LIBRARY_PATH is the current folder."""
    text = environment.get(name)
    if not text:
        return
    if name == "LD_PRELOAD":
        yield from (entry for entry in text.replace(":", " ").split() if "/" in entry)
    else:
        yield from text.replace(";", ":").split(":")


def _real(entry: str, folders: Sequence[str]) -> Iterator[str]:
    if os.path.isabs(entry):
        yield os.path.realpath(entry)
    else:
        yield from dict.fromkeys(os.path.realpath(os.path.join(folder, entry)) for folder in folders)

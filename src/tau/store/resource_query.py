"""The query for resources: which to find, and where.

Separate from resources.py, because every session has a query, but many never search.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from tau.records.base import Value


class RequestedResources(Value):
    """Resources requested on the command line. The `no_` switches do not exclude what is named explicitly."""

    system: str | None = None  # a text, or the path of a file
    appended: Sequence[str] = ()
    skills: Sequence[str] = ()
    templates: Sequence[str] = ()
    no_skills: bool = False
    no_templates: bool = False
    no_context: bool = False
    themes: Sequence[str] = ()
    no_themes: bool = False


class PackageFile(Value):
    """A file that a package offers. `source` is what settings call the package, `base` its folder."""

    path: Path
    scope: Literal["user", "project", "temporary"]
    source: str
    base: Path
    used: bool = True  # False if the filters of the settings turn it off
    whole: bool = False  # a local folder or file that is one extension
    unbuilt: Sequence[str] = ()  # packages it needs whose install scripts were not run


class PackageResources(Value):
    """All files of packages by kind, in the order in which they are loaded, and problems with packages."""

    files: Mapping[str, Sequence[PackageFile]]
    problems: Sequence[str] = ()

    def used(self, kind: str) -> list[PackageFile]:
        return [one for one in self.files.get(kind, ()) if one.used]


NO_PACKAGES = PackageResources({})


def is_remote(text: str) -> bool:
    """True for a source of a package that is fetched; a path is not."""
    return text.startswith(("npm:", "git:", "github:", "http:", "https:", "ssh:"))


class ResourceQuery(Value):
    """The locations in which a session searches for resources."""

    cwd: str
    agent_dir: Path
    trusted: bool = False
    requested: RequestedResources = RequestedResources()
    skills: Sequence[str] = ()  # path lists of settings, absolute
    prompts: Sequence[str] = ()
    skill_commands: bool = True
    content: Mapping[str, str] | None = None  # what trust is bound to, see trust.Decision
    confined: bool = False  # sandboxed commands write to the project but must not gain read access through it
    packages: Callable[[], PackageResources] | None = None  # finds what packages offer; None if there are none
    start: str = ""  # the folder to which what is requested is relative, if it is not `cwd`

    @property
    def must_stay_inside(self) -> bool:
        """True if files of the project must be inside it: a link could send the user's own files to a model."""
        return self.confined or not self.trusted

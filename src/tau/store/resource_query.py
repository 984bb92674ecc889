"""The query for resources: which to find, and where.

Separate from resources.py, because every session has a query, but many never search.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

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

    @property
    def must_stay_inside(self) -> bool:
        """True if files of the project must be inside it: a link could send the user's own files to a model."""
        return self.confined or not self.trusted

"""What to look for, and where. Apart from `resources.py`, because every session says this and many never look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tau.records.base import Value


class Requested(Value):
    """What the command line says. The switches do not keep away what is named beside them."""

    system: str | None = None  # a text, or a file with it
    appended: Sequence[str] = ()
    skills: Sequence[str] = ()
    templates: Sequence[str] = ()
    no_skills: bool = False
    no_templates: bool = False
    no_context: bool = False


class Sought(Value):
    cwd: str
    agent_dir: Path
    trusted: bool = False
    requested: Requested = Requested()
    skills: Sequence[str] = ()  # entries of settings, absolute
    prompts: Sequence[str] = ()
    skill_commands: bool = True
    content: Mapping[str, str] | None = None  # what trust is bound to, see trust.Decision
    confined: bool = False  # commands write here that may not read what we can

    @property
    def bound(self) -> bool:
        """Whether files of the project must lie in it, for a link could bring the user's own to a model."""
        return self.confined or not self.trusted

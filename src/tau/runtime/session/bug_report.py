"""A bug report as a zip file for the user to look at: versions, settings and the session, redacted. Sends nothing."""

from __future__ import annotations

import io
import json
import os
import platform
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tau import __version__
from tau.core.checks.redaction import Redaction
from tau.runtime.clock import iso
from tau.runtime.history.html_export import write_export
from tau.runtime.session.session import Session

TERMINAL_VARIABLES = (
    "TERM",
    "TERM_PROGRAM",
    "TERM_PROGRAM_VERSION",
    "COLORTERM",
    "LANG",
    "LC_ALL",
    "NO_COLOR",
    "SHELL",
)
PRESENT_VARIABLES = ("TMUX", "STY", "SSH_CONNECTION", "WSL_DISTRO_NAME")  # only whether they are set


def write_bug_report(session: Session, description: str, *, with_texts: bool) -> Path:
    """Write the file into the working directory and return its path. Blocks."""
    secrets = session.models.keys.known_secrets()
    home = os.path.expanduser("~")
    redaction = Redaction(secrets, home)
    entries = Redaction(secrets, home, keep_text=with_texts)
    files = {
        "report.md": _report(session, redaction.text(description), os.environ),
        "settings.json": _as_json(redaction.value(_settings(session))),
        "session.jsonl": "".join(
            json.dumps(entries.value(json.loads(line)), ensure_ascii=False) + "\n"
            for line in session.log.tree.after(None)
        ),
    }
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text.encode("utf-8", "backslashreplace"))
    name = f"tau-bug-{iso()[:19].replace(':', '-')}.zip"
    return write_export([data.getvalue()], Path(session.services.cwd, name))


def _report(session: Session, description: str, environment: Mapping[str, str]) -> str:
    model = session.models.current
    rows = {
        "tau": __version__,
        "Python": platform.python_version(),
        "system": platform.platform(),
        "model": f"{model.provider}/{model.id} ({model.api})" if model else "none",
        "thinking": session.models.level,
        "mode": session.services.mode,
        "sandbox": session.services.sandbox or "none",
        "entries": str(len(session.log.tree)),
        **{name: environment[name] for name in TERMINAL_VARIABLES if name in environment},
        **{name: "set" for name in PRESENT_VARIABLES if environment.get(name)},
    }
    table = "".join(f"- {name}: {value}\n" for name, value in rows.items())
    return f"# Bug report\n\n{description or '(Describe here what happened, and what you expected.)'}\n\n{table}"


def _settings(session: Session) -> Any:
    """The user's settings file as it is written."""
    file = session.services.settings_file
    try:
        return json.loads(file.path.read_text(encoding="utf-8")) if file is not None else {}
    except (OSError, ValueError):
        return {}


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"

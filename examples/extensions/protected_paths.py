"""Keeps the tools that write away from files they must not touch.

It guards `write` and `edit`. A shell command can write anywhere: see permission_gate.py.
"""

from fnmatch import fnmatch
from pathlib import Path

from tau.extension import Context, Event, Pi

PROTECTED = (".env", ".env.*", ".git", "node_modules", "*.pem", "*.key", "id_*")


def setup(pi: Pi) -> None:
    @pi.on("tool_call")
    def protect(event: Event, ctx: Context) -> dict[str, object] | None:
        if event.tool_name not in ("write", "edit"):
            return None
        path = (Path(ctx.cwd) / Path(str(event.input.get("path", ""))).expanduser()).resolve()
        for part in path.parts:
            for pattern in PROTECTED:
                if fnmatch(part, pattern):
                    return {"block": True, "reason": f"{path} is protected ({pattern}). Ask the user to change it."}
        return None

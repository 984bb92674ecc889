"""Asks before a command that is hard to undo. Without a user to ask, the command does not run."""

import re

from tau.extension import Context, Event, Pi

DANGEROUS = re.compile(
    r"\brm\s+(-\w*[rf]|--recursive|--force)|\bsudo\b|\bgit\s+(push\b.*(-f\b|--force)|reset\s+--hard|clean\s+-\w*f)"
    r"|\bmkfs|\bdd\b.*\bof=|\bchmod\s+-R|\b(curl|wget)\b.*\|\s*(ba|z)?sh\b"
)


def setup(pi: Pi) -> None:
    @pi.on("tool_call")
    async def ask_first(event: Event, ctx: Context) -> dict[str, object] | None:
        if event.tool_name != "bash":
            return None
        command = event.input.get("command", "")
        if not DANGEROUS.search(command):
            return None
        if not ctx.has_ui:
            return {"block": True, "reason": "This command is dangerous, and there is no user to allow it."}
        if await ctx.ui.confirm("Run this command?", command):
            return None
        return {"block": True, "reason": "The user does not want this command to run."}

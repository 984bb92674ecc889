"""tau extension new NAME: a file to begin an extension with."""

from __future__ import annotations

import re
from pathlib import Path

from tau.cli.flags import Given
from tau.errors import UsageError
from tau.runtime.terminal import say

USAGE = 'Say: tau extension new NAME. It writes NAME.py here; "tau --mode rpc -e NAME.py" tries it.'
STARTER = '''"""{title}: what this extension is for.

Try it with  tau --mode rpc -e {file}  and move it to ~/.pi/agent/extensions (for you, everywhere) or
to .pi/extensions (for everybody in a project they trust). docs/extensions.md has all there is.
"""

from tau.extension import CommandContext, Context, Event, Pi


def setup(pi: Pi) -> None:
    @pi.on("session_start")
    def start(event: Event, ctx: Context) -> None:
        ctx.ui.notify("{title} is here", "info")

    # Returning {{"block": True, "reason": ...}} keeps a tool from running; so does raising.
    @pi.on("tool_call")
    async def gate(event: Event, ctx: Context) -> dict[str, object] | None:
        if event.tool_name == "bash" and "rm -rf /" in event.input["command"]:
            return {{"block": True, "reason": "Never."}}
        return None

    # The model can call this. Annotations become its schema, the docstring its description.
    @pi.tool
    def {name}_greet(who: str) -> str:
        """Greet somebody."""
        return f"Hello, {{who}}!"

    # The user can say /{title} something.
    @pi.command("{title}", description="Say something")
    async def command(args: str, ctx: CommandContext) -> None:
        ctx.ui.notify(args or "Say what?", "info")
'''


def main(given: Given) -> int:
    words = list(given.words[1:])
    if len(words) != 2 or words[0] != "new":
        raise UsageError(USAGE)
    title = words[1].removesuffix(".py")
    if not re.fullmatch(r"[A-Za-z][\w-]*", title, re.ASCII):
        raise UsageError(f'"{words[1]}" is no name for an extension: letters, digits, - and _, beginning with a letter')
    file = Path(f"{title}.py")
    try:
        with file.open("x", encoding="utf-8") as new:
            new.write(STARTER.format(title=title, name=title.replace("-", "_"), file=file))
    except FileExistsError:
        raise UsageError(f"{file} is there already") from None
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}") from None
    say(f"Wrote {file}. Try it: tau --mode rpc -e {file}")
    return 0

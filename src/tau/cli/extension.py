"""`tau extension new NAME`: write a template for an extension."""

from __future__ import annotations

import re
from pathlib import Path

from tau.cli.flags import ParsedArguments
from tau.errors import UsageError
from tau.runtime.terminal import say

USAGE = 'Usage: tau extension new NAME. It writes NAME.py here; try it with "tau -e NAME.py".'
STARTER = '''"""{title}: what this extension is for.

Try it with  tau -e {file}  and move it to ~/.pi/agent/extensions (for you, everywhere) or
to .pi/extensions (for everyone who trusts the project). docs/extensions.md describes the whole API.
"""

from tau.extension import CommandContext, Context, Event, Pi


def setup(pi: Pi) -> None:
    @pi.on("session_start")
    def start(event: Event, ctx: Context) -> None:
        ctx.ui.notify("{title} is loaded", "info")

    # Returning {{"block": True, "reason": ...}} blocks a tool call; so does an exception.
    @pi.on("tool_call")
    async def gate(event: Event, ctx: Context) -> dict[str, object] | None:
        if event.tool_name == "bash" and "rm -rf /" in event.input["command"]:
            return {{"block": True, "reason": "Never."}}
        return None

    # The model can call this. Annotations become its schema, the docstring its description.
    @pi.tool
    def {name}_greet(who: str) -> str:
        """Greet a person."""
        return f"Hello, {{who}}!"

    # The user can type /{title} something.
    @pi.command("{title}", description="Say something")
    async def command(args: str, ctx: CommandContext) -> None:
        ctx.ui.notify(args or "Say what?", "info")
'''


def main(arguments: ParsedArguments) -> int:
    words = list(arguments.words[1:])
    if len(words) != 2 or words[0] != "new":
        raise UsageError(USAGE)
    title = words[1].removesuffix(".py")
    if not re.fullmatch(r"[A-Za-z][\w-]*", title, re.ASCII):
        raise UsageError(f'"{words[1]}" is not a valid name: use letters, digits, - and _, starting with a letter')
    file = Path(f"{title}.py")
    try:
        with file.open("x", encoding="utf-8") as new:
            new.write(STARTER.format(title=title, name=title.replace("-", "_"), file=file))
    except FileExistsError:
        raise UsageError(f"{file} already exists") from None
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}") from None
    say(f"Wrote {file}. Try it: tau -e {file}")
    return 0

"""An extension with annotations: what is decorated keeps its type, and what is asked for has one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, assert_type

from tau.extension import CommandContext, Context, Event, Pi


def setup(pi: Pi) -> None:
    @pi.on("session_start")
    def started(event: Event, ctx: Context) -> None:
        assert_type(event.reason, Any)
        assert_type(event["reason"], Any)
        assert_type(ctx.cwd, str)

    @pi.tool
    def double(number: int) -> int:
        """Twice a number."""
        return 2 * number

    @pi.tool(name="half", description="Half of a number")
    async def halve(number: int, ctx: Context) -> str:
        return "" if ctx.cancelled else str(number // 2)

    @pi.command("go", description="Go elsewhere")
    async def go(args: str, ctx: CommandContext) -> None:
        assert_type(await ctx.ui.select("Where to?", ["here", "there"]), str | None)
        await ctx.new_session()

    assert_type(double(2), int)
    plain: Callable[[Event, Context], None] = pi.on("agent_end", started)
    pi.off(plain)
    pi.register_command("again", go)

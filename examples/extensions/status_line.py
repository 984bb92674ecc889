"""A status line: what the agent does now, how many turns it took, and how full the model's window is."""

from tau.extension import Context, Event, Pi


def setup(pi: Pi) -> None:
    def show(ctx: Context, text: str) -> None:
        ctx.ui.set_status("tau", text)

    @pi.on("session_start")
    def start(event: Event, ctx: Context) -> None:
        show(ctx, "ready")

    @pi.on("turn_start")
    def turn(event: Event, ctx: Context) -> None:
        show(ctx, f"turn {event.turn_index + 1}: {(ctx.model or {}).get('id', 'no model')} is thinking")

    @pi.on("tool_execution_start")
    def tool(event: Event, ctx: Context) -> None:
        show(ctx, f"running {event.tool_name}")

    @pi.on("agent_end")
    async def end(event: Event, ctx: Context) -> None:
        turns = sum(message["role"] == "assistant" for message in event.messages)
        usage = await ctx.get_context_usage()
        full = "" if not usage or usage["percent"] is None else f", {usage['percent']:.0f} % of the window is used"
        show(ctx, f"done in {turns} {'turn' if turns == 1 else 'turns'}{full}")

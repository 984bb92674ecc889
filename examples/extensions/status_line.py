"""A status line: what the agent does now, how many turns it took, and how full the model's window is."""


def setup(pi):
    def show(ctx, text):
        ctx.ui.set_status("tau", text)

    @pi.on("session_start")
    def start(event, ctx):
        show(ctx, "ready")

    @pi.on("turn_start")
    def turn(event, ctx):
        show(ctx, f"turn {event.turn_index + 1}: {(ctx.model or {}).get('id', 'no model')} is thinking")

    @pi.on("tool_execution_start")
    def tool(event, ctx):
        show(ctx, f"running {event.tool_name}")

    @pi.on("agent_end")
    async def end(event, ctx):
        turns = sum(message["role"] == "assistant" for message in event.messages)
        usage = await ctx.get_context_usage()
        full = "" if not usage or usage["percent"] is None else f", {usage['percent']:.0f} % of the window is used"
        show(ctx, f"done in {turns} {'turn' if turns == 1 else 'turns'}{full}")

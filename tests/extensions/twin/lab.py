"""Every dialog and everything that can be shown, as commands, and a gate before bash."""

from __future__ import annotations

import json
from typing import Any

from tau.extension_api.api import Pi
from tau.extension_api.context import CommandContext, Context, Event


def setup(pi: Pi) -> None:
    def timeout(args: str) -> int | None:
        return 400 if args == "t" else None

    def say(ctx: Context, what: str, value: Any) -> None:
        ctx.ui.notify(f"{what}=" + ("undefined" if value is None else json.dumps(value)), "info")

    @pi.command("ui-select", description="select dialog")
    async def ui_select(args: str, ctx: CommandContext) -> None:
        say(ctx, "select", await ctx.ui.select("Pick one", ["Allow", "Block"], timeout=timeout(args)))

    @pi.command("ui-confirm", description="confirm dialog")
    async def ui_confirm(args: str, ctx: CommandContext) -> None:
        said = await ctx.ui.confirm("Clear session?", "All messages will be lost.", timeout=timeout(args))
        say(ctx, "confirm", said)

    @pi.command("ui-input", description="input dialog")
    async def ui_input(args: str, ctx: CommandContext) -> None:
        say(ctx, "input", await ctx.ui.input("Enter a value", "type something...", timeout=timeout(args)))

    @pi.command("ui-editor", description="editor dialog")
    async def ui_editor(args: str, ctx: CommandContext) -> None:
        say(ctx, "editor", await ctx.ui.editor("Edit some text", "Line 1\nLine 2"))

    @pi.command("ui-fire", description="fire-and-forget methods")
    async def ui_fire(args: str, ctx: CommandContext) -> None:
        ctx.ui.notify("plain")
        ctx.ui.notify("warn", "warning")
        ctx.ui.notify("bad", "error")
        ctx.ui.set_status("lab", "busy")
        ctx.ui.set_status("lab", None)
        ctx.ui.set_widget("w", ["l1", "l2"])
        ctx.ui.set_widget("w", ["l1"], placement="belowEditor")
        ctx.ui.set_widget("w", None)
        ctx.ui.set_title("pi - lab")
        ctx.ui.set_editor_text("prefilled")

    @pi.command("boom")
    async def boom(args: str, ctx: CommandContext) -> None:
        raise RuntimeError("boom failed")

    @pi.command("send", description="send a user message")
    async def send(args: str, ctx: CommandContext) -> None:
        pi.send_user_message(f"from ext: {args}")

    @pi.command("custom-msg", description="send a custom message")
    async def custom_msg(args: str, ctx: CommandContext) -> None:
        message = {"customType": "lab", "content": f"custom {args}", "display": True, "details": {"a": 1}}
        pi.send_message(message, trigger_turn=args == "turn")

    @pi.on("tool_call")
    async def gate(event: Event, ctx: Context) -> dict[str, Any] | None:
        command = event["input"].get("command", "") if event["toolName"] == "bash" else ""
        if "explode" in command:
            raise RuntimeError("tool_call handler failed")
        if "danger" in command and not await ctx.ui.confirm("Dangerous", command):
            return {"block": True, "reason": "Blocked by user"}
        return None

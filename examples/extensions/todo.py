"""A list of things to do, for the model. It is kept in the session, so every branch has its own.

The user sees it above the editor, and with /todos.
"""

from typing import Any

from tau.extension import CommandContext, Context, Event, Pi

KEPT = "todo"


def setup(pi: Pi) -> None:
    todos: list[dict[str, Any]] = []  # of {"text", "done"}

    def shown() -> list[str]:
        return [f"[{'x' if todo['done'] else ' '}] {number}. {todo['text']}" for number, todo in enumerate(todos, 1)]

    @pi.on("session_start")
    @pi.on("session_tree")
    async def restore(event: Event, ctx: Context) -> None:
        todos.clear()
        for entry in await ctx.session.branch():
            if entry["type"] == "custom" and entry["customType"] == KEPT:
                todos[:] = entry["data"]
        ctx.ui.set_widget(KEPT, shown() or None)

    async def todo(call_id: str, params: dict[str, Any], ctx: Context) -> dict[str, object]:
        action, text, number = params["action"], params.get("text"), params.get("number", 0)
        if action == "add":
            if not text:
                raise ValueError("To add something, say its text")
            todos.append({"text": text, "done": False})
        elif action == "done":
            if not 1 <= number <= len(todos):
                raise ValueError(f"There is no todo {number}; there are {len(todos)}")
            todos[number - 1]["done"] = True
        elif action == "clear":
            todos.clear()
        if action != "list":
            pi.append_entry(KEPT, todos)
            ctx.ui.set_widget(KEPT, shown() or None)
        return {"content": "\n".join(shown()) or "Nothing to do.", "details": {"todos": todos}}

    pi.register_tool(
        name="todo",
        description="Keep a list of what is to be done: list it, add to it, mark a number as done, clear it.",
        parameters={
            "type": "object",
            "properties": {
                "action": {"type": "string", "enum": ["list", "add", "done", "clear"]},
                "text": {"type": "string", "description": "what is to be done, for add"},
                "number": {"type": "integer", "description": "which one, for done"},
            },
            "required": ["action"],
        },
        execute=todo,
        prompt_snippet="Keep a list of what is to be done",
        prompt_guidelines=[
            "For work of several steps, keep a list with the todo tool and mark each step when it is done."
        ],
    )

    @pi.command("todos", description="Show the list of things to do")
    def show(args: str, ctx: CommandContext) -> None:
        ctx.ui.notify("\n".join(shown()) or "Nothing to do.", "info")

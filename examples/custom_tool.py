"""Functions of your program as tools: the model is shown their names, docstrings and parameters.

    python examples/custom_tool.py

A script plays the model here, so that it runs offline and always calls the tools.
"""

from __future__ import annotations

import asyncio

import tau
from tau import events

STOCK = {"apples": 12, "pears": 0}


def stock(fruit: str) -> str:
    """How many of a fruit are in the warehouse.

    Args:
        fruit: its name, in the plural
    """
    if fruit not in STOCK:
        raise tau.ToolError(f"There is no {fruit} here. There are: {', '.join(STOCK)}")  # the model reads this
    return f"{STOCK[fruit]} {fruit}"


async def order(fruit: str, how_many: int, context: tau.CallContext) -> dict[str, object]:
    """Order some fruit for the warehouse."""
    for done in range(0, how_many, 5):
        context.progress(f"{done} of {how_many}")
        await asyncio.sleep(0)
    return {"ordered": fruit, "count": how_many}


SCRIPT = [
    {"blocks": [{"tool": "stock", "arguments": {"fruit": "plums"}}]},
    {"blocks": [{"tool": "stock", "arguments": {"fruit": "pears"}}]},
    {"blocks": [{"tool": "order", "arguments": {"fruit": "pears", "how_many": 10}}]},
    {"text": "There were no pears left, so I ordered ten."},
]


async def main() -> None:
    async with tau.open(script=SCRIPT, session=False, tools=["read", stock, order]) as agent:
        async for event in agent.prompt("Are there enough pears?"):
            match event:
                case events.ToolStart(tool_name=name, args=args):
                    print(f"{name}({', '.join(f'{key}={value!r}' for key, value in args.items())})")
                case events.ToolEnd(result=events.Outcome(content=[events.Text(text=text), *_])):
                    print(f"    {text}")
                case _:
                    pass
        print(agent.last_text())


if __name__ == "__main__":
    asyncio.run(main())

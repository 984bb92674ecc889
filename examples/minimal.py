"""An agent in your own program: ask it something, offline.

    python examples/minimal.py "list the files here"

`model="demo"` needs no key; leave it out, or name another, for real work.
"""

from __future__ import annotations

import asyncio
import sys

import tau


async def main(question: str) -> None:
    async with tau.open(model="demo", session=False) as agent:
        result = await agent.prompt(question)
        print(result.text)
        print(f"{len(result.messages)} messages, {result.usage.total_tokens} tokens, ${result.cost:.4f}")


if __name__ == "__main__":
    asyncio.run(main(" ".join(sys.argv[1:]) or "list the files here"))

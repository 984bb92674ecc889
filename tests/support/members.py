"""The public members of a class, and any use of one."""

from __future__ import annotations

import inspect


def members(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


async def use(handle: object, name: str) -> None:
    """Read a property, or call a method; what is wrong with the arguments comes after the refusal."""
    member = getattr(handle, name)
    result = member()
    if inspect.isawaitable(result):
        await result

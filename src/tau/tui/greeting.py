"""The first lines of the interface: version, model, the models of the scope."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tau import __version__
from tau.runtime.app.handle import SessionHandle

MAX_SCOPE = 8  # models that are named


def greeting(handle: SessionHandle, key_label: Callable[[str], str]) -> Sequence[str]:
    """Each is a notice. `key_label` returns the key of an action as people write it."""
    model = handle.models.current
    name = f"{model.provider}/{model.id}" if model else "no model"
    first = f"tau {__version__}, {name}. /help lists the commands, Ctrl+C twice exits."
    scope = scope_text([match.model.id for match in handle.models.scoped], key_label("app.model.cycleForward"))
    return (first, scope) if scope else (first,)


def scope_text(models: Sequence[str], key: str) -> str:
    """The models that `key` cycles through, if there is a scope."""
    if not models:
        return ""
    more = f" and {len(models) - MAX_SCOPE} more" if len(models) > MAX_SCOPE else ""
    return f"Model scope: {', '.join(models[:MAX_SCOPE])}{more}{f' ({key} cycles)' if key else ''}"

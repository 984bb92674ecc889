"""tau with a fault that the key F12 triggers: `python -m support.faulty_interface FAULT [arguments of pi]`."""

from __future__ import annotations

import sys
from typing import Any

from tau.cli.main import pi
from tau.core.agent.draft import Update
from tau.screen.input_events import Key
from tau.screen.painter import Painter
from tau.screen.styles import Palette
from tau.tui.interface import Interface
from tau.tui.keyboard import Keyboard
from tau.tui.view import View


class Fault(RuntimeError):
    """What breaks."""


def install(fault: str) -> None:
    handle = Keyboard.handle

    def handle_and_break(self: Keyboard, events: Any) -> None:
        if any(isinstance(event, Key) and event.id == "f12" for event in events):
            break_down(fault)
        handle(self, events)

    Keyboard.handle = handle_and_break  # type: ignore[method-assign]


def break_down(fault: str) -> None:
    def fail(*arguments: Any, **named: Any) -> Any:
        raise Fault(fault)

    on_event = Interface.on_event

    def fail_in_update(self: Interface, event: Any) -> None:
        if isinstance(event, Update):
            fail()
        on_event(self, event)

    match fault:
        case "callback":
            fail()
        case "SystemExit":
            raise SystemExit(3)
        case "painter":
            Painter.paint = fail  # type: ignore[method-assign]
            Painter.leave = fail  # type: ignore[method-assign]
        case "theme":
            Palette.render = fail  # type: ignore[method-assign]
        case "view":
            View.frame = fail  # type: ignore[method-assign]
        case "event":
            Interface.on_event = fail_in_update  # type: ignore[method-assign]


if __name__ == "__main__":
    install(sys.argv.pop(1))
    pi()

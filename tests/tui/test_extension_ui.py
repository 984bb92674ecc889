"""Extensions in the terminal interface: real processes, through the session, to what the screen shows."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from support.in_process_session import play
from support.terminal_session import TerminalSession
from tau.screen.bindings import Bindings
from tau.screen.extension_ui import WorkingLook
from tau.screen.input_events import Key
from tau.screen.lines import Span, plain_text
from tau.tui.extension_calls import ExtensionCalls, Item

EVERYTHING = """
    from tau.extension import escape_markup

    def setup(pi):
        @pi.command("all")
        def all(args, ctx):
            ui = ctx.ui
            ui.notify(f"{ctx.mode} {ctx.has_ui} {ui.get_editor_text()}", "warning")
            ui.set_status("k", ui.theme.fg("accent", "[busy]"))
            ui.set_widget("w", ["one", "two"], "belowEditor")
            ui.set_title("title")
            ui.set_working_message("Cooking")
            ui.set_working_visible(False)
            ui.set_working_indicator(["*"], 100)
            ui.set_hidden_thinking_label("Hm")
            ui.set_header(["head"])
            ui.set_footer(["foot"])
            ui.set_tools_expanded(not ui.get_tools_expanded())
            ui.notify(str([theme["name"] for theme in ui.get_all_themes()]))
            ui.notify(str(ui.get_theme("mine")))
            ui.notify(str(ui.set_theme("none")))
            ui.notify(str(ui.set_theme("mine")))
            ui.set_theme({"name": "x"})
            ui.set_editor_text("typed")
            ui.paste_to_editor(" and pasted")
            ui.notify("done")
"""


def test_everything_that_an_extension_shows_arrives(tmp_path: Path) -> None:
    async def story() -> None:
        terminal = TerminalSession(tmp_path, extension=EVERYTHING)
        await terminal.handle.start()
        terminal.editor = "draft"
        front_end, state = terminal.front_end, terminal.ui.state
        await terminal.handle.submit("/all", [], None)
        await terminal.until(lambda: ("info", "done") in front_end.notices)
        assert front_end.notices == [
            ("warning", "tui True draft"),
            ("info", "['dark', 'mine']"),
            ("info", "{'name': 'mine', 'path': '/themes/mine.json'}"),
            ("info", "{'success': False, 'error': 'Theme not found: none'}"),
            ("info", "{'success': True}"),
            ("warning", "The theme has no colors."),
            ("info", "done"),
        ]
        assert state.status_lines(40) == [(Span("[", "accent"), Span("busy]", "accent"))]
        assert [plain_text(line) for line in state.widget_lines("belowEditor", 40)] == ["one", "two"]
        assert front_end.titles == ["title"]
        assert state.working == WorkingLook("Cooking", False, ("*",), 100)
        assert state.hidden_thinking_label == "Hm"
        assert [plain_text(line) for line in state.header_lines(40) or ()] == ["head"]
        assert [plain_text(line) for line in state.footer_lines(40) or ()] == ["foot"]
        assert front_end.expanded
        assert front_end.used_theme == "mine"
        assert terminal.editor == "typed and pasted"
        assert terminal.errors == []
        await terminal.handle.close()

    play(story())


FUNCTIONS = """
    import asyncio

    def setup(pi):
        async def refresh(ctx):
            ctx.ui.notify(f"pressed {ctx.mode}")

        pi.register_shortcut("shift+ctrl+k", refresh, "Refresh")
        pi.register_shortcut("ctrl+p", refresh)
        pi.register_shortcut("hyper+x", refresh)
        pi.register_shortcut("f5", lambda ctx: 1 / 0)

        def names(prefix):
            return [name for name in ("dev", "prod") if name.startswith(prefix)]

        pi.register_command("deploy", lambda args, ctx: None, get_argument_completions=names)
        pi.register_command("broken", lambda args, ctx: None, get_argument_completions=lambda prefix: 1 / 0)

        def issues(lines, row, column):
            before = lines[row][:column]
            if "#" not in before:
                return None
            return {"prefix": "#", "items": [{"value": "#21", "label": "21", "description": "terminal"}, 5]}

        @pi.on("session_start")
        def start(event, ctx):
            ctx.ui.add_autocomplete_provider(issues)
            ctx.ui.add_autocomplete_provider(issues)

        def call(args, width):
            return f"[toolTitle]count[/] {args.text} in {width}"

        async def result(result, width, options):
            if options.expanded:
                await asyncio.sleep(30)
            return ["one", "two"]

        pi.register_tool("count", "Count", {"type": "object"}, lambda: "3", render_call=call, render_result=result)
        pi.register_message_renderer("note", lambda message: [message.content] if message.content else None)
"""


def test_functions_for_the_terminal_are_called_and_a_slow_one_is_not_waited_for(tmp_path: Path) -> None:
    async def story() -> None:
        terminal = TerminalSession(tmp_path, extension=FUNCTIONS)
        await terminal.handle.start()
        calls = ExtensionCalls(terminal.handle.extensions)
        bindings = Bindings()
        assert calls.shortcut(Key("ctrl+shift+k"), bindings) == "shift+ctrl+k"
        assert calls.shortcuts["shift+ctrl+k"].description == "Refresh"
        for name in ("f6", "ctrl+p", "k"):
            assert calls.shortcut(Key(name), bindings) is None
        path = tmp_path / "extension.py"
        assert calls.shortcut_warnings(bindings) == [
            f"{path}: the key ctrl+p is taken by app.session.togglePath.",
            f"{path}: 'hyper+x' is not a key.",
        ]
        assert await calls.press("shift+ctrl+k")
        assert not await calls.press("f6")
        await terminal.until(lambda: terminal.front_end.notices == [("info", "pressed tui")])
        assert await calls.press("f5")
        assert [(one.event, one.error) for one in terminal.errors] == [("shortcut:f5", "division by zero")]

        assert await calls.argument_completions("deploy", "p") == [Item("prod", "prod", "", "p")]
        assert await calls.argument_completions("nothing", "p") == []
        assert await calls.argument_completions("broken", "p") == []
        assert await calls.autocomplete(["see #"], 0, 5) == [Item("#21", "21", "terminal", "#")]
        assert await calls.autocomplete(["see"], 0, 3) == []

        drawn = await calls.render_tool("count", "call", {"text": "abc"}, 33, {})
        assert drawn == [(Span("count", "toolTitle"), Span(" abc in 33"))]
        assert await calls.render_tool("count", "result", {"content": []}, 33, {"expanded": False}) is not None
        assert await calls.render_tool("count", "result", {"content": []}, 33, {"expanded": True}) is None
        assert terminal.errors[-1].error == "No answer within 0.1 s."
        assert await calls.render_message("note", {"content": "hello"}, 33, {}) == [(Span("hello"),)]
        assert await calls.render_message("note", {"content": ""}, 33, {}) is None
        assert await calls.render_message("other", {"content": "hello"}, 33, {}) is None
        assert calls.renders_tool("count")
        assert not calls.renders_tool("bash")
        await terminal.handle.close()

    play(story())


@pytest.mark.promise("T16")
def test_a_function_that_fails_again_and_again_is_no_longer_called(tmp_path: Path) -> None:
    async def story() -> None:
        terminal = TerminalSession(tmp_path, extension=FUNCTIONS)
        await terminal.handle.start()
        calls = ExtensionCalls(terminal.handle.extensions)
        for _ in range(10):
            assert await calls.argument_completions("broken", "x") == []
        assert len(terminal.errors) == 1
        await terminal.handle.close()

    play(story())


DYING = """
    import os, time

    def setup(pi):
        pi.on("session_start", lambda event, ctx: ctx.ui.notify("ready"))
        pi.register_tool("dies", "d", {"type": "object"}, lambda: "", render_call=lambda args: os._exit(1))
        pi.register_tool("hangs", "h", {"type": "object"}, lambda: "", render_call=lambda args: time.sleep(60))
"""


@pytest.mark.promise("T16")
def test_an_extension_that_dies_or_hangs_while_it_renders_costs_its_own_lines_only(tmp_path: Path) -> None:
    async def story() -> None:
        terminal = TerminalSession(tmp_path, extension=DYING)
        await terminal.handle.start()
        calls = ExtensionCalls(terminal.handle.extensions)
        loop = asyncio.get_running_loop()
        for starts, tool in enumerate(("dies", "hangs"), 1):
            await terminal.until(lambda starts=starts: len(terminal.front_end.notices) == starts)
            began = loop.time()
            assert await calls.render_tool(tool, "call", {}, 80, {}) is None
            assert loop.time() - began < 10
        assert await calls.render_tool("unknown", "call", {}, 80, {}) is None
        terminal.handle.kill()
        await terminal.handle.close()

    play(story())


SHOWS = """
    import os

    def setup(pi):
        @pi.on("session_start")
        def start(event, ctx):
            ctx.ui.notify(event.reason)
            if event.reason == "startup":
                ctx.ui.set_status("s", "status")
                ctx.ui.set_widget("w", ["widget"])
                ctx.ui.set_title("title")
                ctx.ui.set_working_message("Cooking")
                ctx.ui.set_working_visible(False)
                ctx.ui.set_footer(["foot"])

        pi.register_command("die", lambda args, ctx: os._exit(1))
"""


def test_what_an_extension_shows_disappears_when_it_ends(tmp_path: Path) -> None:
    async def story() -> None:
        terminal = TerminalSession(tmp_path, extension=SHOWS)
        state = terminal.ui.state
        await terminal.handle.start()
        await terminal.until(lambda: state.footer_lines(40))
        assert (len(state.statuses), state.title, state.working.message) == (1, "title", "Cooking")
        await terminal.handle.submit("/die", [], None)
        await terminal.until(lambda: ("info", "reload") in terminal.front_end.notices)
        assert (len(state.statuses), state.title, state.footer_lines(40)) == (0, None, None)
        assert state.widget_lines("aboveEditor", 40) == []
        assert (state.working.message, state.working.visible) == (None, True)
        await terminal.handle.close()

    play(story())


FLOOD = """
    import asyncio

    def setup(pi):
        @pi.command("flood")
        async def flood(args, ctx):
            for number in range(5_000):
                ctx.ui.set_widget("w", [str(number)])
                ctx.ui.notify(str(number))
                if number % 500 == 0:
                    await asyncio.sleep(0.1)
            ctx.ui.set_status("s", "flooded")
"""


@pytest.mark.promise("T16")
def test_a_flood_shows_the_newest_state_and_leaves_the_session_usable(tmp_path: Path) -> None:
    async def story() -> None:
        terminal = TerminalSession(tmp_path, extension=FLOOD)
        await terminal.handle.start()
        await terminal.handle.submit("/flood", [], None)
        await terminal.until(lambda: terminal.ui.state.statuses or terminal.errors)
        running = await terminal.run("hello")
        await running
        assert len(terminal.front_end.notices) < 100
        if not terminal.errors:
            assert [plain_text(line) for line in terminal.ui.state.widget_lines("aboveEditor", 40)] == ["4999"]
        await terminal.handle.close()

    play(story())


def test_the_files_of_themes_are_not_read_for_every_call(tmp_path: Path) -> None:
    async def story() -> None:
        terminal = TerminalSession(tmp_path)
        facts = terminal.handle.actions().facts
        for _ in range(100):
            assert len(facts()["themes"]) == 2
        assert terminal.front_end.themes_read == 1
        terminal.now += 6
        facts()
        terminal.ui.reset()
        facts()
        assert terminal.front_end.themes_read == 3
        await terminal.handle.close()

    play(story())


def test_the_terminal_requests_do_nothing_in_other_modes(tmp_path: Path) -> None:
    async def story() -> None:
        from support.in_process_session import House

        house = House(tmp_path)
        requests: dict[str, Any] = {
            "paste_to_editor": {"text": "x"},
            "set_working_message": {"message": "x"},
            "set_working_visible": {"visible": True},
            "set_working_indicator": {"frames": []},
            "set_hidden_thinking_label": {},
            "set_footer": {"lines": ["x"]},
            "set_header": {"lines": ["x"]},
            "set_tools_expanded": {"expanded": True},
            "set_theme": {"theme": "dark"},
        }
        for name, params in requests.items():
            assert await house.act(name, **params) is None
        assert house.heard == []
        facts = house.handle.actions().facts()
        assert facts["mode"] == "rpc"
        assert "editorText" not in facts

    play(story())

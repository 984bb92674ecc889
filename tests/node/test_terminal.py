"""TypeScript extensions in the terminal interface, through the session, to what the screen shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.in_process_session import play
from support.node_program import node
from support.terminal_session import TerminalSession
from tau.screen.bindings import Bindings
from tau.screen.extension_ui import WorkingLook
from tau.screen.input_events import Key
from tau.screen.lines import plain_text
from tau.tui import extension_calls
from tau.tui.extension_calls import ExtensionCalls, Item

EVERYTHING = """
    import { Text } from "@earendil-works/pi-tui";

    export default function (pi: any) {
        pi.registerCommand("all", {
            getArgumentCompletions: (prefix: string) =>
                ["dev", "prod"].filter((name) => name.startsWith(prefix)).map((value) => ({ value, label: value })),
            handler: async (args: string, ctx: any) => {
                const ui = ctx.ui;
                ui.notify(`${ctx.mode} ${ctx.hasUI} ${ui.getEditorText()}`, "warning");
                ui.setStatus("k", ui.theme.fg("accent", "[busy]"));
                ui.setWidget("w", ["one", "two [accent]"], { placement: "belowEditor" });
                ui.setWidget("v", () => new Text("drawn", 0, 0));
                ui.setTitle("title");
                ui.setWorkingMessage("Cooking");
                ui.setWorkingIndicator({ frames: ["*"], intervalMs: 100 });
                ui.setHiddenThinkingLabel("Hm");
                ui.setHeader(() => ({ render: (width: number) => ["head"], invalidate() {} }));
                ui.setFooter(() => ({ render: (width: number) => ["foot"], invalidate() {} }));
                ui.setToolsExpanded(!ui.getToolsExpanded());
                ui.notify(JSON.stringify([ui.getAllThemes().length, ui.setTheme("none").success, ui.setTheme("mine").success]));
                ui.setEditorText("typed");
                ui.pasteToEditor(" and pasted");
                await ui.custom(() => { throw new Error("not called"); });
                ui.notify("done");
            },
        });
        pi.registerShortcut("ctrl+shift+k", { description: "Refresh", handler: (ctx: any) => ctx.ui.notify("pressed") });
        pi.registerTool({
            name: "count", label: "Count", description: "d", parameters: { type: "object", properties: {} },
            execute: async () => ({ content: [{ type: "text", text: "3" }] }),
            renderCall: (args: any, theme: any) => new Text(theme.bold("count ") + args.text, 0, 0),
            renderResult: (result: any, options: any) => new Text(`${result.content[0].text} ${options.expanded}`, 0, 0),
        });
        pi.on("session_start", (event: any, ctx: any) => {
            ctx.ui.addAutocompleteProvider((current: any) => ({
                ...current,
                async getSuggestions(lines: string[], row: number, column: number, options: any) {
                    const own = lines[row].slice(0, column).endsWith("#");
                    return own ? { prefix: "#", items: [{ value: "#21", label: "21" }] } : current.getSuggestions(lines, row, column, options);
                },
            }));
        });
    }
"""  # noqa: E501


def test_what_an_extension_shows_arrives_and_its_functions_are_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name in ("RENDER_TIMEOUT_S", "COMPLETION_TIMEOUT_S"):  # a busy machine is slow
        monkeypatch.setattr(extension_calls, name, 20.0)
    host = {"extensionHost": {"node": node(), "loadTimeoutMs": 60_000}}

    async def story() -> None:
        terminal = TerminalSession(tmp_path, extension=EVERYTHING, name="extension.ts", settings=host)
        await terminal.handle.start()
        terminal.editor = "draft"
        front_end, state = terminal.front_end, terminal.ui.state
        await terminal.handle.submit("/all", [], None)
        await terminal.until(lambda: ("info", "done") in front_end.notices)
        assert [text for _, text in front_end.notices if "its own screen" not in text] == [
            *("tui true draft", "[2,false,true]"),
            "done",
        ]
        assert [plain_text(line) for line in state.status_lines(40)] == ["[busy]"]
        assert [plain_text(line) for line in state.widget_lines("belowEditor", 40)] == ["one", "two [accent]"]
        assert [plain_text(line) for line in state.widget_lines("aboveEditor", 40)] == ["drawn"]
        assert front_end.titles == ["title"]
        assert state.working == WorkingLook("Cooking", True, ("*",), 100)
        assert state.hidden_thinking_label == "Hm"
        assert [plain_text(line) for line in state.header_lines(40) or ()] == ["head"]
        assert [plain_text(line) for line in state.footer_lines(40) or ()] == ["foot"]
        assert (front_end.expanded, front_end.used_theme, terminal.editor) == (True, "mine", "typed and pasted")

        calls = ExtensionCalls(terminal.handle.extensions)
        shortcut = calls.shortcut(Key("ctrl+shift+k"), Bindings())
        assert shortcut is not None and await calls.press(shortcut)
        await terminal.until(lambda: ("info", "pressed") in front_end.notices)
        assert await calls.argument_completions("all", "p") == [Item("prod", "prod", "", "p")]
        assert await calls.autocomplete(["see #"], 0, 5) == [Item("#21", "21", "", "#")]
        assert await calls.autocomplete(["see"], 0, 3) == []
        call = await calls.render_tool("count", "call", {"text": "abc"}, 33, {})
        result = await calls.render_tool("count", "result", {"content": [{"text": "3"}]}, 33, {"expanded": True})
        assert [plain_text(line) for line in (*(call or ()), *(result or ()))] == ["count abc", "3 true"]
        assert terminal.errors == []
        await terminal.handle.close()

    play(story())

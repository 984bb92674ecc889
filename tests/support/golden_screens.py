"""Scenes of the terminal interface: events and keys -> what a terminal shows, with a clock of its own.

`make golden` writes them to tests/golden/tui: NAME.txt is the text at four sizes, NAME.ansi the colours of the size
24x80 (`cat` shows them), colours-DEPTH.ansi one scene at each depth of colour. A person reads the difference.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from support.golden_modals import MODALS
from support.terminal_screen import Emulator
from tau.records import events as ev
from tau.records.deltas import TextDelta, TextEnd, ThinkingDelta, ThinkingEnd, ToolCallDelta, ToolCallStart
from tau.records.dialogs import Confirm, Select
from tau.records.messages import Assistant, BashExecution, Custom, Text, Usage, User
from tau.records.permissions import PermissionDetails
from tau.screen.completion import CompletionList, Proposal
from tau.screen.editor import Editor
from tau.screen.footer import FooterState, Totals
from tau.screen.frame import Cursor, Frame
from tau.screen.modals import Modal
from tau.screen.painter import Painter
from tau.screen.panels import Panel, PanelView, Status
from tau.screen.panels.dialogs import panel_for
from tau.screen.prompt import Prompt
from tau.screen.styles import Palette
from tau.screen.transcript import Transcript
from tau.screen.working import Working
from tau.tui.exit_summary import render
from tau.tui.view import Size, View

FOLDER = Path(__file__).parent.parent / "golden" / "tui"
SIZES = (Size(40, 120), Size(24, 80), Size(15, 40), Size(10, 20))
COLOUR_SIZE = Size(24, 80)
DEPTHS = ("none", "16", "256", "truecolor")
ANSWER = Assistant([], "api", "scripted", "scripted", Usage(), "stop", 0)
GREETING = "tau 1.0, scripted/scripted. /help lists the commands, Ctrl+C twice exits."
FOOTER = FooterState(
    cwd="~/project",
    branch="main",
    name="parser",
    totals=Totals(12_345, 678, 90_000, 0, 0.123),
    context_percent=12.3,
    context_window=200_000,
    auto_compact=True,
    model="some-model",
    level="medium",
    flags=("ask",),
)


class ShownPanel:
    """A question that has the focus, or stands above the editor."""

    def __init__(self, panel: Panel, *, focused: bool = True, position: str = "") -> None:
        self._panel = panel
        self.focused = focused
        self._position = position

    def view(self, width: int, max_rows: int) -> PanelView | None:
        return self._panel.rows(width, max_rows, Status(self.focused, position=self._position, seconds_left=42))

    def not_drawn(self) -> None:
        pass


class Stage:
    """The view of the program on a terminal, without the program."""

    def __init__(
        self,
        size: Size = COLOUR_SIZE,
        palette: Palette | None = None,
        footer: FooterState = FOOTER,
        greeting: str = GREETING,
    ) -> None:
        self.now = 100.0
        self.size = size
        self.prompt = Prompt(Editor(), CompletionList(5))
        self.view = View(Transcript(), self.prompt, Working())
        self.view.footer.state = footer
        self.palette = palette or Palette()
        self._painter = Painter(size.rows, size.columns, self.palette)
        self._emulator = Emulator(size.rows, size.columns)
        self._calls = 0
        self._left = False
        self.coloured: list[str] = []  # the rows of the last frame
        if greeting:
            self.notice(greeting)

    def apply(self, *events: ev.Event) -> None:
        for event in events:
            self.view.transcript.apply(event, self.now)
            self.view.working.apply(event, self.now)
            if isinstance(event, ev.QueueUpdate):
                self.view.queued = event.steering, event.follow_up

    def notice(self, text: str, kind: Any = "info") -> None:
        self.view.transcript.add_notice(text, kind)

    def paint(self) -> None:
        frame = self.view.frame(self.size, self._painter.first_visible, self.now)
        self._emulator.feed(self._painter.paint(frame), lambda sequence: False)
        rows = frame.rows[max(self._painter.first_visible - frame.top, 0) :]
        self.coloured = [self.palette.render(row) for row in rows]

    def open(self, modal: Modal) -> None:
        """A list or a form in place of the editor."""
        self.view.modal = modal

    def open_full(self, modal: Modal) -> None:
        """A modal on the alternate screen."""
        rows, columns = self.size
        self._left = True
        self._painter, self._emulator = Painter(rows, columns, self.palette), Emulator(rows, columns)
        shown = modal.rows(columns - 1, rows)
        cursor = None if shown.cursor is None else Cursor(*shown.cursor)
        self._emulator.feed(self._painter.paint(Frame(0, shown.lines[:rows], cursor)), lambda sequence: False)
        self.coloured = [self.palette.render(row) for row in shown.lines[:rows]]

    def leave(self, *lines: str) -> None:
        self.paint()
        self._left = True
        data = self._painter.leave(self.view.box_top) + render(list(lines))
        self._emulator.feed(data, lambda sequence: False)
        box = self.view.box_top - self._painter.first_visible
        self.coloured = [*self.coloured[: max(box, 0)], "", *lines]

    def show(self) -> None:
        """Paint what has happened; one frame shows it all."""
        if not self._left:
            self.paint()

    def screen(self) -> list[str]:
        self.show()
        rows = [row.rstrip() for row in self._emulator.screen.display]
        while rows and not rows[-1]:
            rows.pop()
        return rows

    # What happens.

    def prompted(self, text: str) -> None:
        self.apply(ev.AgentStart(), ev.MessageStart(User(text, 0)), ev.MessageStart(ANSWER))

    def says(self, *pieces: str, index: int = 0) -> None:
        self.apply(*(ev.MessageUpdate(TextDelta(index, piece)) for piece in pieces))

    def thinks(self, text: str) -> None:
        self.apply(ev.MessageUpdate(ThinkingDelta(0, text)), ev.MessageUpdate(ThinkingEnd(0, text)))

    def settled(self) -> None:
        self.apply(ev.MessageUpdate(TextEnd(0, "")), ev.MessageEnd(ANSWER), ev.AgentSettled())

    def runs(self, name: str, arguments: Mapping[str, Any]) -> str:
        self._calls += 1
        id = f"call{self._calls}"
        self.apply(ev.ToolStart(id, name, dict(arguments)))
        return id

    def tool(
        self, name: str, arguments: Mapping[str, Any], output: str, details: Any = None, *, failed: bool = False
    ) -> None:
        id = self.runs(name, arguments)
        self.apply(ev.ToolEnd(id, name, ev.Outcome([Text(output)], details), failed, 1234))


MARKDOWN = """# The parser

It reads **one token** at a time and calls `next_token()`.

| part  | what it does            |
|-------|-------------------------|
| lexer | splits text into tokens |
| tree  | holds what was read     |

```python
def parse(text: str) -> Tree:
    return Tree(tokens(text))
```

1. read
2. check

> Nothing is lost.
"""
DIFF = " 1 first\n-2 the red fox\n+2 the red dog\n 3 last"
LINES = "\n".join(f"line {number} of the output" for number in range(1, 31))


def start(stage: Stage) -> None:
    pass


def streaming(stage: Stage) -> None:
    stage.prompted("How does the parser work?")
    stage.now += 3
    stage.says(MARKDOWN[:180])


def answered(stage: Stage) -> None:
    stage.prompted("How does the parser work?")
    stage.says(MARKDOWN)
    stage.settled()


def thinking(stage: Stage) -> None:
    stage.prompted("Why?")
    stage.thinks("I should look at the lexer first.\n\nThen at the tree.")
    stage.says("Because of the lexer.", index=1)
    stage.settled()


def thinking_collapsed(stage: Stage) -> None:
    stage.view.transcript.hide_thinking = True
    thinking(stage)


def arriving(stage: Stage) -> None:
    stage.prompted("Run the tests")
    stage.apply(
        ev.MessageUpdate(ToolCallStart(0, "c", "bash")), ev.MessageUpdate(ToolCallDelta(0, '{"command": "make te'))
    )


def running(stage: Stage) -> None:
    stage.prompted("Run the tests")
    id = stage.runs("bash", {"command": "make test"})
    stage.apply(ev.ToolUpdate(id, "bash", {}, ev.Outcome([Text(LINES)])))
    stage.now += 5


def side_by_side(stage: Stage) -> None:
    stage.prompted("Run both")
    stage.runs("bash", {"command": "sleep 10"})
    stage.tool("bash", {"command": "echo second"}, "second\n")


def failed(stage: Stage) -> None:
    stage.prompted("Run the tests")
    stage.tool("bash", {"command": "make test"}, "make: *** no rule\n\nCommand exited with code 2", failed=True)


def aborted(stage: Stage) -> None:
    stage.prompted("Run the tests")
    stage.runs("bash", {"command": "make test"})
    stage.apply(ev.AgentSettled())


TOOLS: dict[str, tuple[dict[str, Any], str, Any]] = {
    "bash": ({"command": "make test"}, LINES, None),
    "read": ({"path": "src/parser.py", "offset": 3, "limit": 30}, "import re\n\n" + LINES, None),
    "write": ({"path": "notes.txt", "content": LINES}, "Wrote 30 lines", None),
    "edit": ({"path": "a.txt"}, "Edited a.txt", {"diff": DIFF}),
    "ls": ({"path": "src"}, "\n".join(f"file{number}.py" for number in range(25)), None),
    "find": ({"pattern": "*.py", "path": "src"}, "\n".join(f"src/file{number}.py" for number in range(25)), None),
    "grep": ({"pattern": "def", "path": "src"}, "\n".join(f"src/a.py:{number}: def f()" for number in range(20)), None),
    "lookup": ({"word": "lexer"}, LINES, None),
}


def one_tool(name: str, *, expanded: bool) -> Callable[[Stage], None]:
    def scene(stage: Stage) -> None:
        arguments, output, details = TOOLS[name]
        stage.view.transcript.expanded = expanded
        stage.prompted("Do it")
        stage.tool(name, arguments, output, details)

    return scene


def shell_commands(stage: Stage) -> None:
    for command, output, code, hidden in (("ls", "a.txt\nb.txt\n", 0, False), ("false", "", 1, True)):
        stage.view.transcript.start_bash(command, stage.now, hidden=hidden)
        stage.view.transcript.end_bash(BashExecution(command, output, code), stage.now + 0.05)
    stage.view.editor.insert("!make test")


def queue(stage: Stage) -> None:
    streaming(stage)
    stage.apply(ev.QueueUpdate(["use the other file"], ["then write the tests"]))
    stage.view.editor.insert("a draft")


def completion(stage: Stage) -> None:
    stage.view.editor.insert("/mo")
    query = stage.prompt.completion.text_changed("/mo", first_line=True)
    assert query is not None
    names = ("model", "scoped-models", "compact")
    stage.prompt.offer(query, [Proposal(f"/{name} ", name, f"what {name} does") for name in names])


def question(stage: Stage) -> None:
    stage.view.panels = ShownPanel(
        panel_for(Select("q", "Which one?\nIt matters.", ["red", "green"])), position="1 of 3"
    )


def yes_or_no(stage: Stage) -> None:
    stage.view.panels = ShownPanel(panel_for(Confirm("q", "Sure?", "It cannot be undone.")))


def _permission_panel() -> Panel:
    details = PermissionDetails(
        call_id="c",
        tool="edit",
        arguments={"path": "a.txt"},
        commands=(),
        paths=("/home/ann/project/a.txt",),
        cwd="/home/ann/project",
        sandbox="workspace",
        asked_by="--permissions ask",
        diff=DIFF,
    )
    options = ["Allow once", "Allow for this session", "Deny"]
    return panel_for(Select("q", "Allow edit?", options), details)


def permission(stage: Stage) -> None:
    stage.prompted("Change it")
    stage.runs("edit", {"path": "a.txt"})
    stage.view.panels = ShownPanel(_permission_panel())


def permission_while_typing(stage: Stage) -> None:
    stage.prompted("Change it")
    stage.view.editor.insert("half a sentence")
    stage.view.panels = ShownPanel(_permission_panel(), focused=False)


def retry(stage: Stage) -> None:
    stage.prompted("Hello")
    stage.notice("529 overloaded", "error")
    stage.apply(ev.AutoRetryStart(2, 3, 8000, "529 overloaded"))


def compacting(stage: Stage) -> None:
    stage.apply(ev.CompactionStart("manual"))
    stage.now += 2


def compacted(stage: Stage) -> None:
    result = ev.CompactionResult("## Goal\nA parser that loses nothing.", "id", 123_456)
    stage.apply(ev.CompactionStart("manual"), ev.CompactionEnd("manual", result, False, False))


def summaries_expanded(stage: Stage) -> None:
    stage.view.transcript.expanded = True
    compacted(stage)
    stage.apply(ev.MessageStart(Custom("note", "A *note* of an extension.", True)))
    stage.apply(ev.ThinkingLevelChanged("high"))


def errors(stage: Stage) -> None:
    stage.prompted("Hello")
    stage.says("Half an ans")
    stage.apply(ev.MessageUpdate(TextEnd(0, "")), ev.AgentSettled())
    stage.notice("The key was refused.\nSet another one.", "error")
    stage.notice("a theme is missing", "warning")
    stage.notice("Session name: parser")


def small_editor(stage: Stage) -> None:
    stage.view.editor.paste("\n".join(f"pasted {number}" for number in range(12)))
    stage.view.editor.insert(" and\n" + "\n".join(f"line {number}" for number in range(20)))


def left(stage: Stage) -> None:
    answered(stage)
    stage.leave("12 s · 1 turn · 12,345 tokens in, 678 out · $0.1230", "Continue: tau --session 0123")


def all_states(stage: Stage) -> None:
    """What colours tell: it must be told by words and signs too."""
    stage.prompted("Do it")
    stage.thinks("Hm.")
    for name in ("bash", "edit"):
        stage.tool(name, *TOOLS[name])
    stage.tool("bash", {"command": "false"}, "Command exited with code 1", failed=True)
    stage.runs("bash", {"command": "sleep 9"})
    stage.notice("a warning", "warning")
    stage.apply(ev.QueueUpdate(["left"], ["later"]))


SCENES: dict[str, Callable[[Stage], None]] = (
    {
        scene.__name__.replace("_", "-"): scene
        for scene in (
            *(
                start,
                streaming,
                answered,
                thinking,
                thinking_collapsed,
                arriving,
                running,
                side_by_side,
                failed,
                aborted,
            ),
            *(shell_commands, queue, completion, question, yes_or_no, permission, permission_while_typing, retry),
            *(compacting, compacted, summaries_expanded, errors, small_editor, left, all_states),
        )
    }
    | {
        f"tool-{name}{'-expanded' if expanded else ''}": one_tool(name, expanded=expanded)
        for name in TOOLS
        for expanded in (False, True)
    }
    | dict(MODALS)
)


def play(scene: Callable[[Stage], None], size: Size = COLOUR_SIZE, palette: Palette | None = None) -> Stage:
    stage = Stage(size, palette)
    scene(stage)
    stage.show()
    return stage


def golden_files() -> dict[str, str]:
    """The content of every file, by its name."""
    files = golden_colours()
    for name, scene in SCENES.items():
        shown = []
        for size in SIZES:
            stage = play(scene, size)
            shown += [f"{f' {size.rows}x{size.columns} ':=^{size.columns}}", *stage.screen()]
            if size == COLOUR_SIZE:
                files[f"{name}.ansi"] = "".join(f"{row}\n" for row in stage.coloured)
        files[f"{name}.txt"] = "\n".join([*shown, ""])
    return files


def golden_colours() -> dict[str, str]:
    """One scene at each depth of colour."""
    shown = {depth: play(all_states, Size(40, 80), Palette(depth=depth)).coloured for depth in DEPTHS}
    return {f"colours-{depth}.ansi": "".join(f"{row}\n" for row in rows) for depth, rows in shown.items()}


def write(folder: Path = FOLDER) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    files = golden_files()
    for path in folder.iterdir():
        if path.name not in files:
            path.unlink()
    for name, content in files.items():
        (folder / name).write_text(content, encoding="utf-8")


if __name__ == "__main__":
    write()
    print(f"{len(list(FOLDER.iterdir()))} files in {FOLDER}", file=sys.stderr)

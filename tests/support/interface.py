"""The whole terminal interface in a pseudo terminal, with a scripted model and folders of its own."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from support.cli_process import PI, asked, scripted
from support.rpc_process import Json, surroundings
from support.terminal import Terminal

RULE = "─" * 10
# What must never be written: clears of the screen and of the scrollback, mouse modes, scroll regions.
FORBIDDEN = re.compile(rb"\x1b\[[23]J|\x1b\[\?100[0235-6]h|\x1b\[\d*;?\d*r|\x1b\[\d*[STLM]")

REDRAW: Json = {"app.redraw": "f5"}  # keybindings.json
REDRAW_KEY = b"\x1b[15~"


class Interface(Terminal):
    """tau at a terminal. Leaving the block checks that nothing forbidden was written."""

    def __init__(
        self,
        folder: Path,
        *argv: str,
        script: Sequence[Json] = (),
        settings: Json | None = None,
        env: Mapping[str, str] | None = None,
        program: Sequence[str] = PI,
        keys: Json | None = None,
        **how: Any,
    ) -> None:
        self.folder = folder
        environment = {**surroundings(folder, settings), "SSH_CONNECTION": "", "TMUX": "", **(env or {})}
        if keys is not None:
            (folder / "agent" / "keybindings.json").write_text(json.dumps(keys))
        model = [] if "--model" in argv else scripted(folder, *script)
        super().__init__([*program, *model, *argv], env=environment, cwd=str(folder / "work"), **how)

    def __enter__(self) -> Interface:
        return self

    def __exit__(self, *error: object) -> None:
        output = self.raw()
        super().__exit__(*error)
        assert not FORBIDDEN.search(output), FORBIDDEN.search(output)

    def start(self) -> Interface:
        """Wait until the editor is drawn."""
        self.wait(RULE)
        return self

    def send(self, text: str) -> None:
        """Type a prompt and send it."""
        self.type(text)
        self.wait(text[-40:])
        self.press("enter")

    def settle(self) -> str:
        """Wait until nothing is worked on any more."""
        self.wait(lambda shown: "Working" not in shown)
        return self.wait_quiet()

    def assert_restored(self) -> None:
        """After the end: no mode is on, the line discipline is as it was, the cursor is on a free line of its own."""
        assert (self.modes(), self.settings_now()) == (set(), self.settings)
        row, column = self.cursor()
        rows = self.screen()
        assert column == 0 and not any(rows[row:]), (row, column, rows)

    def session_entries(self) -> list[Json]:
        """The entries of the only session file; each line must be whole."""
        (file,) = (self.folder / "agent" / "sessions").rglob("*.jsonl")
        data = file.read_bytes()
        assert data.endswith(b"\n")
        return [json.loads(line) for line in data.splitlines()]

    def assert_redraw_changes_nothing(self) -> None:
        """At rest the screen is what a fresh draw of the same view shows. Needs the keys REDRAW."""
        before, cursor = self.wait_quiet(), self.cursor()
        self.type(REDRAW_KEY)
        self.wait_quiet()
        after = "\n".join(self.screen())
        assert after == before, f"before the fresh draw:\n{before}\nafter it:\n{after}"
        assert self.cursor() == cursor

    def box(self) -> list[str]:
        """The rows from the upper rule of the editor to the end."""
        rows = self.screen()
        while rows and not rows[-1]:
            rows.pop()
        rules = [at for at, row in enumerate(rows) if row.startswith("──")]
        return rows[rules[-2] :] if len(rules) > 1 else rows

    def prompts(self) -> list[str]:
        """The texts that the model was asked."""
        return [content if isinstance(content, str) else content[0]["text"] for content in asked(self.folder)]

"""What is loaded before the first frame: nothing that only an answer, a search or a question needs."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from support.interface import Interface

FRAME = b"\x1b[?2026h"
IMPORTED = re.compile(rb"import time: +\d+ \| +\d+ \| +([\w.]+)")
LATER = {
    *("pyromark", "pygments", "wcwidth", "httptools", "ssl"),
    *("inspect", "dataclasses", "shutil", "tempfile", "difflib", "json"),
    *(
        "tau.llm.anthropic",
        "tau.llm.scripted_model",
        "tau.tools.search",
        "tau.tui.clipboard",
        "tau.tui.external_editor",
    ),
    *("tau.runtime.app.attachments", "tau.screen.session_events", "tau.screen.stream", "tau.core.text.markup"),
}
PI = [sys.executable, "-X", "importtime", "-c", "from tau.cli.entry import pi; pi()"]


def test_the_first_frame_needs_neither_markdown_nor_a_provider_nor_rare_modules(tmp_path: Path) -> None:
    with Interface(tmp_path, program=PI) as screen:
        screen.wait_raw(FRAME)
        before = screen.raw().partition(FRAME)[0]
    loaded = {name.decode() for name in IMPORTED.findall(before)}
    assert "tau.tui.interface" in loaded
    assert loaded & LATER == set()

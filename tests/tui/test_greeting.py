"""The first lines of the interface, and what its footer says of the flags of the command line."""

from __future__ import annotations

from pathlib import Path

from support.interface import Interface
from tau.tui.greeting import scope_text


def test_the_models_of_the_scope_are_named_with_the_key_that_cycles() -> None:
    assert scope_text([], "Ctrl+P") == ""
    assert scope_text(["a", "b"], "Ctrl+P") == "Model scope: a, b (Ctrl+P cycles)"
    assert scope_text(["a"], "") == "Model scope: a"
    assert scope_text([str(number) for number in range(10)], "").endswith(", 7 and 2 more")


def test_the_start_names_the_scope_and_the_footer_says_offline_and_read_only(tmp_path: Path) -> None:
    settings = {"terminal": {"showTerminalProgress": True}}
    arguments = ["--offline", "--tools", "read,grep", "--models", "ollama/one,ollama/two"]
    with Interface(tmp_path, *arguments, script=[{"text": "ok"}], settings=settings) as tau:
        tau.start().wait("Model scope: one, two (Ctrl+P cycles)")
        tau.wait("offline · read-only")
        tau.send("hi")
        tau.wait("ok")
        tau.settle()
        assert tau.raw().index(b"\x1b]9;4;3\x1b\\") < tau.raw().index(b"\x1b]9;4;0\x1b\\")

"""What a prompt says after it was typed."""

from __future__ import annotations

from pathlib import Path

from support.interface import Interface


def test_the_space_around_a_prompt_is_not_sent(tmp_path: Path) -> None:
    with Interface(tmp_path, script=[{"text": "one"}, {"text": "two"}]) as tau:
        tau.start().type("  hello \n \r")
        tau.wait("one")
        tau.settle()
        tau.type(" /usr is a folder \r")  # a space before it keeps it from being a command
        tau.wait("two")
        tau.settle()
    assert tau.prompts() == ["hello", " /usr is a folder"]

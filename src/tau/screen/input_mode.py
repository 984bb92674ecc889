"""What a text in the editor is: a prompt, a command of the shell (`!`, `!!`) or a slash command."""

from __future__ import annotations

import re
from typing import Literal

from tau.records.base import Value

InputMode = Literal["prompt", "bash", "bashExcluded", "command"]

# A path such as /usr/bin is not a command: command names contain no slash.
_COMMAND = re.compile(r"/([^\s/]+)(?:\s+|\Z)")


class ParsedInput(Value):
    """`text` is the prompt, the shell command, or the arguments of the slash command `name`."""

    mode: InputMode
    text: str
    name: str = ""


def input_mode(text: str) -> InputMode:
    """The mode of a text while it is written; the editor shows it by its colour.

    `!!` runs a shell command whose output is not sent to the model.
    """
    if text.startswith("!!"):
        return "bashExcluded"
    if text.startswith("!"):
        return "bash"
    return "command" if _COMMAND.match(text) else "prompt"


def parse_input(text: str) -> ParsedInput:
    """Split a text for sending. A leading space, or a second slash, makes a prompt of what looks like a command."""
    mode = input_mode(text)
    if mode == "bashExcluded":
        return ParsedInput(mode, text[2:].strip())
    if mode == "bash":
        return ParsedInput(mode, text[1:].strip())
    if found := _COMMAND.match(text):
        return ParsedInput(mode, text[found.end() :].strip(), found[1])
    text = text.strip()
    if text.startswith("//"):
        text = text[1:]
    return ParsedInput(mode, text)

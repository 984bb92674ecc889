"""`!`, `!!` and `/`, and files named with `@`."""

from __future__ import annotations

import pytest

from tau.screen.full_screen import full_screen_program
from tau.screen.input_mode import ParsedInput, input_mode, parse_input
from tau.screen.mentions import candidates, mention_of, mentions


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("hello", ParsedInput("prompt", "hello")),
        ("  hello \n", ParsedInput("prompt", "hello")),
        ("!ls -l", ParsedInput("bash", "ls -l")),
        ("! ls", ParsedInput("bash", "ls")),
        ("!", ParsedInput("bash", "")),
        ("!!env", ParsedInput("bashExcluded", "env")),
        (" !ls", ParsedInput("prompt", "!ls")),
        ("/model sonnet 4 ", ParsedInput("command", "sonnet 4", "model")),
        ("/ext:name", ParsedInput("command", "", "ext:name")),
        ("/compact\nkeep the\nnames", ParsedInput("command", "keep the\nnames", "compact")),
        ("//model", ParsedInput("prompt", "/model")),
        (" /model", ParsedInput("prompt", "/model")),
        ("/usr/bin/env is missing", ParsedInput("prompt", "/usr/bin/env is missing")),
        ("/ model", ParsedInput("prompt", "/ model")),
        ("/", ParsedInput("prompt", "/")),
        ("", ParsedInput("prompt", "")),
    ],
)
def test_what_a_text_is(text: str, parsed: ParsedInput) -> None:
    assert parse_input(text) == parsed
    assert input_mode(text) == parsed.mode


def test_mentions_are_found_at_the_beginning_of_words() -> None:
    text = 'see @a.py, (@src/b) me@example.com @"with space.txt" @'
    assert [mention.path for mention in mentions(text)] == ["a.py,", "src/b)", "with space.txt"]
    assert [text[mention.start : mention.end] for mention in mentions(text)][2] == '@"with space.txt"'
    assert candidates("a.py,") == ["a.py,", "a.py"]


def test_a_mention_has_quotes_where_it_needs_them() -> None:
    assert mention_of("src/a.py") == "@src/a.py"
    assert mention_of("my file.txt") == '@"my file.txt"'
    assert [mention.path for mention in mentions(mention_of("odd name)."))] == ["odd name)."]


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("vim a.txt", "vim"),
        ("EDITOR=x sudo /usr/bin/nano a", "nano"),
        ("top", "top"),
        ("top -b -n 1", None),
        ("nvim --headless +q", None),
        ("echo vim", None),
        ("echo 'unbalanced", None),
        ("", None),
    ],
)
def test_programs_that_need_the_whole_terminal(command: str, program: str | None) -> None:
    assert full_screen_program(command) == program

"""docs/ says what the program does: its tables are made from it, its examples are played."""

from __future__ import annotations

import json
import re
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from docgen.__main__ import FOLDER, MARKER, main, page
from docgen.__main__ import TABLES as OWN_TABLES
from docgen.api import public_names, undocumented
from docgen.tables import EVENTS, TABLES, anchor, settings_rows, tag
from docgen.words import in_words
from markdown_it import MarkdownIt

from support.rpc_process import Agent, Json
from tau.cli.flags import FLAGS
from tau.records.base import UnsetType
from tau.records.settings import Settings
from tau.tools.registry import TOOLS
from tau.wire.dialect import COMMANDS as KINDS

TEMPLATE = (FOLDER / "protocol.in.md").read_text(encoding="utf-8")
PAGE = (FOLDER / "protocol.md").read_text(encoding="utf-8")
TITLES = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", PAGE, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)


def test_the_page_is_up_to_date() -> None:
    assert main(["--check"]) == 0, "make docs"


def test_a_page_that_is_out_of_date_is_shown_and_not_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    template, made = tmp_path / "some.in.md", tmp_path / "some.md"
    template.write_text("new\n")
    made.write_text(page("old\n", template.name))
    assert main(["--check"], tmp_path) == 1
    assert "-old\n+new\n" in capsys.readouterr().out
    assert made.read_text() == page("old\n", template.name)
    assert main([], tmp_path) == 0
    assert made.read_text() == page("new\n", template.name)


def test_every_table_has_its_place() -> None:
    templates = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.in.md")}
    usual = [name for page in templates.keys() - OWN_TABLES.keys() for name in MARKER.findall(templates[page])]
    assert sorted(usual) == sorted(TABLES)
    assert {page: sorted(MARKER.findall(templates[page])) for page in OWN_TABLES} == {
        page: sorted(tables) for page, tables in OWN_TABLES.items()
    }


def test_the_readme_counts_the_examples() -> None:
    rows = re.findall(r"^\| \[", (FOLDER.parent / "examples" / "README.md").read_text(), re.MULTILINE)
    words = ["twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty"]
    assert f"has {words[len(rows) - 12]} programs" in (FOLDER.parent / "README.md").read_text()


def test_every_setting_says_what_it_means() -> None:
    assert [setting for setting, *_, meaning in settings_rows(Settings) if not meaning] == []


@pytest.mark.parametrize("name", [*KINDS, *map(tag, EVENTS), *(f"{tool} tool" for tool in TOOLS)])
def test_every_command_event_and_tool_has_a_section(name: str) -> None:
    assert name in TITLES


def test_every_public_name_of_the_library_has_a_docstring() -> None:
    assert undocumented() == []


def test_every_public_name_of_the_library_is_in_the_reference() -> None:
    reference = (FOLDER / "api.md").read_text(encoding="utf-8")
    names = [name for listed in public_names().values() for name in listed]
    assert [name for name in names if not re.search(rf"[`. ]{name}\b", reference)] == []


def test_every_table_of_a_generated_page_is_one_table() -> None:
    """A blank line or a line break inside a cell ends the table, and the rest of it becomes a paragraph of pipes."""
    broken = []
    for template in sorted(FOLDER.glob("*.in.md")):
        made = FOLDER / template.name.replace(".in.md", ".md")
        tokens = MarkdownIt("commonmark").enable("table").parse(made.read_text(encoding="utf-8"))
        inside = 0
        for token in tokens:
            inside += (token.type == "table_open") - (token.type == "table_close")
            if token.type == "inline" and not inside and re.search(r"^\||\|$", token.content, re.MULTILINE):
                broken.append(f"{made.name}: {token.content[:60]}")
    assert broken == []


def test_the_table_of_commands_has_every_command() -> None:
    section = PAGE.partition("\n## Commands\n")[2].partition("\n### ")[0]
    assert re.findall(r"^\| \[(\w+)\]", section, re.MULTILINE) == list(KINDS)


@pytest.mark.parametrize("name", [flag.name for flag in FLAGS])
def test_every_flag_is_documented(name: str) -> None:
    assert f"`--{name}`" in (FOLDER / "cli.md").read_text(encoding="utf-8")


def test_no_two_sections_have_the_same_address() -> None:
    addresses = [anchor(title) for title in TITLES]
    assert [address for address in addresses if addresses.count(address) > 1] == []


def test_every_link_leads_somewhere() -> None:
    links = set(re.findall(r"\]\(#([^)]+)\)", PAGE))
    assert links - {anchor(title) for title in TITLES} == set()


@pytest.mark.parametrize("guide", ["docs/architecture.in.md", "CONTRIBUTING.md", "AGENTS.md"])
def test_a_guide_for_contributors_names_files_and_names_that_exist(guide: str) -> None:
    root = FOLDER.parent
    text = (root / guide).read_text(encoding="utf-8")
    bases = (root, root / "src/tau")

    def found(path: str) -> list[Path]:
        return [base / path for base in bases if (base / path).exists()]

    paths = set(re.findall(r"`((?:[\w.]+/)+(?:[\w.]+)?|(?:[\w.]+/)*\w+\.(?:py|md))`", text)) - {"build/site"}
    assert [path for path in sorted(paths) if not found(path)] == []
    named = re.findall(r"`(?:\w+\.)?(\w+)` in `([\w/]+\.py)`", text)
    assert [(name, path) for name, path in named if not re.search(rf"\b{name}\b", found(path)[0].read_text())] == []


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (str, "string"),
        (list[str], "array of strings"),
        (dict[str, int], "object with integer values"),
        (dict[str, Any], "object"),
        (str | None, "string or null"),
        (str | UnsetType, "string"),
        (str | list[str] | None, "string, array of strings or null"),
    ],
)
def test_an_annotation_is_put_in_plain_words(kind: Any, words: str) -> None:
    assert in_words(kind, lambda kind: None) == words


def test_a_kind_without_words_is_an_error() -> None:
    with pytest.raises(TypeError, match="no words for"):
        in_words(set[str], lambda kind: None)


# The examples


def test_the_example_of_a_run_is_what_happens(tmp_path: Path) -> None:
    script, told = _blocks("A run, event by event")
    with Agent(tmp_path, *json.loads(script)["answers"]) as agent:
        agent.prompt("What does it say?")
        records = agent.records
    assert _joined(map(_line, records)) == _joined(told.splitlines())


def test_the_example_of_a_script_can_be_played(tmp_path: Path) -> None:
    (script,) = _blocks("The scripted model")
    settings = {"retry": {"baseDelayMs": 1}}
    with Agent(tmp_path, *json.loads(script)["answers"], settings=settings) as agent:
        agent.prompt("hello")
        stops = [
            record["message"]["stopReason"]
            for record in agent.records
            if record["type"] == "message_end" and record["message"]["role"] == "assistant"
        ]
    assert stops == ["toolUse", "error", "stop"]


def test_the_forms_of_an_image_are_accepted(tmp_path: Path) -> None:
    (forms,) = _blocks("Images in a prompt")
    with Agent(tmp_path) as agent:
        agent.prompt("what is this?", images=[json.loads(line) for line in forms.splitlines()])
        (asked, *_) = agent.get("get_messages")["messages"]
    image = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
    assert asked["content"] == [{"type": "text", "text": "what is this?"}, image, image]


def test_the_examples_of_responses_are_what_is_sent(tmp_path: Path) -> None:
    (responses,) = _blocks("Responses")
    with Agent(tmp_path) as agent:
        said = [
            agent.answer_to(b'{"id":"1","type":"get_last_assistant_text"}'),
            agent.answer_to(b'{"id":"2","type":"set_model","provider":"acme","modelId":"rocket"}'),
        ]
    assert said == [json.loads(line) for line in responses.splitlines()]


def _blocks(title: str) -> list[str]:
    """What stands between fences in a section."""
    section = TEMPLATE[TEMPLATE.index(f"\n## {title}\n") :].partition("\n## ")[2].partition("\n## ")[0]
    return re.findall(r"^```\w+\n(.*?)\n```$", section, re.MULTILINE | re.DOTALL)


def _line(record: Json) -> str:
    """A record with only what matters, as the page writes it."""
    match record:
        case {"type": "response", "command": command, "success": success}:
            words = ["response", command, "success" if success else "failure"]
        case {"type": "message_update", "assistantMessageEvent": delta}:
            piece = [json.dumps(delta["delta"])] if "delta" in delta else []
            words = ["message_update", delta["type"], str(delta["contentIndex"]), *piece]
        case {"type": "message_end", "message": {"role": "assistant", "stopReason": reason}}:
            words = ["message_end", "assistant", reason]
        case {"type": "message_start" | "message_end" as kind, "message": {"role": role}}:
            words = [kind, role]
        case {"type": kind, "toolCallId": id}:
            words = [kind, id]
        case {"type": kind}:
            words = [kind]
    return " ".join(words)


def _joined(lines: Any) -> list[str]:
    """Neighbouring pieces as one: how many records they come in depends on how fast somebody reads."""
    told = []
    for block, group in groupby(lines, key=lambda line: line.partition(' "')[0]):
        pieces = [json.loads(f'"{piece}') for line in group if (piece := line.partition(' "')[2])]
        told.append(f"{block} {json.dumps(''.join(pieces))}" if pieces else block)
    return told


def test_the_first_screen_of_readme_shows_the_agent_at_work_and_passes_the_tests() -> None:
    screen = "\n".join((FOLDER.parent / "README.md").read_text().splitlines()[:30])
    targets = (FOLDER.parent / "Makefile").read_text()
    for target in ("demo", "test"):
        assert f"\nmake {target} " in screen
        assert re.search(rf"^{target}:", targets, re.MULTILINE)

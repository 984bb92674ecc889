"""The pages about extensions name all there is, and nothing that is not."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import get_args

import pytest

from tau.extension_api import messages
from tau.extension_api.api import Bus, Pi
from tau.extension_api.context import CommandContext, SessionView, Ui
from tau.extension_api.hooks import HOOKS
from tau.records.base import decode
from tau.runtime.extensions import connection, limits, process

DOCS = Path(__file__).parent.parent.parent / "docs"
GUIDE = (DOCS / "extensions.md").read_text(encoding="utf-8")
PROTOCOL = (DOCS / "extension-protocol.md").read_text(encoding="utf-8")


def section(page: str, title: str) -> str:
    return re.split(r"^#+ ", page.split(f"# {title}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]


def rows(text: str) -> dict[str, str]:
    """The first two cells of each row whose first is a name."""
    return dict(re.findall(r"^\| `(\w+)` \| ([^|]*)\|", text, re.MULTILINE))


def test_the_table_of_events_is_the_table_of_hooks() -> None:
    assert list(rows(section(GUIDE, "Events"))) == list(HOOKS)


@pytest.mark.parametrize("kind", [Pi, Bus, CommandContext, SessionView, Ui])
def test_every_method_is_documented(kind: type) -> None:
    names = {name for name in dir(kind) if not name.startswith("_")} - {"mark_loaded"}
    assert {name for name in names if not re.search(rf"\b{name}\b", GUIDE)} == set()


@pytest.mark.parametrize(
    ("title", "kinds"), [("From tau", messages.FromTau), ("From the extension", messages.FromExtension)]
)
def test_the_tables_of_messages_name_every_field(title: str, kinds: type) -> None:
    told = {name: set(re.findall(r"`(\w+)\??`", fields)) for name, fields in rows(section(PROTOCOL, title)).items()}
    declared = {str(kind.__struct_config__.tag): set(kind.__struct_encode_fields__) for kind in get_args(kinds)}
    if title == "From tau":
        declared["answer"] -= {"where"}  # only an extension has lines
    assert told == declared


def test_the_tables_of_actions_name_every_parameter() -> None:
    told = {
        name: re.findall(r"`(\w+\??)`(?: \(.*?\))?", params)
        for name, params in rows(section(PROTOCOL, "Actions")).items()
    }
    told["send_message"] = [name for name in told["send_message"] if name in messages.ACTIONS["send_message"]]
    assert {name: set(params) for name, params in told.items()} == {
        name: set(params) for name, params in messages.ACTIONS.items()
    }


def test_every_fact_and_every_kind_is_documented() -> None:
    assert set(re.findall(r"`(\w+)`", section(PROTOCOL, "Facts"))) >= set(messages.FACTS)
    assert tuple(rows(section(PROTOCOL, "Registering"))) == messages.KINDS


def test_the_limits_are_those_of_the_program() -> None:
    assert f"more than {connection.MAX_MESSAGES_PER_SECOND:,} messages" in PROTOCOL
    assert f"more than {connection.MAX_ACTIONS:,} actions" in PROTOCOL
    assert f"(or {limits.MAX_ACTION_BYTES >> 20} MiB of them), more than {limits.MAX_REGISTRATIONS:,}" in PROTOCOL
    unread = f"more than {process.MAX_UNREAD_BYTES >> 20} MiB of messages"
    assert f"(or {limits.MAX_REGISTRATION_BYTES >> 20} MiB of them), {unread}" in PROTOCOL
    assert f"within {connection.PING_TIMEOUT_S:g} s" in PROTOCOL
    assert f"{messages.MAX_LINE_BYTES // 1024 // 1024} MiB" in PROTOCOL


def test_the_example_is_made_of_messages() -> None:
    lines = re.findall(r"^(tau|extension) +(\{.*\})$", PROTOCOL, re.MULTILINE)
    assert len(lines) == 9
    for side, line in lines:
        kind = messages.FromTau if side == "tau" else messages.FromExtension
        assert type(decode(kind, line.encode())).__name__.lower() == json.loads(line)["type"]


def test_the_example_of_the_guide_is_python() -> None:
    example, *_ = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    assert [node.name for node in ast.parse(example).body if isinstance(node, ast.FunctionDef)] == ["setup"]

"""Rules for the tools of an agent in the same process; its dialogs answer what they ask."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import tau
from tau.records.dialogs import Select

SCRIPT = [{"blocks": [{"tool": "bash", "arguments": {"command": "touch a"}}]}, {"text": "ok"}]


def prompted(folder: Path, **how: Any) -> bool:
    """Whether the command ran."""

    async def main() -> None:
        async with tau.open(folder, script=SCRIPT, session=False, agent_dir=folder / "agent", **how) as agent:
            await agent.prompt("go")

    asyncio.run(main())
    return (folder / "a").exists()


def test_dialogs_answer_what_rules_ask(tmp_path: Path) -> None:
    asked: list[str] = []

    def answer(dialog: Any) -> str:
        assert isinstance(dialog, Select)
        asked.append(dialog.title)
        return dialog.options[0]

    assert prompted(tmp_path, permissions="ask", dialogs=answer)
    assert asked == ["Allow bash?\n\ntouch a"]


def test_a_call_is_denied_without_a_permission_handler(tmp_path: Path) -> None:
    assert not prompted(tmp_path, permissions="ask")


def test_rules_can_be_a_file_or_what_would_be_in_it(tmp_path: Path) -> None:
    file = tmp_path / "rules.json"
    file.write_text('{"deny": [{"tool": "bash"}]}')
    assert not prompted(tmp_path, permissions=file)
    assert prompted(tmp_path, permissions={"allow": [{"tool": "bash"}]})


def test_rules_that_are_wrong_open_nothing(tmp_path: Path) -> None:
    with pytest.raises(tau.UsageError, match=r"permissions: allow\[0\]: object contains unknown field zork"):
        prompted(tmp_path, permissions={"allow": [{"zork": 1}]})

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from tau.records.messages import ToolCall
from tau.runtime.extensions.dialogs import Dialogs
from tau.runtime.runs.permission_rules import read_permissions
from tau.runtime.runs.permissions import Permits

UNREADABLE = """
import asyncio, json, os, sys
from tau.runtime.runs.permission_rules import read_permissions
from tau.runtime.runs.permissions import Permits
from tau.records.messages import ToolCall
import tau.core.shell.lines  # now: the other user may not read this folder

async def in_thread(work):
    return work()

if os.geteuid() == 0:  # become an ordinary user, who may not follow the links of a process of root
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
rules = json.loads(sys.argv[1])
call = ToolCall("1", sys.argv[2], json.loads(sys.argv[3]))
try:
    os.readlink("/proc/1/root")
    print("readable")
except PermissionError:
    gate = Permits(read_permissions(rules, "/"), None, "/", in_thread, asks=False)
    refused = asyncio.run(gate.permit(call, call.arguments))
    print("allowed" if refused is None else refused.details["denied"]["by"])
"""


async def in_thread(work: Any) -> Any:
    return work()


def gate(rules: dict[str, Any], cwd: Path) -> Permits:
    return Permits(read_permissions(rules, str(cwd)), cast(Dialogs, None), str(cwd), in_thread, asks=False)


READ, LIST = {"path": "/proc/1/root/etc/passwd"}, {"command": "cat /proc/1/root/etc/passwd"}


@pytest.mark.parametrize(
    ("rules", "tool", "arguments", "verdict"),
    [
        ({"deny": [{"path": "/etc/**"}], "otherwise": "allow"}, "read", READ, "nobody"),
        ({"allow": [{"path": "/**"}], "otherwise": "deny"}, "read", READ, "rule"),
        ({"deny": [{"path": "/etc/**"}], "otherwise": "allow"}, "bash", LIST, "nobody"),
        ({"allow": [{"tool": "read"}], "otherwise": "deny"}, "read", READ, "allowed"),
        ({"deny": [{"path": "/proc/1/root/**"}], "otherwise": "allow"}, "read", READ, "rule"),
    ],
)
def test_a_path_with_a_link_that_cannot_be_read_is_not_allowed_by_a_rule_about_paths(
    rules: dict[str, Any], tool: str, arguments: dict[str, str], verdict: str
) -> None:
    words = [sys.executable, "-c", UNREADABLE, json.dumps(rules), tool, json.dumps(arguments)]
    done = subprocess.run(words, capture_output=True, text=True, cwd="/")
    if done.stdout == "readable\n":
        pytest.skip("every link of /proc can be read here")
    assert (done.stdout, done.stderr) == (f"{verdict}\n", "")


def test_the_paths_of_an_allowed_call_are_known_when_it_runs(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    permits = gate({"allow": [{"path": "**"}]}, tmp_path)
    call = ToolCall("1", "ls", {"path": "link"})

    async def main() -> None:
        assert await permits.permit(call, call.arguments) is None
        checked = permits.checked(call)
        assert checked is not None
        assert checked(str(tmp_path / "real"))
        assert not checked(str(tmp_path))
        assert permits.checked(call) is None  # once

    asyncio.run(main())

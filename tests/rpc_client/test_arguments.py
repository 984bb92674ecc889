"""Arguments of a client with a wrong type are refused before a process is started."""

from __future__ import annotations

from typing import Any

import pytest

import tau
from tau import sync


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ("--no-session", "args: expected a list of strings but got str"),
        (b"--no-session", "args: expected a list of strings but got bytes"),
        (None, "args: expected a list of strings but got NoneType"),
        (["--max-turns", 3], "args[1]: expected a string but got int"),
    ],
)
@pytest.mark.parametrize("client", [tau.RpcClient, sync.RpcClient])
def test_args_are_a_list_of_strings(client: Any, args: Any, message: str) -> None:
    with pytest.raises(tau.UsageError) as raised:
        client(model="demo", args=args)
    assert str(raised.value) == message

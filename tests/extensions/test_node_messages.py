"""What an extension writes to the descriptor of its Node process by itself ends that process, and nothing else."""

from __future__ import annotations

import pytest

from tau.runtime.extensions.node_process import NodeProcess


@pytest.mark.parametrize(
    "message", [b"0 ", b"0 {", b"0 []", b"0 " + b"[" * 100_000, b"9" * 5000 + b" {}", b"x {}", b""]
)
def test_a_line_that_is_no_message_raises_nothing(message: bytes) -> None:
    process = NodeProcess("node", "/", 0, None, lambda process, unexpected: None)
    process.received(message)
    assert not process.gone

"""Tools of a client's program, lent to a session of a host."""

from __future__ import annotations

import asyncio
from pathlib import Path

from support.socket_host import SocketHost, socket_host
from tau import RpcClient, events


def test_a_tool_is_lent_again_when_the_connection_was_lost(tmp_path: Path) -> None:
    called: list[str] = []

    async def look_up(word: str) -> str:
        """Look up a word.

        word: the word
        """
        called.append(word)
        if len(called) == 1:
            cut()
        return f"{word} is a word"

    def cut() -> None:
        served.cut_all()

    async def main() -> None:
        nonlocal served
        async with (
            asyncio.timeout(60),
            socket_host(tmp_path, *answers, answer_timeout_s=30.0) as served,
            RpcClient.connect(served.url, open={"memory": True}) as agent,
        ):
            await agent.set_tools([look_up])
            heard = await agent.prompt_and_wait("do it")
            [ended] = [event for event in heard if isinstance(event, events.ToolEnd)]
            assert ended.result.content == [events.Text("tau is a word")]
            assert called == ["tau"]

    answers = {"blocks": [{"tool": "look_up", "arguments": {"word": "tau"}}]}, {"text": "ok"}
    served: SocketHost
    asyncio.run(main())

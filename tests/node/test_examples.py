"""The examples in TypeScript do what they say, all of them in one program."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from support.extension_processes import Found
from support.extension_processes import running as started
from support.node_program import node, node_limits
from support.rpc_process import Agent, Json, of

FOLDER = Path(__file__).parents[2] / "examples" / "extensions" / "typescript"
PACKAGE = FOLDER / "house_rules"


def notified(agent: Agent, command: str) -> str:
    assert agent.ask("prompt", message=command)["success"]
    shown: Json = agent.until(lambda one: one.get("method") == "notify")[-1]
    return str(shown["message"])


def test_the_examples_work_together(tmp_path: Path) -> None:
    named = [*sorted(FOLDER.glob("*.ts")), PACKAGE]
    args = ["--model", "shout/loud", *(word for path in named for word in ("-e", str(path)))]
    settings = {"extensionHost": {"node": node(), "loadTimeoutMs": 60_000}}
    with Agent(tmp_path, offline=False, settings=settings, args=args) as agent:
        commands = {one["name"] for one in agent.get("get_commands")["commands"]}
        assert commands >= {"bookmark", "bookmarks", "rules", "words"}
        events = agent.prompt("show #diff")
        assert of("message_end", events)[-1]["message"]["content"] == [{"type": "text", "text": "SHOW (NO CHANGES)"}]
        assert [one["statusKey"] for one in events if one.get("method") == "setStatus"] == ["run-time"] * 2
        assert notified(agent, "/words") == "0 words"
        assert notified(agent, "/rules") == "no console.log: 0\nno TODO without a name: 0"
        agent.send("prompt", message="/bookmark here")
        message = agent.until(lambda one: one["type"] == "message_end")[-1]["message"]
        assert (message["customType"], message["content"]) == ("bookmark", "here")
        agent.send("prompt", message="/bookmarks")
        asked = agent.until(lambda one: one.get("method") == "select")[-1]
        assert asked["options"] == ["here"]
        answer = {"type": "extension_ui_response", "id": asked["id"], "value": "here"}
        agent.write(json.dumps(answer).encode() + b"\n")
        assert of("extension_error", agent.records) == []


def test_the_gate_and_the_rules(tmp_path: Path) -> None:
    files: list[Path | Found] = [FOLDER / "ask_before_push.ts", FOLDER / "word_count.ts"]
    files += [Found(PACKAGE / name, package=PACKAGE) for name in ("prompt.ts", "check.ts")]

    async def story() -> None:
        async with started(*files, settings=node_limits()) as lab:
            assert lab.told == []
            assert (list(lab.extensions.tools), list(lab.extensions.flags)) == (["word_count"], ["allow-push"])
            assert (await lab.tool("word_count", text="one two")).details == {"words": 2}
            assert await lab.bash("ls") == {}
            lab.answers["confirm"] = lambda params: False
            push = await lab.bash("git push origin")
            assert push == {"block": True, "reason": "The user does not want to push."}
            text = {"type": "text", "text": "written"}
            given = {"toolCallId": "1", "details": None, "isError": False, "content": [text]}
            written = {"path": "a.js", "content": "console.log(1) // TODO"}
            changed = await lab.shown("tool_result", toolName="write", input=written, **given)
            rules = "This breaks the rules of this house: no console.log, no TODO without a name."
            assert changed == {"content": [text, {"type": "text", "text": rules}]}
            await lab.extensions.commands["rules"].run("")
            await lab.until(lambda: lab.acts and lab.acts[-1][0] == "notify")
            assert lab.acts[-1][1]["message"] == "no console.log: 1\nno TODO without a name: 1"

    asyncio.run(story())

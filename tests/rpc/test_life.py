"""Commands that meet: in one write, right behind one another, in the middle of what a session does.

What was acknowledged is never lost, what was asked is answered, and each command
is about the session that it was said to.
"""

from __future__ import annotations

import json
import signal
import textwrap
from pathlib import Path
from typing import Any

import pytest

from long.meetings import play
from support.limits import no_descriptors
from support.rpc_agent import Agent
from support.rpc_process import Json, Pipe, calls, endless, of, piece, text

LONG = {"text": "a long answer " * 2000}
SMALL = {"compaction": {"keepRecentTokens": 100}}
LEAVING = "The session is being left: nothing more is run in it."
LATER = {"retry": {"baseDelayMs": 600_000}}


def in_one_write(agent: Agent, *commands: Json) -> list[str]:
    """Say them all at once; the ids of their responses."""
    named = [{"id": f"at-once-{number}", **command} for number, command in enumerate(commands)]
    agent.write(b"".join(json.dumps(command).encode() + b"\n" for command in named))
    return [str(command["id"]) for command in named]


def extension(folder: Path, source: str) -> list[str]:
    file = folder / "one.py"
    file.write_text(textwrap.dedent(source))
    return ["-e", str(file)]


def names(path: str) -> list[Any]:
    entries = [json.loads(line) for line in Path(path).read_bytes().splitlines()]
    return [entry["name"] for entry in entries if entry["type"] == "session_info"]


# Abort.


def test_an_abort_does_not_wait_for_a_compaction_that_came_after_it(tmp_path: Path) -> None:
    with Agent(tmp_path, LONG, LONG, endless("a summary "), settings=SMALL) as agent:
        agent.prompt("one")
        agent.prompt("two")
        first = agent.send("compact")
        while not agent.get("get_state")["isCompacting"]:
            pass
        compact = {"type": "compact"}
        second, abort, third = in_one_write(agent, compact, {"type": "abort"}, compact)
        for id in (first, second):
            assert agent.response(id)["error"] == "Compaction cancelled"
        assert agent.response(abort)["success"]
        assert agent.ask("abort")["success"]
        assert agent.response(third)["error"] == "Compaction cancelled"


@pytest.mark.parametrize("text", ["go", "/template"])
def test_a_prompt_with_an_abort_right_behind_it_does_not_run_on(tmp_path: Path, text: str) -> None:
    (tmp_path / "agent" / "prompts").mkdir(parents=True)
    (tmp_path / "agent" / "prompts" / "template.md").write_text("go")
    with Agent(tmp_path, endless("without end ")) as agent:
        prompt, abort = in_one_write(agent, {"type": "prompt", "message": text}, {"type": "abort"})
        assert agent.response(abort)["success"]
        response = agent.response(prompt)
        if response["success"]:
            agent.settled()
        else:
            assert response["error"] == "Aborted before it was accepted."
        assert agent.get("get_state")["isStreaming"] is False


def test_an_abort_is_also_meant_for_prompts_that_wait_for_an_extension(tmp_path: Path) -> None:
    args = extension(
        tmp_path,
        """
        import asyncio

        def setup(pi):
            @pi.on("input")
            async def think(event, ctx):
                ctx.ui.notify(event.text)
                if event.text == "one":
                    await asyncio.Event().wait()
        """,
    )
    with Agent(tmp_path, endless("without end "), args=args) as agent:
        one = agent.send("prompt", message="one")
        agent.until("extension_ui_request")
        two, abort = in_one_write(agent, {"type": "prompt", "message": "two"}, {"type": "abort"})
        assert agent.response(abort)["success"]
        for id in (one, two):
            assert agent.response(id)["error"] == "Aborted before it was accepted."


# Another session.

CHOICES = [
    ({"type": "set_session_name", "name": "new"}, "sessionName", "new"),
    ({"type": "set_thinking_level", "level": "low"}, "thinkingLevel", "low"),
    ({"type": "set_model", "provider": "tau", "modelId": "demo"}, "model", "demo"),
]


@pytest.mark.parametrize(("choice", "field", "value"), CHOICES, ids=[choice[1] for choice in CHOICES])
def test_what_is_chosen_behind_a_switch_is_chosen_for_where_it_goes(
    tmp_path: Path, choice: Json, field: str, value: str
) -> None:
    with Agent(tmp_path) as agent:
        agent.prompt("one")
        first = agent.get("get_state")["sessionFile"]
        agent.get("new_session")
        agent.prompt("two")
        before = Path(agent.get("get_state")["sessionFile"])
        content = before.read_bytes()
        for response in in_one_write(agent, {"type": "switch_session", "sessionPath": first}, choice):
            assert agent.response(response)["success"]
        state = agent.get("get_state")
        assert state["sessionFile"] == first
        found = state[field]
        assert (found["id"] if isinstance(found, dict) else found) == value
        assert before.read_bytes() == content


def test_what_is_named_behind_a_new_session_is_not_the_one_that_still_streams(tmp_path: Path) -> None:
    with Agent(tmp_path, endless("without end ")) as agent:
        agent.get("prompt", message="go")
        agent.until(piece)
        old = agent.get("get_state")["sessionFile"]
        for id in in_one_write(agent, {"type": "new_session"}, {"type": "set_session_name", "name": "new"}):
            assert agent.response(id)["success"]
        assert agent.get("get_state")["sessionName"] == "new"
        assert names(old) == []


LAST_WORDS = """
import asyncio

def setup(pi):
    @pi.on("session_shutdown")
    async def last_words(event, ctx):
        pi.send_message({"customType": "note", "content": "last words", "display": True}, trigger_turn=True)
        await asyncio.sleep(0.2)
"""


def test_what_an_extension_would_begin_while_a_session_is_left_is_not_begun_in_the_next(tmp_path: Path) -> None:
    args = extension(tmp_path, LAST_WORDS)
    with Agent(tmp_path, {"text": "first"}, endless("never ends "), {"text": "clean"}, args=args) as agent:
        agent.prompt("go")
        old = agent.get("get_state")["sessionFile"]
        assert agent.get("new_session") == {"cancelled": False}
        state = agent.get("get_state")
        assert (state["isStreaming"], state["messageCount"]) == (False, 0)
        assert agent.get("get_messages") == {"messages": []}
        assert [error["error"] for error in of("extension_error", agent.events)] == [LEAVING]
        assert "last words" not in Path(old).read_text()


@pytest.mark.process
@pytest.mark.parametrize("ending", ["eof", "sigterm"])
def test_nothing_is_begun_any_more_when_the_program_ends(tmp_path: Path, ending: str) -> None:
    """Else it would run beside the end of those who guard it, and be cut in the middle."""
    args = extension(tmp_path, LAST_WORDS)
    with Agent(tmp_path, calls("touch guarded"), args=args) as agent:
        agent.get("get_state")
        if ending == "sigterm":
            agent.signal(signal.SIGTERM)
        else:
            agent.close()
        assert agent.exit_code() == (143 if ending == "sigterm" else 0)
        (told,) = agent.events
        assert told["error"] == LEAVING
        assert not (agent.cwd / "guarded").exists()


# What was acknowledged.


@pytest.mark.process
def test_clearing_the_queues_leaves_a_prompt_that_was_accepted(tmp_path: Path) -> None:
    with Agent(tmp_path, {"error": {"message": "529 overloaded"}}, settings=LATER) as agent:
        agent.get("prompt", message="one")
        agent.until("auto_retry_start")
        agent.get("prompt", message="two")
        agent.get("follow_up", message="three")
        assert agent.get("clear_queue") == {"steering": [], "followUp": ["three"]}
        file = agent.get("get_state")["sessionFile"]
        agent.signal(signal.SIGKILL)
        agent.exit_code()
    with Agent(tmp_path, args=["--session", file]) as agent:
        assert agent.get("clear_queue") == {"steering": [], "followUp": ["two"]}


@pytest.mark.process
def test_a_message_that_was_queued_when_the_session_could_not_be_left_is_said_once(tmp_path: Path) -> None:
    with Agent(tmp_path, endless("so far"), {"text": "done"}, endless("so far")) as agent:
        agent.get("prompt", message="one")
        agent.until(piece)
        agent.get("steer", message="two")
        with no_descriptors(agent.pid):
            assert agent.ask("clone")["success"] is False
        agent.until("agent_settled")  # of the run that was stopped for it
        agent.prompt("three")
        agent.get("prompt", message="four")
        agent.until(piece)
        assert [text(one) for one in agent.get("get_messages")["messages"]].count("two") == 1
        agent.get("follow_up", message="five")
        assert agent.get("clear_queue") == {"steering": [], "followUp": ["five"]}
        file = agent.get("get_state")["sessionFile"]
        agent.signal(signal.SIGKILL)
        agent.exit_code()
    with Agent(tmp_path, args=["--session", file]) as agent:
        assert agent.get("clear_queue") == {"steering": [], "followUp": []}


@pytest.mark.process
@pytest.mark.parametrize("ending", ["eof", "sigterm", "new session"])
def test_a_shell_command_that_was_run_during_a_run_is_kept_however_the_session_is_left(
    tmp_path: Path, ending: str
) -> None:
    with Pipe(tmp_path / "gate") as gate, Agent(tmp_path, calls(f"read x <{gate.path}"), {"text": "done"}) as agent:
        agent.get("prompt", message="go")
        agent.until("tool_execution_start")
        assert agent.get("bash", command="echo heard")["output"] == "heard\n"
        file = agent.get("get_state")["sessionFile"]
        gate.say()
        agent.settled()
        if ending == "new session":
            agent.get("new_session")
        elif ending == "sigterm":
            agent.signal(signal.SIGTERM)
        agent.close()
        agent.exit_code()
    entries = [json.loads(line) for line in Path(file).read_bytes().splitlines()]
    roles = [entry["message"]["role"] for entry in entries if entry["type"] == "message"]
    assert roles == ["user", "assistant", "toolResult", "assistant", "bashExecution"]


@pytest.mark.promise("D11")
@pytest.mark.parametrize("settled", [False, True])
def test_a_shell_command_that_was_answered_during_a_run_survives_a_kill(tmp_path: Path, settled: bool) -> None:
    with Pipe(tmp_path / "gate") as gate, Agent(tmp_path, calls(f"read x <{gate.path}"), {"text": "done"}) as agent:
        agent.get("prompt", message="go")
        agent.until("tool_execution_start")
        assert agent.get("bash", command="echo heard")["output"] == "heard\n"
        file = agent.get("get_state")["sessionFile"]
        if settled:
            gate.say()
            agent.settled()
        agent.signal(signal.SIGKILL)
        agent.exit_code()
    with Agent(tmp_path, {"text": "more"}, {"text": "still more"}, args=["--session", file]) as agent:
        agent.prompt("again")
        messages = agent.get("get_messages")["messages"]
        assert [one["role"] for one in messages][-3:] == ["bashExecution", "user", "assistant"]
        assert messages[-3]["output"] == "heard\n"
        agent.prompt("and again")
    with Agent(tmp_path, {"text": "more"}, args=["--session", file]) as agent:
        agent.prompt("and again")
        roles = [one["role"] for one in agent.get("get_messages")["messages"]]
        assert roles.count("bashExecution") == 1  # it was told, and is not told again


def test_a_fork_is_not_reported_of_a_shell_command_that_was_reported_later_where_it_comes_from(tmp_path: Path) -> None:
    answers = calls(f"read x <{tmp_path / 'gate'}"), *[{"text": "done"}] * 3
    with Pipe(tmp_path / "gate") as gate, Agent(tmp_path, *answers) as agent:
        agent.get("prompt", message="go")
        agent.until("tool_execution_start")
        agent.get("bash", command="echo heard")
        agent.get("steer", message="mind")
        gate.say()
        agent.settled()
        agent.prompt("two")
        (entry,) = (one["entryId"] for one in agent.get("get_fork_messages")["messages"] if one["text"] == "mind")
        agent.get("fork", entryId=entry)
        agent.prompt("elsewhere")
        roles = [one["role"] for one in agent.get("get_messages")["messages"]]
    assert roles == ["user", "assistant", "toolResult", "user", "assistant"]


# All of it, by chance.


@pytest.mark.parametrize("seed", [1, 2])
def test_whatever_meets_is_answered_and_ends_and_loses_nothing(seed: int) -> None:
    """A few rounds of what tests/long/meetings.py does as long as one likes."""
    assert play(seed).total() > 20

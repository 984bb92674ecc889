"""An extension of the user decides whether the project is trusted: what then counts, and what is remembered."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.rpc_agent import Agent
from support.rpc_process import Json, of

PROJECTS = """
def setup(pi):
    pi.on("session_start", lambda event, ctx: ctx.ui.notify("the project's"))
    pi.on("project_trust", lambda event, ctx: ctx.ui.notify("asked the project's"))
"""


def asking(answer: str) -> str:
    return f"""
import asyncio


def setup(pi):
    @pi.on("project_trust")
    async def decide(event, ctx):
        ctx.ui.notify("asked for " + event.cwd)
        {answer}
"""


YES = 'return {"trusted": "yes"}'
NO = 'return {"trusted": "no"}'


def prepared(folder: Path, *answers: str) -> None:
    """A project that wants to be trusted, and extensions of the user, in this order."""
    project, own = folder / "work" / ".pi", folder / "agent" / "extensions"
    (project / "extensions").mkdir(parents=True)
    own.mkdir(parents=True, exist_ok=True)
    (project / "settings.json").write_text(json.dumps({"steeringMode": "all", "shellCommandPrefix": "echo prefixed"}))
    (project / "SYSTEM.md").write_text("Words of the project.")
    (project / "extensions" / "p.py").write_text(PROJECTS)
    for number, answer in enumerate(answers):
        (own / f"user{number}.py").write_text(asking(answer))


def shown(agent: Agent) -> list[str]:
    return [event["message"] for event in of("extension_ui_request", agent.events)]


def heeded(agent: Agent) -> Json:
    """What of the project counts."""
    return {
        "settings": agent.get("get_state")["steeringMode"] == "all",
        "shell": "prefixed" in agent.get("bash", command="true")["output"],
        "extension": "the project's" in shown(agent),
    }


EVERYTHING = {"settings": True, "shell": True, "extension": True}
NOTHING = {"settings": False, "shell": False, "extension": False}


def test_a_yes_lets_in_what_the_project_brings(tmp_path: Path) -> None:
    prepared(tmp_path, YES)
    with Agent(tmp_path) as agent:
        assert heeded(agent) == EVERYTHING
        assert shown(agent) == [f"asked for {agent.cwd}", "the project's"]
        assert agent.stderr == ""
    assert not (tmp_path / "agent" / "trust.json").exists()


def test_the_system_prompt_of_the_project_counts_after_a_yes(tmp_path: Path) -> None:
    prepared(tmp_path, YES)
    with (tmp_path / "agent" / "extensions" / "user0.py").open("a") as file:
        file.write("""
    @pi.command("prompt")
    async def prompt(args, ctx):
        ctx.ui.notify(await ctx.get_system_prompt())
""")
    with Agent(tmp_path) as agent:
        agent.ask("prompt", message="/prompt")
        agent.until(lambda event: "Words of the project." in event.get("message", ""))


FAILS = 'raise ValueError("no idea")'
LATE = "await asyncio.sleep(3600)"


@pytest.mark.parametrize("answer", [NO, 'return {"trusted": "undecided"}', "return None", FAILS, LATE])
def test_without_a_yes_nothing_of_the_project_counts_and_that_is_said(tmp_path: Path, answer: str) -> None:
    prepared(tmp_path, answer)
    settings = {"extensionHost": {"handlerTimeoutMs": 500}} if answer == LATE else None
    with Agent(tmp_path, settings=settings) as agent:
        assert heeded(agent) == NOTHING
        assert "This project is not trusted, so these were ignored: .pi/settings.json" in agent.stderr
        assert len(of("extension_error", agent.events)) == (answer in (FAILS, LATE))


def test_an_answer_that_is_none_is_reported_and_counts_for_nothing(tmp_path: Path) -> None:
    prepared(tmp_path, 'return {"trusted": True}')
    with Agent(tmp_path) as agent:
        assert heeded(agent) == NOTHING
        (error,) = of("extension_error", agent.events)
        assert (error["event"], error["error"]) == ("project_trust", "trusted: expected one of yes, no, undecided")


def test_the_first_who_says_yes_or_no_decides(tmp_path: Path) -> None:
    prepared(tmp_path, FAILS, 'return {"trusted": "undecided"}', NO, YES)
    with Agent(tmp_path) as agent:
        assert heeded(agent) == NOTHING
        assert len(shown(agent)) == 3


@pytest.mark.parametrize("how", ["--approve", "--no-approve", "never", "said no"])
def test_what_was_decided_is_not_asked(tmp_path: Path, how: str) -> None:
    prepared(tmp_path, NO if how == "--approve" else YES)
    if how == "said no":
        (tmp_path / "agent" / "trust.json").write_text(json.dumps({str(tmp_path / "work"): False}))
    settings = {"defaultProjectTrust": "never"} if how == "never" else None
    with Agent(tmp_path, settings=settings, args=[how] if how.startswith("--") else []) as agent:
        assert heeded(agent) == (EVERYTHING if how == "--approve" else NOTHING)
        assert not [words for words in shown(agent) if words.startswith("asked")]


def test_a_yes_that_is_remembered_holds_until_something_changes(tmp_path: Path) -> None:
    prepared(tmp_path, 'return {"trusted": "yes", "remember": True}')
    with Agent(tmp_path) as agent:
        assert heeded(agent) == EVERYTHING
    (tmp_path / "agent" / "extensions" / "user0.py").write_text(asking(NO))
    with Agent(tmp_path) as agent:
        assert heeded(agent) == EVERYTHING
        assert shown(agent) == ["the project's"]
    (tmp_path / "work" / ".pi" / "SYSTEM.md").write_text("Other words.")
    with Agent(tmp_path) as agent:
        assert heeded(agent) == NOTHING
        assert shown(agent) == [f"asked for {agent.cwd}"]


def test_a_no_that_is_remembered_is_not_asked_again(tmp_path: Path) -> None:
    prepared(tmp_path, 'return {"trusted": "no", "remember": True}')
    with Agent(tmp_path) as agent:
        agent.get("get_state")
    (tmp_path / "agent" / "extensions" / "user0.py").write_text(asking(YES))
    with Agent(tmp_path) as agent:
        assert heeded(agent) == NOTHING
        assert shown(agent) == []


def test_a_person_can_be_asked(tmp_path: Path) -> None:
    prepared(tmp_path, 'return {"trusted": "yes" if await ctx.ui.confirm("Trust?", event.cwd) else "no"}')
    with Agent(tmp_path) as agent:
        waiting = agent.send("get_state")
        request = agent.until(lambda event: event.get("method") == "confirm")[-1]
        agent.write(
            json.dumps({"type": "extension_ui_response", "id": request["id"], "confirmed": True}).encode() + b"\n"
        )
        assert agent.response(waiting)["data"]["steeringMode"] == "all"


def test_an_abort_ends_the_question_and_nothing_is_trusted(tmp_path: Path) -> None:
    prepared(tmp_path, LATE)
    with Agent(tmp_path, settings={"extensionHost": {"handlerTimeoutMs": 3_600_000}}) as agent:
        agent.until("extension_ui_request")
        assert agent.ask("abort")["success"]
        assert heeded(agent) == NOTHING


def test_the_model_that_the_project_wants_is_taken_after_a_yes(tmp_path: Path) -> None:
    prepared(tmp_path, YES)
    (tmp_path / "work" / ".pi" / "settings.json").write_text(json.dumps({"defaultModel": "demo"}))
    with Agent(tmp_path, offline=False) as agent:
        assert agent.get("get_state")["model"]["id"] == "demo"


def test_an_untrusted_project_is_reported_at_once_without_a_dialog(tmp_path: Path) -> None:
    prepared(tmp_path)
    with Agent(tmp_path) as agent:
        assert heeded(agent) == NOTHING
        assert agent.stderr.startswith("Warning: This project is not trusted")

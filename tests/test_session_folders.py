"""Where a session runs: the table in docs/sessions.md, each cell of it, and what the table cannot say."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import tau
from support.cli_process import run
from support.interface import Interface
from support.node_program import node, script
from support.rpc_process import Agent, Json
from support.session_places import BASH, COLUMNS, ID, SAFE, WAYS, WHERE, Place, place
from tau.store.trust import save_decision

DOCS = Path(__file__).parents[1] / "docs" / "sessions.md"
NO_HOST = "-"  # the roots of a host exist only there


def table() -> dict[str, dict[str, str]]:
    """The cells of the table, by the first cell of the row and the head of the column."""
    lines = iter(DOCS.read_text().split("## Where a session runs", 1)[1].splitlines())
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    head, _, *rest = rows
    return {row[0]: dict(zip(head[1:], row[1:], strict=True)) for row in rest}


def cells() -> Iterator[tuple[str, str, str]]:
    for way, row in table().items():
        yield from ((way, column, cell) for column, cell in row.items() if cell != NO_HOST)


def test_the_table_has_every_way_and_every_place() -> None:
    found = table()
    assert [*found] == [*WAYS]
    assert {tuple(row) for row in found.values()} == {tuple(COLUMNS)}
    hosts = {way for way, row in found.items() if NO_HOST not in row.values()}
    assert hosts == {way for way in WAYS if way.startswith(("host", "`tau mcp"))}
    assert {column for row in found.values() for column, cell in row.items() if cell == NO_HOST} == {[*COLUMNS][-1]}


@pytest.mark.parametrize(("way", "column", "cell"), [*cells()])
def test_a_session_runs_where_the_table_says(way: str, column: str, cell: str, tmp_path: Path) -> None:
    assert WAYS[way](tmp_path, COLUMNS[column]) == cell


# What is not in the table.


def opened(at: Place, *commands: Json, flags: Sequence[str] = (), settings: Json | None = None) -> list[Json]:
    """The responses of RPC mode to `switch_session` and then these commands."""
    with Agent(at.folder, args=flags, settings=settings, env=SAFE) as agent:
        first: Json = {"type": "switch_session", "sessionPath": str(at.file)}
        asked = [{name: value for name, value in one.items() if name != "type"} for one in (first, *commands)]
        return [agent.ask(one["type"], **fields) for one, fields in zip((first, *commands), asked, strict=True)]


def project(folder: Path) -> None:
    """A project with instructions, and with settings, a skill and an extension that need trust."""
    (folder / ".pi" / "extensions").mkdir(parents=True)
    (folder / "AGENTS.md").write_text("the rules of the other project")
    (folder / ".pi" / "settings.json").write_text('{"steeringMode": "all"}')
    source = "def setup(pi):\n    @pi.command('theirs')\n    async def theirs(args, ctx):\n        pass\n"
    (folder / ".pi" / "extensions" / "theirs.py").write_text(source)
    skill = folder / ".pi" / "skills" / "their-skill"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: their-skill\ndescription: of the other project\n---\nx\n")


QUESTIONS: list[Json] = [{"type": "get_state"}, {"type": "get_commands"}]


def answers(responses: list[Json]) -> tuple[str, list[str]]:
    data = {one["command"]: one.get("data") for one in responses}
    return data["get_state"]["steeringMode"], sorted(one["name"] for one in data["get_commands"]["commands"])


@pytest.mark.parametrize("flags", [(), ("--approve",)])
def test_a_session_does_not_bring_trust_in_its_project(flags: Sequence[str], tmp_path: Path) -> None:
    at = place(tmp_path, "other")
    project(at.other)
    assert answers(opened(at, *QUESTIONS, flags=flags)) == ("one-at-a-time", ["skill:their-skill"])
    piped = "".join(json.dumps(command) + "\n" for command in QUESTIONS)
    done = run(tmp_path, "--mode", "rpc", *flags, "--session", str(at.file), piped=piped)
    assert answers([one for one in done.records if one["type"] == "response"])[0] == "one-at-a-time"
    assert "This project is not trusted" in done.err and f"`tau trust` in {at.other} trusts" in done.err


def test_the_settings_skills_and_extensions_of_a_trusted_project_hold_after_a_switch(tmp_path: Path) -> None:
    at = place(tmp_path, "other")
    project(at.other)
    save_decision(at.other, tmp_path / "agent", trusted=True)
    assert answers(opened(at, *QUESTIONS)) == ("all", ["skill:their-skill", "theirs"])


def test_the_files_of_the_project_that_is_left_do_not_hold_any_more(tmp_path: Path) -> None:
    at = place(tmp_path, "other")
    project(at.start)
    save_decision(at.start, tmp_path / "agent", trusted=True)
    assert answers(opened(at, *QUESTIONS)) == ("one-at-a-time", [])
    back = {"type": "switch_session", "sessionPath": str(at.file.with_name("back.jsonl"))}
    lines = at.file.read_text().replace(str(at.other), str(at.start)).replace(ID, "back")
    Path(back["sessionPath"]).write_text(lines)
    assert answers(opened(at, back, *QUESTIONS)) == ("all", ["skill:their-skill", "theirs"])


def test_the_model_gets_the_instructions_of_the_folder(tmp_path: Path) -> None:
    at = place(tmp_path, "other")
    project(at.other)
    (at.start / "AGENTS.md").write_text("the rules of the start")

    async def prompts() -> list[str]:
        async with tau.open(agent_dir=tmp_path / "agent", script=[{"text": "ok"}], env={}) as agent:
            before = await agent.system_prompt()
            await agent.switch_session(at.file)
            return [before, await agent.system_prompt()]

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(at.start)
        before, after = asyncio.run(prompts())
    assert "the rules of the start" in before and str(at.start) in before
    assert "the rules of the other project" in after and str(at.other) in after
    assert "the rules of the start" not in after


@pytest.mark.parametrize("limit", ["sandbox", "permissions"])
def test_below_the_start_a_session_runs_in_its_folder_whatever_the_limits(limit: str, tmp_path: Path) -> None:
    at = place(tmp_path, limit)
    below = at.start / "sub"
    below.mkdir()
    at.file.write_text(at.file.read_text().replace(str(at.other), str(below)))
    switched, done = opened(at, BASH, flags=at.flags)
    assert switched["success"] and done["success"] and (below / "where").read_text() == f"{below}\n"


def test_a_folder_that_the_sandbox_was_granted_is_not_refused(tmp_path: Path) -> None:
    at = place(tmp_path, "sandbox")
    granted = {"sandbox": {"level": "workspace", "writable": [str(at.other)]}}
    switched, done = opened(at, BASH, settings=granted)
    assert switched["success"] and done["success"] and at.ran == "own"


def test_an_export_without_a_folder_is_written_where_the_client_started_the_program(tmp_path: Path) -> None:
    at = place(tmp_path, "other")
    responses = opened(at, {"type": "prompt", "message": "hi"}, {"type": "export_html"})
    assert (at.start / responses[-1]["data"]["path"]).exists()


def test_a_folder_reached_by_a_link_below_the_start_is_refused(tmp_path: Path) -> None:
    at = place(tmp_path, "permissions")
    (at.start / "link").symlink_to(at.other)
    at.file.write_text(at.file.read_text().replace(str(at.other), str(at.start / "link")))
    (switched,) = opened(at, flags=at.flags)
    assert not switched["success"] and "Start it there" in switched["error"]


def test_paths_of_the_command_line_stay_relative_to_the_start(tmp_path: Path) -> None:
    at = place(tmp_path, "other")
    (at.start / "mine.md").write_text("the template of the start")
    (at.start / "prompt.txt").write_text("the system prompt of the start")
    flags = ["--prompt-template", "mine.md", "--system-prompt", "prompt.txt"]
    responses = opened(at, {"type": "get_commands"}, BASH, flags=flags)
    assert [one["name"] for one in responses[1]["data"]["commands"]] == ["mine"] and at.ran == "own"


@pytest.mark.parametrize(("header", "ran"), [({"cwd": "sub"}, "sub"), ({"cwd": ""}, "."), ({"cwd": 7}, ".")])
def test_an_odd_folder_in_the_file_is_read_as_pi_reads_it(header: Json, ran: str, tmp_path: Path) -> None:
    at = place(tmp_path, "none")
    (at.start / "sub").mkdir()
    first, rest = at.file.read_text().split("\n", 1)
    at.file.write_text(json.dumps({**json.loads(first), **header}) + "\n" + rest)
    assert [one["success"] for one in opened(at, BASH)] == [True, True]
    assert (at.start / ran / "where").exists()


@pytest.mark.parametrize("stored", ["/no/\0/folder", "\ud800", "FILE"])
def test_what_cannot_be_a_folder_counts_as_gone(stored: str, tmp_path: Path) -> None:
    at = place(tmp_path, "none")
    first, rest = at.file.read_text().split("\n", 1)
    header = {**json.loads(first), "cwd": str(at.file) if stored == "FILE" else stored}
    at.file.write_text(json.dumps(header) + "\n" + rest)
    switched, done = opened(at, BASH)
    assert not switched["success"] and "Stored session working directory does not exist" in switched["error"]
    assert done["success"] and at.ran == "start"


@pytest.mark.parametrize(
    ("answer", "ran", "sessions"), [("1", "start", 1), ("2", "start", 2), ("", "", 1)], ids=["here", "fork", "cancel"]
)
def test_a_terminal_asks_at_the_start_what_to_do_without_the_folder(
    answer: str, ran: str, sessions: int, tmp_path: Path
) -> None:
    at = place(tmp_path, "gone")
    with Interface(tmp_path, "--session", str(at.file)) as terminal:
        terminal.wait("Which one? [3]")
        assert "--fork" in "".join(terminal.screen())
        terminal.type(f"{answer}\r")
        if not ran:
            assert terminal.wait_end() == 0
        else:
            terminal.wait("remember 42")
            terminal.send(f"!{WHERE}; echo is-done-$((1+1))")
            terminal.wait("is-done-2")
            assert at.ran == ran
    assert len([*(tmp_path / "agent" / "sessions").rglob("*.jsonl")]) == sessions


@pytest.mark.parametrize(("down", "sessions"), [(0, 1), (1, 2)], ids=["here", "fork"])
def test_resume_asks_what_to_do_without_the_folder(down: int, sessions: int, tmp_path: Path) -> None:
    at = place(tmp_path, "gone")
    with Interface(tmp_path) as terminal:
        terminal.start().send("/resume")
        terminal.wait("all/this folder")
        terminal.press("tab")
        terminal.wait("remember 42")
        terminal.press("enter")
        terminal.wait("as with --fork")
        for _ in range(down):
            terminal.press("down")
        terminal.press("enter")
        terminal.wait(lambda screen: "as with --fork" not in screen and "remember 42" in screen)
        terminal.send(f"!{WHERE}; echo is-done-$((1+1))")
        terminal.wait("is-done-2")
    assert at.ran == "start" and len([*(tmp_path / "agent" / "sessions").rglob("*.jsonl")]) == sessions


def test_the_footer_shows_the_folder_of_the_session(tmp_path: Path) -> None:
    at = place(tmp_path, "other")
    with Interface(tmp_path, cols=200) as terminal:
        terminal.start().send("/resume")
        terminal.wait("all/this folder")
        terminal.press("tab")
        terminal.wait("remember 42")
        terminal.press("enter")
        terminal.wait(lambda screen: str(at.other) in screen and "all/this folder" not in screen)


LIFE = {
    "python": """
        import json, os

        def setup(pi):
            def tell(event, ctx):
                ctx.ui.notify(json.dumps(["NAME", event["type"], event.get("reason"), os.path.basename(ctx.cwd)]))

            for name in "session_shutdown session_switch session_start".split():
                pi.on(name, tell)

            @pi.command("NAME")
            async def enter(args, ctx):
                await ctx.switch_session(args)
                ctx.ui.notify(json.dumps(["NAME", "went on", None, os.path.basename(ctx.cwd)]))
        """,
    "typescript": """
        import { basename } from "node:path";
        export default function (pi: any) {
            const say = (ctx: any, type: string, reason: string | null) =>
                ctx.ui.notify(JSON.stringify(["NAME", type, reason, basename(ctx.cwd)]));
            for (const name of ["session_shutdown", "session_switch", "session_start"])
                pi.on(name, (event: any, ctx: any) => say(ctx, event.type, event.reason));
            pi.registerCommand("NAME", { handler: async (args: string, ctx: any) => {
                await ctx.switchSession(args, { withSession: async (next: any) => say(next, "went on", null) });
            } });
        }
        """,
}


@pytest.mark.parametrize("language", ["python", "typescript"])
@pytest.mark.parametrize("by", ["client", "command"])
def test_extensions_hear_once_that_a_session_of_another_folder_was_opened(
    by: str, language: str, tmp_path: Path
) -> None:
    at = place(tmp_path, "other")
    folders = {"mine": tmp_path / "agent", "left": at.start / ".pi", "entered": at.other / ".pi"}
    for name, folder in folders.items():
        ending = "py" if language == "python" else "ts"
        script(folder / "extensions", LIFE[language].replace("NAME", name), f"{name}.{ending}")
    save_decision(at.start, tmp_path / "agent", trusted=True)
    save_decision(at.other, tmp_path / "agent", trusted=True)
    host = {"loadTimeoutMs": 60_000} | ({"node": node()} if language == "typescript" else {})
    with Agent(at.folder, settings={"extensionHost": host}) as agent:
        agent.get("get_state")
        before = len(agent.events)
        if by == "client":
            agent.get("switch_session", sessionPath=str(at.file))
        else:
            agent.get("prompt", message=f"/mine {at.file}")

        def told() -> list[list[str | None]]:
            return [json.loads(one["message"]) for one in agent.events[before:] if one.get("method") == "notify"]

        begun = [["session_switch", "resume", "other"], ["session_start", "resume", "other"]]
        agent.until(lambda _: all([name, *begun[1]] in told() for name in ("mine", "entered")))
        agent.get("get_state")
        heard = {name: [row[1:] for row in told() if row[0] == name] for name in folders}
        went_on = [["went on", None, "other"]] if by == "command" else []
        assert heard["mine"] == [["session_shutdown", "resume", "work"], *went_on, *begun]
        assert heard["left"] == [["session_shutdown", "resume", "work"]]
        assert heard["entered"] == begun
        assert [one for one in agent.events if one.get("type") == "extension_error"] == []

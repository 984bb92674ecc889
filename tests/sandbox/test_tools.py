"""File tools obey the same policy as commands, whatever path they are given; and what is allowed works."""

from __future__ import annotations

import os
import subprocess
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from support.rpc_process import Agent, Json
from support.sandbox_escapes import LEVELS, SECRET, missing
from support.search_kit import found


class Project:
    """An agent in a sandbox, with all tools, beside a user's secret."""

    def __init__(self, folder: Path, level: str) -> None:
        self.folder, self.level, self.tree = folder, level, folder / "work"
        self.secret = folder / "home" / ".ssh" / "id_rsa"
        self.secret.parent.mkdir(parents=True)
        self.secret.write_text(SECRET)
        self.tree.mkdir()

    def agent(self, *calls: Json, **how: Any) -> Agent:
        turns = [{"blocks": [call]} for call in calls]
        return Agent(self.folder, *turns, {"text": "done"}, args=["--sandbox", self.level, "--tools", "*"], **how)

    def results(self, *calls: Json, **how: Any) -> list[str]:
        with self.agent(*calls, **how) as agent:
            return results(agent.prompt("go"))


def tool_block(tool: str, **arguments: Any) -> Json:
    return {"tool": tool, "arguments": arguments}


def results(events: list[Json]) -> list[str]:
    ends = [event["result"]["content"] for event in events if event["type"] == "tool_execution_end"]
    return ["\n".join(block.get("text", block["type"]) for block in content) for content in ends]


@pytest.fixture(params=LEVELS)
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Project]:
    if why := missing(request.param):
        pytest.skip(why)
    yield Project(tmp_path, request.param)


@pytest.mark.promise("X02", "X03")
def test_no_file_tool_reads_what_a_command_cannot(project: Project) -> None:
    secret, tree = project.secret, project.tree
    (tree / "link").symlink_to(secret)
    (tree / "folder").symlink_to(secret.parent)
    paths = [
        str(secret),
        "link",
        "folder/id_rsa",
        f"../home/.ssh/{secret.name}",
        f"/proc/self/root{secret}",
        "~/.ssh/id_rsa",
    ]
    said = project.results(
        *(tool_block("read", path=path) for path in paths),
        *(
            tool_block("grep", pattern="secret", path=path)
            for path in (str(secret), str(secret.parent), "folder", "link")
        ),
        *(tool_block("ls", path=path) for path in (str(secret.parent), "folder", "~/.ssh")),
        *(tool_block("find", pattern="*rsa*", path=path) for path in (str(secret.parent.parent), "folder")),
    )
    assert len(said) == len(paths) + 9
    assert [text for text in said if SECRET in text or "id_rsa\n" in text or text == "id_rsa"] == []


@pytest.mark.promise("X01", "X10", "S07")
def test_no_file_tool_writes_what_a_command_cannot(project: Project) -> None:
    (project.folder / "outside").mkdir()
    (project.tree / "out").symlink_to(project.folder / "outside")
    paths = {
        *(project.folder / "outside" / "a", project.folder / "agent" / "settings.json", project.folder / "home" / "a"),
        *(project.tree / ".git" / "hooks" / "pre-commit", project.tree / ".pi" / "prompts" / "x.md"),
    }
    said = project.results(
        *(tool_block("write", path=str(path), content="pwned") for path in paths),
        tool_block("write", path="out/b", content="pwned"),
        tool_block("edit", path=str(project.secret), oldText="secret", newText="pwned"),
    )
    assert [text for text in said if "Successfully" in text] == []
    assert [path for path in (*paths, project.folder / "outside" / "b") if path.exists()] == []
    assert project.secret.read_text() == SECRET


def test_in_the_working_folder_all_tools_work(project: Project) -> None:
    (project.tree / "a.txt").write_text("one\ntwo\n")
    (project.tree / "dot.png").write_bytes(_picture())
    said = project.results(
        tool_block("read", path="a.txt"),
        tool_block("edit", path="a.txt", oldText="two", newText="three"),
        tool_block("write", path="new/b.txt", content="b"),
        tool_block("ls"),
        tool_block("grep", pattern="three"),
        tool_block("find", pattern="*.txt"),
        tool_block("read", path="dot.png"),
        tool_block(
            "bash", command="cat a.txt new/b.txt; touch by-bash; mv new/b.txt c.txt; echo $TMPDIR; mktemp | wc -l"
        ),
    )
    assert [found(text) for text in said] == [
        "one\ntwo\n",
        "Successfully replaced 1 block(s) in a.txt.",
        "Successfully wrote to new/b.txt",
        ".git/\n.pi/\na.txt\ndot.png\nHEAD/\nnew/",
        "a.txt:2: three",
        "a.txt\nnew/b.txt",
        "Read image file [image/png]\nimage",
        "one\nthree\nb/tmp\n1\n",
    ]
    assert (project.tree / "a.txt").read_text() == "one\nthree\n"
    assert (project.tree / "by-bash").stat().st_uid == os.getuid()


def test_the_temporary_folder_is_private_shared_by_all_tools_and_gone_at_the_end(project: Project) -> None:
    note, other = (f"/tmp/{name}-{uuid4().hex}" for name in ("note", "other"))  # that the machine does not have
    said = project.results(
        tool_block("bash", command=f"echo mine > {note}; ls /tmp | grep -c pytest"),
        tool_block("read", path=note),
        tool_block("write", path=other, content="x"),
        tool_block("bash", command=f"cat {other}; mkdir /tmp/deep; echo mine > /tmp/deep/note"),
        tool_block("grep", pattern="mine", path="/tmp/deep"),
        tool_block("find", pattern="note", path="/tmp/deep"),
    )
    texts = [found(text) for text in said[1:]]
    assert texts == ["mine\n", f"Successfully wrote to {other}", "x", "note:1: mine", "note"]
    assert not Path(note).exists() and not Path(other).exists()


def test_output_that_is_too_long_is_kept_where_the_tools_can_read_it(project: Project) -> None:
    with project.agent(
        tool_block("bash", command="seq 100000; rm -f /tmp/tau-output-*/*; echo x > /tmp/tau-output-*/y")
    ) as agent:
        agent.prompt("go")
        path = agent.get("bash", command="seq 100000")["fullOutputPath"]
        assert agent.get("bash", command=f"head -1 {path}; rm {path}; wc -l < {path}")["output"].split()[:1] == ["1"]
    assert len(Path(path).read_text().splitlines()) == 100_000
    assert (os.stat(path).st_mode & 0o777, os.stat(os.path.dirname(path)).st_mode & 0o777) == (0o600, 0o700)
    assert len(list(Path(path).parent.iterdir())) == 2
    for left in Path(path).parent.iterdir():
        left.unlink()
    Path(path).parent.rmdir()


LOOK_FOR_KEYS = "env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'; ls /proc/self/fd; echo $KEPT"


@pytest.mark.promise("F07", "F25")
def test_commands_have_neither_keys_nor_descriptors(project: Project) -> None:
    env = {
        "ANTHROPIC_API_KEY": SECRET,
        "GITHUB_TOKEN": SECRET,
        "MY_SECRET_THING": SECRET,
        "MASTER_KEY": SECRET,
        "KEPT": "kept",
    }
    with project.agent(env=env) as agent:
        said = agent.get("bash", command=LOOK_FOR_KEYS)["output"]
    assert SECRET not in said
    assert said.split()[-5:] == ["0", "1", "2", "3", "kept"]  # the fourth is the folder that ls reads


def test_git_can_be_asked_but_not_changed(project: Project) -> None:
    git = {"cwd": project.tree, "check": True, "capture_output": True}
    subprocess.run(["git", "init", "-q"], **git)
    (project.tree / "a").write_text("a")
    with project.agent() as agent:
        asked = agent.get("bash", command=f"git -c safe.directory={project.tree} status --short")
        added = agent.get("bash", command=f"git -c safe.directory={project.tree} add a")
    assert (asked["exitCode"], "?? a" in asked["output"]) == (0, True)
    assert added["exitCode"] != 0 and "Read-only file system" in added["output"]


def test_the_level_is_reported_and_only_when_there_is_one(project: Project, tmp_path: Path) -> None:
    with project.agent() as agent:
        assert agent.get("get_state")["sandbox"] == project.level
    with Agent(tmp_path) as agent:
        assert "sandbox" not in agent.get("get_state")


def test_the_user_s_settings_choose_and_grant_but_a_project_s_do_not(project: Project) -> None:
    granted, cache = project.folder / "home" / "tools", project.folder / "home" / "cache"
    granted.mkdir()
    cache.mkdir()
    (granted / "a").write_text("granted")
    settings = {"sandbox": {"level": project.level, "readable": [str(granted)], "writable": [str(cache)]}}
    (project.tree / ".pi").mkdir()
    (project.tree / ".pi" / "settings.json").write_text('{"sandbox": {"level": null, "writable": ["~/.ssh"]}}')
    with Agent(project.folder, settings=settings, args=["--approve"]) as agent:
        assert agent.get("get_state")["sandbox"] == project.level
        command = f"cat {granted}/a; echo x > {granted}/b; echo made > {cache}/c; cat {project.secret}"
        said = agent.get("bash", command=command)["output"]
    assert "granted" in said and SECRET not in said
    assert not (granted / "b").exists() and (cache / "c").read_text() == "made\n"


def test_a_link_that_a_command_has_made_does_not_bring_the_user_s_files_to_the_model(project: Project) -> None:
    """tau itself reads context files and skills, outside; trusting a project does not trust what was written since."""
    skill = project.tree / ".agents" / "skills" / "note" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: note\ndescription: Take a note.\n---\nNote it.\n")
    (project.tree / ".pi").mkdir()
    (project.tree / ".pi" / "settings.json").write_text("{}")
    page = project.folder / "page.html"
    args = ["--sandbox", project.level, "--approve"]
    with Agent(project.folder, args=args) as agent:
        agent.get("bash", command=f"ln -s {project.secret} AGENTS.md")
    with Agent(project.folder, args=args) as agent:
        agent.prompt("/skill:note")
        agent.get("bash", command=f"ln -sf {project.secret} {skill}")
        agent.prompt("/skill:note")
        agent.get("export_html", outputPath=str(page))
        assert "AGENTS.md is a link that leads out of the project" in agent.stderr
    assert "Note it." in page.read_text()
    assert SECRET not in page.read_text()


def test_a_rule_about_paths_knows_the_temporary_folder_of_the_sandbox(project: Project) -> None:
    """Where a link is that nobody outside sees."""
    (project.tree / "keys").mkdir()
    (project.tree / "keys" / "a").write_text("secret\n")
    rules = project.folder / "rules.json"
    rules.write_text('{"deny": [{"path": "keys"}], "otherwise": "allow"}')
    turns = [
        tool_block("bash", command="ln -s $PWD/k* /tmp/link"),
        tool_block("read", path="/tmp/link/a"),
        tool_block("write", path="/tmp/link/b", content="x"),
        tool_block("grep", path="/tmp/link", pattern="secret"),
        tool_block("write", path="/tmp/c", content="x"),
    ]
    answers = [*({"blocks": [turn]} for turn in turns), {"text": "done"}]
    args = ["--sandbox", project.level, "--tools", "*", "--permissions", "rules", str(rules)]
    with Agent(project.folder, *answers, args=args) as agent:
        made, *denied, written = results(agent.prompt("go"))
    assert made == "(no output)"
    assert [text.partition(": ")[2][:16] for text in denied] == ["the rule deny[0]"] * 3
    assert written == "Successfully wrote to /tmp/c"


def test_a_repository_around_the_working_folder_can_be_read(project: Project) -> None:
    around = project.folder / "home" / "repo"
    (around / "part").mkdir(parents=True)
    (around / "beside.txt").write_text("beside")
    (around / ".git").mkdir()
    import tau

    with tau.sync.open(
        around / "part",
        sandbox=project.level,  # type: ignore[arg-type]
        script=[{"text": "ok"}],
        agent_dir=project.folder / "agent",
        env={**os.environ, "HOME": str(project.folder / "home")},
        session=False,
    ) as agent:
        assert agent.state.sandbox == project.level
        said = agent.bash(f"cat ../beside.txt; echo x > ../made; cat {project.secret}")
    assert said.output.startswith("beside") and SECRET not in said.output
    assert not (around / "made").exists()


def _picture() -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    head = (1).to_bytes(4, "big") * 2 + bytes([8, 0, 0, 0, 0])
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0\0")) + chunk(b"IEND", b"")

"""What the caller hands over as protected, session files and grants: nothing that decides about tau can be written."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from sandbox.launching import sandbox
from support.sandbox_escapes import LEVELS, missing, started
from tau.errors import UsageError
from tau.runtime.machine.jobs import ProcessLauncher
from tau.runtime.machine.local import LocalMachine
from tau.runtime.sandbox.policy import Sandbox


@pytest.fixture(params=LEVELS)
def level(request: pytest.FixtureRequest) -> str:
    if why := missing(request.param):
        pytest.skip(why)
    return str(request.param)


def run(made: Sandbox, command: str) -> str:
    """What a command in the sandbox says."""
    said: list[bytes] = []

    async def work() -> None:
        machine = LocalMachine(processes=ProcessLauncher(sandbox=made))
        await machine.run(command, cwd=made.tree, on_output=lambda stream, data: said.append(data))
        await machine.release()

    asyncio.run(work())
    return b"".join(said).decode()


def contents(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.promise("X10")
def test_files_and_folders_that_the_caller_names_cannot_be_changed(tmp_path: Path, level: str) -> None:
    work, granted = tmp_path / "work", tmp_path / "home" / "granted"
    protected = [work / "tools" / "deep" / "gate.py", work / "package", granted / "deep" / "x.py", tmp_path / "away.py"]
    for path in protected:
        file = path if path.suffix else path / "__init__.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("mine")
    before = contents(tmp_path)
    made = sandbox(tmp_path, level, writable=[str(granted)], protected=[str(path) for path in protected])
    for place in (work, granted):
        run(
            made,
            f"cd {place}; for file in $(find . -name '*.py'); do echo pwned > $file; rm -f $file; done; "
            "mv tools x; mv package y; mv deep z; mkdir -p tools/deep; echo pwned > tools/deep/gate.py; "
            "echo ok > other",
        )
    after = contents(tmp_path)
    assert {name: after.get(name) for name in before} == before
    assert (after["work/other"], after["home/granted/other"]) == ("ok\n", "ok\n")
    assert "mine" in run(made, "cat tools/deep/gate.py")


def test_a_protected_file_that_is_missing_cannot_be_made(tmp_path: Path, level: str) -> None:
    made = sandbox(tmp_path, level, protected=[str(tmp_path / "work" / "later" / "gate.py")])
    run(made, "mkdir -p later; echo pwned > later/gate.py; mv later x")
    assert contents(tmp_path / "work") == {}


def test_a_protected_link_is_refused(tmp_path: Path, level: str) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "real.py").touch()
    (tmp_path / "work" / "gate.py").symlink_to("real.py")
    with pytest.raises(UsageError, match=r"gate\.py, a link that commands can replace"):
        sandbox(tmp_path, level, protected=[str(tmp_path / "work" / "gate.py")])


def test_an_extension_that_is_the_working_folder_is_refused(tmp_path: Path, level: str) -> None:
    with pytest.raises(UsageError, match="configures tau itself"):
        sandbox(tmp_path, level, protected=[str(tmp_path / "work")])


def test_a_folder_for_sessions_in_the_working_folder_is_made_and_protected(tmp_path: Path, level: str) -> None:
    made = sandbox(tmp_path, level, sessions=tmp_path / "work" / "my" / "sessions")
    run(made, "echo pwned > my/sessions/a.jsonl; mv my x; mv my/sessions y")
    assert contents(tmp_path / "work") == {} and (tmp_path / "work" / "my" / "sessions").is_dir()


def test_a_folder_for_sessions_that_is_granted_is_refused(tmp_path: Path, level: str) -> None:
    (tmp_path / "home" / "s").mkdir(parents=True)
    with pytest.raises(UsageError, match="--session-dir"):
        sandbox(tmp_path, level, sessions=tmp_path / "home" / "s", writable=[str(tmp_path / "home" / "s")])
    made = sandbox(tmp_path, level, sessions=tmp_path / "home" / "s" / "in", writable=[str(tmp_path / "home" / "s")])
    run(made, f"cd {tmp_path}/home/s; echo pwned > in/a.jsonl; mv in x; echo ok > b")
    assert contents(tmp_path / "home" / "s") == {"b": "ok\n"}


def test_tau_s_own_files_in_a_folder_that_is_granted_stay_out_of_reach(tmp_path: Path, level: str) -> None:
    agent = tmp_path / "home" / "all" / "agent"
    agent.mkdir(parents=True)
    (agent / "auth.json").write_text("key")
    (tmp_path / "work").mkdir()
    environment = {"HOME": str(tmp_path / "home")}

    def granting(path: Path) -> Sandbox:
        return Sandbox(level, str(tmp_path / "work"), agent, None, (), [str(path)], environment)

    assert "key" not in run(granting(agent.parent), f"cat {agent}/auth.json; echo x > {agent}/settings.json")
    assert contents(agent) == {"auth.json": "key"}
    with pytest.raises(UsageError, match="cannot be granted"):
        granting(agent)


@pytest.mark.promise("X02")
@pytest.mark.parametrize("setting", ["readable", "writable"])
def test_a_grant_that_a_command_could_have_made_lead_elsewhere_is_refused(
    tmp_path: Path, level: str, setting: str
) -> None:
    """The user granted a folder of the project; a command of an earlier run has replaced it."""
    (tmp_path / "home" / "private").mkdir(parents=True)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "build").symlink_to(tmp_path / "home" / "private")
    with pytest.raises(UsageError, match="build, a link that commands can replace"):
        sandbox(tmp_path, level, **{setting: [str(tmp_path / "work" / "build")]})


def test_a_grant_by_a_link_that_only_the_user_can_change_is_fine(tmp_path: Path, level: str) -> None:
    (tmp_path / "home" / "real").mkdir(parents=True)
    (tmp_path / "home" / "real" / "a").write_text("granted")
    (tmp_path / "home" / "link").symlink_to("real")
    assert (
        run(sandbox(tmp_path, level, readable=[str(tmp_path / "home" / "link")]), "cat ~+/../home/real/a") == "granted"
    )


def test_skills_behind_a_link_can_be_read(tmp_path: Path, level: str) -> None:
    """As those do who keep such files in a repository of their own."""
    kept = tmp_path / "home" / "dotfiles" / "skills"
    kept.mkdir(parents=True)
    (kept / "SKILL.md").write_text("a skill")
    (tmp_path / "home" / ".agents").mkdir()
    (tmp_path / "home" / ".agents" / "skills").symlink_to(kept)
    assert run(sandbox(tmp_path, level), f"cat {tmp_path}/home/.agents/skills/SKILL.md") == "a skill"


def test_folders_that_lead_to_the_working_folder_in_a_grant_stay_in_place(tmp_path: Path, level: str) -> None:
    """Else a command would put another folder in the place of the working folder, with a `.git` of its own."""
    granted = tmp_path / "granted"
    tree = granted / "x" / "proj"
    tree.mkdir(parents=True)
    agent = tmp_path / "agent"
    agent.mkdir()
    environment = {"HOME": str(tmp_path / "home")}
    made = Sandbox(level, str(tree), agent, None, (), [str(granted)], environment)
    run(made, f"cd {granted}; mv x y; mkdir -p x/proj/.git; echo pwned > x/proj/.git/config; echo ok > beside")
    assert contents(granted) == {"beside": "ok\n"}


def test_a_working_folder_that_cannot_be_written_is_no_reason_to_refuse(tmp_path: Path) -> None:
    """What a command cannot create needs no placeholder. For root every folder can be written."""
    if os.geteuid() == 0:
        pytest.skip("root can write everywhere")
    granted = Path("/var/lib")
    assert run(sandbox(tmp_path, "workspace", writable=[str(granted)]), "echo ok") == "ok\n"


def test_too_many_paths_to_protect_are_refused(tmp_path: Path, level: str) -> None:
    (tmp_path / "work" / ".git").mkdir(parents=True)
    names = [f"m{number}" for number in range(1100)]
    for name in names:
        (tmp_path / "work" / name).mkdir()
    (tmp_path / "work" / ".gitmodules").write_text("".join(f'[submodule "{name}"]\npath={name}\n' for name in names))
    done = started(tmp_path, level)
    assert done.returncode == 2
    assert "cannot be enforced, so nothing is started: there are more than 1000 paths to protect" in done.stderr

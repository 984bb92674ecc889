"""tau install, remove, update, list and config; npm with a registry on loopback, git with local repositories."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from long.package_kills import Trial
from support.npm_registry import Registry, npm_or_skip, serve_registry
from support.package_place import SKILL, TAU, WITHIN, Place, write
from tau.store.files import STALE_LOCK_S


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def registry() -> Iterator[Registry]:
    npm_or_skip()
    with serve_registry() as registry:
        yield registry


# npm


def test_packages_of_npm_are_installed_updated_and_removed(tmp_path: Path, registry: Registry) -> None:
    place = Place(tmp_path, registry.url)
    registry.publish("dep", "1.0.0")
    for version in ("1.0.0", "1.1.0"):
        skills = {"skills/x/SKILL.md": SKILL.format("x"), "theme.json": version}
        registry.publish("kit", version, skills, pi={"skills": ["skills"]}, dependencies={"dep": "^1"})
    peer = {"@earendil-works/pi-coding-agent": "*"}
    scripts = {"postinstall": "echo ran > ran.txt"}
    registry.publish(
        "tool", "1.0.0", {"index.py": ""}, peerDependencies=peer, scripts=scripts, pi={"extensions": ["index.py"]}
    )

    said = place.tau("install", "npm:kit@1.0.0").stdout
    assert said == "Installed npm:kit@1.0.0 (1.0.0), 1 dependency\nIt brings 1 skill.\n"
    said = place.tau("install", "npm:tool").stdout
    assert "Extensions run with your rights." in said
    assert "Install scripts that were not run: tool. To run them: --allow-scripts tool" in said
    root = place.agent / "npm"
    assert not (root / "node_modules" / "tool" / "ran.txt").exists()
    assert sorted(path.name for path in (root / "node_modules").iterdir() if path.name[0] != ".") == [
        "dep",
        "kit",
        "tool",
    ]
    assert place.packages() == ["npm:kit@1.0.0", "npm:tool"]
    assert [(row["source"], row["version"], row["changed"]) for row in place.rows()] == [
        ("npm:kit@1.0.0", "1.0.0", False),
        ("npm:tool", "1.0.0", False),
    ]
    assert not list(place.agent.glob(".tau-staging*"))

    # a pinned package is not updated
    registry.publish("tool", "1.2.0", {"index.py": ""}, pi={"extensions": ["index.py"]})
    assert "npm:tool: updated to 1.2.0" in place.tau("update").stdout
    assert [row["version"] for row in place.rows()] == ["1.0.0", "1.2.0"]
    lock = json.loads((place.agent / "packages.lock.json").read_text())["packages"]["npm:tool"]
    assert (lock["version"], lock["integrity"]) == ("1.2.0", registry.dist("tool", "1.2.0")["integrity"])
    assert place.tau("remove", "npm:kit@9.9.9").stdout == "Removed npm:kit@9.9.9\n"
    assert place.packages() == ["npm:tool"]
    assert not (root / "node_modules" / "kit").exists()
    assert list(json.loads((place.agent / "packages.lock.json").read_text())["packages"]) == ["npm:tool"]
    gone = place.tau("remove", "tool", code=1)
    assert "No matching package found for tool. Did you mean npm:tool?" in gone.stderr


@pytest.mark.promise("U01")
def test_install_scripts_run_only_if_they_are_named(tmp_path: Path, registry: Registry) -> None:
    place = Place(tmp_path, registry.url)
    scripts = {"postinstall": "echo ran > ran.txt"}
    registry.publish("tool", "1.0.0", {"extensions/a.py": ""}, scripts=scripts)
    place.tau("install", "npm:tool", "--allow-scripts", "tool")
    assert (place.agent / "npm" / "node_modules" / "tool" / "ran.txt").exists()
    assert place.rows()[0]["changed"] is False
    entry = json.loads((place.agent / "packages.lock.json").read_text())["packages"]["npm:tool"]
    assert (entry["scripts"], entry["built"]) == (["tool"], ["tool"])
    refused = place.tau("install", "npm:tool", "--allow-scripts", "other", code=1)
    assert "other: it has no install script" in refused.stderr


@pytest.mark.promise("U02")
def test_a_tarball_with_another_digest_or_without_one_is_refused(tmp_path: Path, registry: Registry) -> None:
    place = Place(tmp_path, registry.url)
    place.repository("me/good", {"skills/x/SKILL.md": SKILL.format("x")})
    registry.publish("bad", "1.0.0", {"index.js": ""})
    registry.tamper("bad", "1.0.0")
    registry.publish("old", "1.0.0")
    del registry.dist("old", "1.0.0")["integrity"]
    registry.publish("plain", "1.0.0")
    registry.dist("plain", "1.0.0")["tarball"] = "http://example.org/plain.tgz"
    place.tau("install", "git:example.org/me/good")
    before = sorted(path for path in place.agent.rglob("*"))
    settings, locked = (place.agent / "settings.json").read_bytes(), (place.agent / "packages.lock.json").read_bytes()
    assert "integrity" in place.tau("install", "npm:bad", code=1).stderr.lower()
    assert "has no SHA-512" in place.tau("install", "npm:old", code=1).stderr
    assert "over https" in place.tau("install", "npm:plain", code=1).stderr
    assert "example.org" not in str(registry.requests)
    assert "404" in place.tau("install", "npm:none", code=1).stderr
    assert sorted(path for path in place.agent.rglob("*")) == before
    assert ((place.agent / "settings.json").read_bytes(), (place.agent / "packages.lock.json").read_bytes()) == (
        settings,
        locked,
    )


@pytest.mark.promise("U03")
def test_a_tarball_cannot_write_outside_of_its_folder(tmp_path: Path, registry: Registry) -> None:
    place = Place(tmp_path, registry.url)
    (place.home / "secret.md").write_text("secret")
    hostile = {
        "package/../../../evil.md": "evil",
        f"{place.home}/evil.md": "evil",
        "package/prompts/link.md": f"-> {place.home}/secret.md",
        "package/prompts/up": "-> ../../../..",
        "package/prompts/up/evil.md": "evil",
    }
    registry.publish("odd", "1.0.0", {"prompts/ok.md": "ok"}, hostile=hostile)
    place.tau("install", "npm:odd")
    inside = place.agent / "npm" / "node_modules" / "odd"
    assert [path for path in tmp_path.rglob("evil.md") if not path.is_relative_to(inside)] == []
    assert [path for path in inside.rglob("*") if path.is_symlink()] == []
    rows = json.loads(place.tau("config", "--json").stdout)
    assert "secret" not in "".join(Path(row["path"]).read_text() for row in rows)


@pytest.mark.promise("U09")
def test_a_dry_run_and_an_offline_run_fetch_nothing(tmp_path: Path, registry: Registry) -> None:
    place = Place(tmp_path, registry.url)
    registry.publish("kit", "1.0.0", dependencies={"dep": "1"}, scripts={"install": "true"})
    registry.publish("dep", "1.0.0")
    said = place.tau("install", "npm:kit", "--dry-run").stdout
    assert said.startswith("Would install npm:kit (1.0.0), 1 dependency\nInstall scripts that were not run: kit.")
    assert not (place.agent / "npm").exists() and place.packages() == []
    assert [path for path in registry.requests if path.endswith(".tgz")] == []
    registry.requests.clear()
    offline = place.tau("install", "npm:kit", code=1, PI_OFFLINE="1")
    assert offline.stderr == "Error: npm:kit is not installed: nothing is fetched offline.\n"
    place.tau("install", "npm:kit", "--offline", code=1)
    assert registry.requests == []


# git


def test_repositories_are_cloned_updated_and_removed(place: Place) -> None:
    kit = place.repository("me/kit", {"skills/x/SKILL.md": SKILL.format("x")})
    place.git("tag", "v1", cwd=kit)
    place.tau("install", "git:example.org/me/kit")
    folder = place.agent / "git" / "example.org" / "me" / "kit"
    assert (folder / "skills" / "x" / "SKILL.md").exists()
    assert (place.agent / "git" / ".gitignore").read_text() == "*\n!.gitignore\n"
    place.commit(kit, {"skills/y/SKILL.md": SKILL.format("y")})
    assert "updated to" in place.tau("update").stdout
    assert (folder / "skills" / "y").exists() and place.rows()[0]["changed"] is False
    assert "unchanged" in place.tau("update", "git:git@example.org:me/kit").stdout

    place.tau("install", "https://example.org/me/kit@v1")
    assert place.packages() == ["https://example.org/me/kit@v1"]
    assert not (folder / "skills" / "y").exists()
    (folder / "skills" / "x" / "SKILL.md").write_text("mine")
    assert place.rows()[0]["changed"] is True
    assert "changes of its own (skills/x/SKILL.md); --force discards them" in place.tau("update", code=1).stderr
    place.tau("update", "--force")
    assert place.rows()[0]["changed"] is False

    place.tau("uninstall", "git:example.org/me/kit")
    assert place.packages() == [] and sorted(path.name for path in (place.agent / "git").iterdir()) == [".gitignore"]


@pytest.mark.promise("U06")
def test_two_installations_at_once_are_both_there(place: Place) -> None:
    for name in ("one", "two"):
        place.repository(f"me/{name}", {"skills/x/SKILL.md": SKILL.format(name)})
    sources = ["git:example.org/me/one", "git:example.org/me/two"]
    words = [[TAU, "install", source] for source in sources]
    running = [subprocess.Popen(each, cwd=place.work, env=place.env, stderr=subprocess.DEVNULL) for each in words]
    assert [each.wait(WITHIN) for each in running] == [0, 0]
    assert sorted(place.packages()) == sources
    assert [(row["missing"], row["locked"]) for row in place.rows()] == [(False, True), (False, True)]


@pytest.mark.promise("U04")
def test_hooks_and_submodules_of_a_repository_are_not_used(place: Place) -> None:
    place.repository("me/inner", {"evil.txt": ""})
    kit = place.repository("me/kit", {"prompts/p.md": "p", "hooks/post-checkout": "#!/bin/sh\ntouch ran\n"})
    (kit / "hooks" / "post-checkout").chmod(0o755)
    place.git(
        "-c", "protocol.file.allow=always", "submodule", "add", f"file://{place.repos}/me/inner", "inner", cwd=kit
    )
    place.commit(kit, {})
    config = Path(place.env["GIT_CONFIG_GLOBAL"])
    config.write_text(config.read_text() + f"[core]\n\thooksPath = {kit / 'hooks'}\n[submodule]\n\trecurse = true\n")
    place.tau("install", "git:example.org/me/kit")
    folder = place.agent / "git" / "example.org" / "me" / "kit"
    assert (folder / "prompts" / "p.md").exists()
    assert not (folder / "inner" / "evil.txt").exists()
    assert list(place.home.rglob("ran")) == [] == list(place.work.rglob("ran"))


@pytest.mark.promise("U12")
def test_a_repository_that_cannot_be_cloned_leaves_nothing(place: Place) -> None:
    place.repository("me/kit", {"a": ""})
    for source in ("git:example.org/me/none", "git:example.org/me/kit@nothing"):
        place.tau("install", source, code=1)
    assert place.packages() == [] and list((place.agent / "git").rglob("kit")) == []
    assert place.tau("install", "git:example.org/../../kit/x", code=2).stderr.startswith(
        "Error: git:example.org/../../kit/x: "
    )


@pytest.mark.promise("U05")
def test_an_update_that_pi_was_cut_off_in_is_finished(place: Place) -> None:
    place.repository("me/kit", {"prompts/p.md": "p"})
    place.tau("install", "git:example.org/me/kit")
    folder = place.agent / "git" / "example.org" / "me" / "kit"
    marker = folder.parent / ".kit.pi-update-incomplete"
    marker.touch()
    (folder / "prompts" / "p.md").unlink()
    place.tau("update", "--force")
    assert (folder / "prompts" / "p.md").exists() and not marker.exists()


@pytest.mark.promise("U05")
def test_a_lock_that_a_killed_git_left_does_not_stop_an_update(place: Place) -> None:
    kit = place.repository("me/kit", {"skills/x/SKILL.md": SKILL.format("x")})
    place.tau("install", "git:example.org/me/kit")
    folder = place.agent / "git/example.org/me/kit"
    (folder / ".git" / "index.lock").touch()
    place.commit(kit, {"skills/y/SKILL.md": SKILL.format("y")})
    place.tau("update")
    assert (folder / "skills" / "y").exists() and not (folder / ".git" / "index.lock").exists()


# Settings, scopes and trust


def test_settings_keep_their_comments_and_filters(place: Place) -> None:
    write(place.work, {"kit/prompts/p.md": "p"})
    (place.agent / "settings.json").write_text('{\n  // mine\n  "theme": "dark",\n  "unknown": 1\n}\n')
    place.tau("install", "./kit")
    text = (place.agent / "settings.json").read_text()
    assert "// mine" in text and '"unknown": 1' in text and "work/kit" in text
    place.tau("config", "off", "prompts/p.md")
    place.tau("install", str(place.work / "kit"))
    assert '"-prompts/p.md"' in (place.agent / "settings.json").read_text()


def test_a_lock_that_a_killed_program_left_is_waited_for(place: Place) -> None:
    write(place.work, {"kit/prompts/p.md": "p"})
    lock = place.agent / "settings.json.lock"
    lock.mkdir()
    almost_stale = time.time() - STALE_LOCK_S + 0.5
    os.utime(lock, (almost_stale, almost_stale))
    place.tau("install", "./kit")
    assert len(place.packages()) == 1 and not lock.exists()


@pytest.mark.promise("U10")
def test_a_damaged_settings_file_is_not_written(place: Place) -> None:
    write(place.work, {"kit/prompts/p.md": "p"})
    (place.agent / "settings.json").write_text('{"packages": [')
    assert "settings.json" in place.tau("install", "./kit", code=1).stderr
    assert (place.agent / "settings.json").read_text() == '{"packages": ['


@pytest.mark.promise("U10")
def test_a_folder_that_cannot_be_written_is_told(place: Place) -> None:
    write(place.work, {"kit/prompts/p.md": "p"})
    done = place.tau("install", "./kit", code=1, PI_CODING_AGENT_DIR="/proc/agent")
    assert done.stderr == "Error: /proc/agent: No such file or directory\n" and done.stdout == ""


@pytest.mark.promise("U07")
def test_packages_of_a_project_need_trust_which_an_installation_renews(place: Place) -> None:
    write(place.work, {"kit/prompts/p.md": "p", "other/prompts/q.md": "q"})
    place.tau("install", "-l", "./kit")  # a project without anything that needs trust
    assert place.packages(local=True) == ["../kit"]
    place.tau("install", "-l", "./other")
    assert [row["source"] for row in place.rows()] == ["../kit", "../other"]
    write(place.work, {"kit/prompts/p.md": "changed"})
    untrusted = place.tau("list")
    assert untrusted.stdout == "No packages installed.\n"
    assert "This project is not trusted" in untrusted.stderr and "its content has changed since" in untrusted.stderr
    refused = place.tau("remove", "-l", "./kit", code=1)
    assert "This project is not trusted." in refused.stderr
    place.tau("remove", "-l", "--approve", "./kit")
    assert place.packages(local=True) == ["../other"]


def test_a_project_changes_a_package_of_the_user_for_itself(place: Place) -> None:
    write(place.work, {"kit/prompts/p.md": "p", "kit/prompts/q.md": "q"})
    place.tau("install", "./kit")
    place.tau("config", "-l", "off", "prompts/q.md")
    assert place.packages(local=True) == [{"source": "../kit", "autoload": False, "prompts": ["-prompts/q.md"]}]
    rows = json.loads(place.tau("config", "--json").stdout)
    assert {row["name"]: row["enabled"] for row in rows} == {"prompts/p.md": True, "prompts/q.md": False}
    place.tau("config", "-l", "reset", "prompts/q.md")
    assert place.packages(local=True) == []


def test_resources_in_the_usual_folders_can_be_turned_off(place: Place) -> None:
    write(place.agent, {"prompts/mine.md": "m", "extensions/one.py": ""})
    place.tau("config", "off", "extensions/one.py")
    assert json.loads((place.agent / "settings.json").read_text()) == {"extensions": ["-extensions/one.py"]}
    rows = json.loads(place.tau("config", "--json").stdout)
    assert {row["name"]: row["enabled"] for row in rows} == {"extensions/one.py": False, "prompts/mine.md": True}


def test_doctor_tells_about_packages(place: Place) -> None:
    kit = place.agent / "npm" / "node_modules" / "kit"
    write(kit, {"package.json": json.dumps({"version": "1.0.0", "engines": {"node": ">=99"}}), "prompts/p.md": ""})
    write(kit, {"node_modules/@earendil-works/pi-tui/package.json": "{}"})
    (place.agent / "settings.json").write_text(json.dumps({"packages": ["npm:kit", "npm:none"]}))
    said = place.tau("doctor", code=1).stdout
    assert 'npm:none is not installed; run "tau install npm:none"' in said
    assert "npm:kit: installed by another program" in said
    assert "brings its own copy of @earendil-works/pi-tui" in said
    if shutil.which("node"):
        assert "npm:kit wants Node >=99" in said


@pytest.mark.parametrize("program", ["tau", "pi"])
def test_the_first_words_are_commands_of_both_programs(place: Place, program: str) -> None:
    done = subprocess.run(
        [TAU.with_name(program), "list"], cwd=place.work, env=place.env, capture_output=True, text=True, timeout=WITHIN
    )
    assert (done.returncode, done.stdout) == (0, "No packages installed.\n")


@pytest.mark.promise("U05")
def test_a_killed_update_leaves_the_old_state_or_the_new_one(tmp_path: Path) -> None:
    """A few moments; tests/long/package_kills.py has 20 of each command."""
    trial = Trial(tmp_path, "git", None)
    assert len(trial.updates(2)) == 2

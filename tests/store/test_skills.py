from __future__ import annotations

import os
from pathlib import Path

import pytest

from tau.core.conversation.slash_commands import ResourceOrigin, Skill
from tau.store.path_lists import PathList
from tau.store.skills import MAX_ENTRIES, MAX_SKILL_BYTES, MAX_SKILLS, ResourceLocation, find_skills, skill_body

USER = ResourceOrigin("user", "auto")


def write(path: Path, name: str = "", description: str = "Does it.", body: str = "Do it.", **more: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    named = {"name": name} if name else {}
    fields = "".join(f"{key.replace('_', '-')}: {value}\n" for key, value in {**named, **more}.items())
    path.write_text(f"---\n{fields}description: {description}\n---\n{body}\n")
    return path


def found(*folders: Path, entries: tuple[str, ...] = ()) -> tuple[list[str], list[str]]:
    """Names, and what is wrong."""
    skills, problems = find_skills([ResourceLocation(folder, USER, PathList(entries)) for folder in folders])
    return [skill.name for skill in skills], problems


def test_a_skill_is_a_folder_with_a_file(tmp_path: Path) -> None:
    path = write(tmp_path / "deploy" / "SKILL.md", "deploy", '"To prod: now"', "# Deploy\n", license="MIT")
    skills, problems = find_skills([ResourceLocation(tmp_path, USER)])
    assert skills == [Skill("deploy", "To prod: now", str(path), str(path.parent), False, USER)]
    assert problems == []
    assert skill_body(skills[0]) == "# Deploy"


def test_folders_are_searched_and_skills_are_not(tmp_path: Path) -> None:
    write(tmp_path / "a" / "b" / "deep" / "SKILL.md")
    write(tmp_path / "one" / "SKILL.md")
    write(tmp_path / "one" / "inside" / "SKILL.md")
    write(tmp_path / ".hidden" / "SKILL.md")
    write(tmp_path / "node_modules" / "x" / "SKILL.md")
    assert found(tmp_path) == (["deep", "one"], [])


def test_markdown_files_are_skills_in_the_first_folder_only(tmp_path: Path) -> None:
    write(tmp_path / "quick.md")
    write(tmp_path / "folder" / "not.md")
    (tmp_path / "README.md").write_text("# No fields, no skill\n")
    assert found(tmp_path) == (["quick"], [])


def test_a_folder_that_is_a_skill_may_be_named(tmp_path: Path) -> None:
    path = write(tmp_path / "deploy" / "SKILL.md")
    assert found(path.parent) == found(path) == (["deploy"], [])


def test_the_first_of_a_name_counts(tmp_path: Path) -> None:
    first, second = write(tmp_path / "a" / "x" / "SKILL.md"), write(tmp_path / "b" / "x" / "SKILL.md")
    problem = f"skill 'x' of {second} is not used: {first} has the same name"
    assert found(tmp_path / "a", tmp_path / "b") == (["x"], [problem])


def test_links_are_followed_and_a_file_counts_once(tmp_path: Path) -> None:
    write(tmp_path / "elsewhere" / "x" / "SKILL.md")
    (tmp_path / "skills").mkdir()
    (tmp_path / "skills" / "linked").symlink_to(tmp_path / "elsewhere" / "x")
    (tmp_path / "skills" / "again").symlink_to(tmp_path / "elsewhere" / "x")
    assert found(tmp_path / "skills", tmp_path / "elsewhere") == (["again"], [])


def test_a_loop_of_links_ends(tmp_path: Path) -> None:
    write(tmp_path / "x" / "SKILL.md")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "self").symlink_to("self")
    assert found(tmp_path) == (["x"], [])


def test_ignore_files_are_honoured(tmp_path: Path) -> None:
    for name in ("kept", "drafts/a", "drafts/b", "old"):
        write(tmp_path / name / "SKILL.md")
    write(tmp_path / "note.md")
    (tmp_path / ".gitignore").write_text("drafts/*\n!drafts/b\n")
    (tmp_path / ".fdignore").write_text("note.md\n")
    (tmp_path / "old").joinpath(".ignore").write_text("SKILL.md\n")
    assert found(tmp_path) == (["b", "kept"], [])


def test_an_ignore_file_made_to_take_for_ever_does_not(tmp_path: Path) -> None:
    write(tmp_path / ("a" * 120) / "SKILL.md", "x")
    (tmp_path / ".gitignore").write_text("*a" * 40 + "b\n" + "{a,aa}" * 60 + "b\n")
    assert found(tmp_path) == (["x"], [])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("no fields at all", "it has no description"),
        ("---\nname: x\n---\n", "it has no description"),
        ("---\ndescription: [a]\n---\n", "it has no description"),
        ("---\ndescription: a: b\n---\n", "line 2: mapping values are not allowed in this context"),
        ("---\nname: two words\ndescription: x\n---\n", "its name is not a single word"),
        ("---\ndescription: x\n---\n" + "x" * MAX_SKILL_BYTES, f"it has more than {MAX_SKILL_BYTES} bytes"),
        ("---\nx: " + "[" * 60_000, "it has no description"),
        ("---\nx: " + "[" * 60_000 + "\n---\n", "the fields are nested more than 16 deep"),
    ],
)
def test_what_is_no_skill_is_reported(text: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "x" / "SKILL.md"
    path.parent.mkdir()
    path.write_text(text)
    assert found(tmp_path) == ([], [f"skill {path} is not used: {why}"])


@pytest.mark.parametrize(
    ("name", "description", "wrong"),
    [
        ("Bad_Name", "x", "its name 'Bad_Name' has other characters than a-z, 0-9 and -"),
        ("-x", "x", "its name '-x' has a hyphen at an end, or two in a row"),
        ("x" * 65, "x", "its name has more than 64 characters"),
        ("x", "y" * 1025, "its description has more than 1024 characters: the model sees the first of them"),
    ],
)
def test_what_is_wrong_with_a_skill_that_is_used_is_reported(
    name: str, description: str, wrong: str, tmp_path: Path
) -> None:
    path = write(tmp_path / "x" / "SKILL.md", name, description)
    assert found(tmp_path) == ([name], [f"skill {path}: {wrong}"])


def test_a_skill_may_be_for_the_user_only(tmp_path: Path) -> None:
    write(tmp_path / "x" / "SKILL.md", disable_model_invocation="true")
    assert [skill.hidden for skill in find_skills([ResourceLocation(tmp_path, USER)])[0]] == [True]


def test_pipes_are_not_opened(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    os.mkfifo(tmp_path / "x" / "SKILL.md")
    os.mkfifo(tmp_path / "y.md")
    os.mkfifo(tmp_path / ".gitignore")
    assert found(tmp_path) == ([], [f"skill {tmp_path / 'x' / 'SKILL.md'} is not used: it is not a regular file"])


def test_a_link_that_cannot_lead_anywhere_is_skipped(tmp_path: Path) -> None:
    write(tmp_path / "x" / "SKILL.md")
    (tmp_path / "link").symlink_to("a" * 300)  # longer than any name
    (tmp_path / "link.md").symlink_to("a" * 300)
    assert found(tmp_path) == (["x"], [])


def test_a_walk_has_an_end(tmp_path: Path) -> None:
    for number in range(MAX_ENTRIES + 10):
        (tmp_path / f"{number:05}").touch()
    names, problems = found(tmp_path)
    assert (names, problems) == ([], [f"{tmp_path} has too many files or folders: only those found so far are used"])
    deep = tmp_path / "deep"
    write(deep.joinpath(*"abcdefghi") / "SKILL.md")
    write(deep.joinpath(*"1234567") / "x" / "SKILL.md")
    assert found(deep) == (["x"], [])


def test_there_are_not_more_skills_than_a_model_can_be_told(tmp_path: Path) -> None:
    for number in range(MAX_SKILLS + 2):
        write(tmp_path / f"s{number}" / "SKILL.md")
    names, problems = found(tmp_path)
    assert len(names) == MAX_SKILLS and problems == [
        f"there are more than {MAX_SKILLS} skills: the others are not used"
    ]


def test_what_was_named_and_is_not_there_is_reported(tmp_path: Path) -> None:
    assert find_skills([ResourceLocation(tmp_path / "no", USER)]) == ([], [])
    assert find_skills([ResourceLocation(tmp_path / "no", USER, expected=True)]) == (
        [],
        [f"skill {tmp_path / 'no'}: not found"],
    )


def test_settings_leave_out_and_bring_back(tmp_path: Path) -> None:
    for name in ("a", "drafts/b", "drafts/c"):
        write(tmp_path / name / "SKILL.md")
    assert found(tmp_path, entries=(f"!{tmp_path}/drafts/**",)) == (["a"], [])
    assert found(tmp_path, entries=(f"!{tmp_path}/drafts/**", f"+{tmp_path}/drafts/c")) == (["a", "c"], [])
    assert found(tmp_path, entries=(f"-{tmp_path}/a",)) == (["b", "c"], [])


def test_settings_name_files_folders_and_globs(tmp_path: Path) -> None:
    for name in ("a.md", "b.md", "c.txt"):
        (tmp_path / name).touch()
    lines = (f"{tmp_path}/*.md", f"{tmp_path}/c.txt", f"+{tmp_path}/d", f"-{tmp_path}/a.md", f"{tmp_path}/*.zip", "")
    paths, problems = PathList(lines).paths()
    assert ([path.name for path in paths], problems) == (["a.md", "b.md", "c.txt", "d"], [])

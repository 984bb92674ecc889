from __future__ import annotations

import os
from pathlib import Path

from tau.core.conversation.slash_commands import ResourceOrigin, Template
from tau.store.skills import ResourceLocation
from tau.store.templates import MAX_TEMPLATE_BYTES, find_templates

USER, PROJECT = ResourceOrigin("user", "auto"), ResourceOrigin("project", "auto")


def found(*folders: Path) -> tuple[dict[str, str], list[str]]:
    """Descriptions by name, and what is wrong."""
    templates, problems = find_templates([ResourceLocation(folder, USER) for folder in folders], None)
    return {template.name: template.description for template in templates}, problems


def test_a_template_is_a_file_with_a_name(tmp_path: Path) -> None:
    path = tmp_path / "review.md"
    path.write_text('---\ndescription: Review code\nargument-hint: "<file>"\n---\n\nReview $1\n')
    assert find_templates([ResourceLocation(tmp_path, USER)], None) == (
        [Template("review", "Review code", "<file>", "Review $1", str(path), USER)],
        [],
    )


def test_without_fields_the_text_is_as_it_is_and_its_first_line_describes_it(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("\n  First line.\nSecond line.\n")
    (tmp_path / "b.md").write_text("x" * 61)
    (tmp_path / "c.md").write_text("")
    templates, _ = find_templates([ResourceLocation(tmp_path, USER)], None)
    assert [(template.description, template.body) for template in templates] == [
        ("First line.", "\n  First line.\nSecond line.\n"),
        ("x" * 60 + "...", "x" * 61),
        ("", ""),
    ]


def test_folders_are_not_searched(tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "x.md").write_text("x")
    (tmp_path / "x.txt").write_text("x")
    assert found(tmp_path) == ({}, [])
    assert found(tmp_path / "inside" / "x.md") == ({"x": "x"}, [])


def test_the_first_of_a_name_counts(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.md").write_text(name)
    problem = f"template /x of {tmp_path}/b/x.md is not used: {tmp_path}/a/x.md has the same name"
    assert found(tmp_path / "a", tmp_path / "b") == ({"x": "a"}, [problem])


def test_what_is_no_template_is_reported_or_passed_over(tmp_path: Path) -> None:
    (tmp_path / "big.md").write_text("x" * (MAX_TEMPLATE_BYTES + 1))
    (tmp_path / "broken.md").write_text("---\na: b: c\n---\n")
    (tmp_path / "loop.md").symlink_to("loop.md")
    os.mkfifo(tmp_path / "pipe.md")
    assert found(tmp_path) == (
        {},
        [
            f"template {tmp_path}/big.md is not used: it has more than {MAX_TEMPLATE_BYTES} bytes",
            f"template {tmp_path}/broken.md is not used: line 2: mapping values are not allowed in this context",
        ],
    )


def test_a_link_out_of_a_project_needs_trust(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    folder = tmp_path / "repo" / ".pi" / "prompts"
    folder.mkdir(parents=True)
    (folder / "review.md").symlink_to(tmp_path / "secret")
    problem = f"{folder}/review.md is a link that leads out of the project: not used"
    assert find_templates([ResourceLocation(folder, PROJECT)], tmp_path / "repo") == ([], [problem])
    assert [template.body for template in find_templates([ResourceLocation(folder, PROJECT)], None)[0]] == ["secret"]


def test_a_missing_folder_is_reported_if_it_was_named(tmp_path: Path) -> None:
    assert find_templates([ResourceLocation(tmp_path / "no", USER)], None) == ([], [])
    assert find_templates([ResourceLocation(tmp_path / "no", USER, expected=True)], None) == (
        [],
        [f"{tmp_path}/no cannot be read: No such file or directory"],
    )

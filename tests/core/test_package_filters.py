"""Filters of packages: which of the offered files are used. The rows agree with pi 0.87.1."""

from __future__ import annotations

import pytest

from tau.core.packages.filters import chosen, overrides

ROOT = "/agent/npm/node_modules/kit"
A, B, C = "extensions/a.ts", "extensions/b.ts", "extensions/sub/c.ts"
X, Y, Z = "skills/x/SKILL.md", "skills/y/SKILL.md", "skills/z.md"
ALL = [A, B, C, X, Y, Z]

CHOSEN: list[tuple[list[str], list[str]]] = [
    ([A], [A]),
    (["a.ts"], [A]),
    (["*.ts"], [A, B, C]),
    (["extensions/*.ts"], [A, B]),
    (["extensions/**"], [A, B, C]),
    (["extensions/**/*.ts"], [A, B, C]),
    (["**/*.md"], [X, Y, Z]),
    (["skills/x"], [X]),
    (["x"], [X]),
    (["skills/*"], [X, Y, Z]),
    (["?.ts"], [A, B, C]),
    (["{a,b}.ts"], [A, B]),
    (["[ab].ts"], [A, B]),
    (["[!a].ts"], [B, C]),
    ([f"{ROOT}/{B}"], [B]),
    (["other.ts"], []),
    (["."], []),
    (["!a.ts"], [B, C, X, Y, Z]),
    (["!extensions/**"], [X, Y, Z]),
    (["!skills/x"], [A, B, C, Y, Z]),
    (["*.ts", "!b.ts"], [A, C]),
    (["!b.ts", "*.ts"], [A, C]),
    ([f"-{A}"], [B, C, X, Y, Z]),
    (["-a.ts"], ALL),  # an exact path, not a name
    ([f"-./{A}"], [B, C, X, Y, Z]),
    (["-skills/y"], [A, B, C, X, Z]),
    ([f"+{A}"], ALL),
    (["!**", f"+{A}"], [A]),
    (["!**", "+skills/x"], [X]),
    (["!**", "+a.ts"], []),
    ([f"+{A}", f"-{A}"], [B, C, X, Y, Z]),
    ([f"-{A}", f"+{A}"], [B, C, X, Y, Z]),  # taking away wins
    (["b.ts", f"+{A}"], [A, B]),
    (["b.ts", "+extensions/none.ts"], [B]),
]


@pytest.mark.parametrize(("entries", "kept"), CHOSEN)
def test_a_list_of_entries_chooses_files(entries: list[str], kept: list[str]) -> None:
    assert chosen([f"{ROOT}/{name}" for name in ALL], entries, ROOT) == [f"{ROOT}/{name}" for name in kept]


OVERRIDES: list[tuple[list[str], dict[str, bool]]] = [
    ([], {}),
    ([f"-{A}"], {A: False}),
    ([f"+{A}"], {A: True}),
    (["*.ts"], {A: True, B: True, C: True}),
    (["!*.ts"], {A: False, B: False, C: False}),
    (["!*.ts", f"+{B}"], {A: False, B: True, C: False}),
    ([f"+{B}", "!*.ts"], {A: False, B: False, C: False}),  # the later entry wins
    (["-skills/x"], {X: False}),
]


@pytest.mark.parametrize(("entries", "said"), OVERRIDES)
def test_entries_with_autoload_false_speak_only_of_what_they_match(entries: list[str], said: dict[str, bool]) -> None:
    found = overrides([f"{ROOT}/{name}" for name in ALL], entries, ROOT)
    assert found == {f"{ROOT}/{name}": used for name, used in said.items()}


def test_a_star_does_not_match_a_name_with_a_dot() -> None:
    paths = [f"{ROOT}/.hidden/a.ts", f"{ROOT}/.b.ts"]
    assert chosen(paths, ["*.ts", "**/*.ts"], ROOT) == [f"{ROOT}/.hidden/a.ts"]  # its name is a.ts


def test_a_glob_with_many_braces_ends() -> None:
    assert chosen([f"{ROOT}/{A}"], ["{a,b}" * 40], ROOT) == []

"""The task file: what is accepted, and the line and field of every mistake."""

from __future__ import annotations

import pytest

from tau.core.fleet.tasks import DEFAULT_TIME_LIMIT_S, MAX_LINE_BYTES, read_tasks


def test_lines_comments_and_defaults() -> None:
    lines = [b"# a comment", b"", b'{"id": "a", "prompt": "x"}', b"// more", b'{"prompt": ["x", "y"], "model": "m"}']
    tasks, mistakes = read_tasks(lines, {"model": "demo"})
    assert mistakes == []
    assert [(task.task.model, task.task.budget.time_limit) for task in tasks] == [
        ("demo", DEFAULT_TIME_LIMIT_S),
        ("m", DEFAULT_TIME_LIMIT_S),
    ]
    assert tasks[0].id == "a"
    assert tasks[1].id == tasks[1].hash[:12]


def test_the_hash_is_that_of_the_meaning() -> None:
    first, _ = read_tasks([b'{"id":"a","prompt":"x","retries":2}'], {})
    second, _ = read_tasks([b'{ "prompt": "x", "id": "a" }'], {})
    assert first[0].hash == second[0].hash


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"nonsense", "not JSON"),
        (b"[1]", "not an object"),
        (b'{"id":"a"}', "prompt: give"),
        (b'{"id":"a","prompt":"x","promptFile":"y"}', "prompt: give"),
        (b'{"prompt":"x","colour":1}', "colour"),
        (b'{"prompt":"x","budget":{"maxturns":1}}', "maxturns"),
        (b'{"prompt":"x","budget":{"maxTurns":0}}', "budget.maxTurns"),
        (b'{"prompt":"x","budget":{"timeLimit":-1}}', "budget.timeLimit"),
        (b'{"id":"../x","prompt":"x"}', "id:"),
        (b'{"id":"a/b","prompt":"x"}', "id:"),
        (b'{"id":".hidden","prompt":"x"}', "id:"),
        (b'{"id":"a..b","prompt":"x"}', "id:"),
        (b'{"id":"' + b"a" * 121 + b'","prompt":"x"}', "id:"),
        (b'{"prompt":"x","repo":"--upload-pack=x"}', "repo:"),
        (b'{"prompt":"x","repo":"r","base":"--x"}', "base:"),
        (b'{"prompt":"x","base":"main"}', "base:"),
        (b'{"prompt":"x","workspace":"worktree"}', "workspace:"),
        (b'{"prompt":"x","workspace":"moon"}', "moon"),
        (b'{"prompt":"x","env":["A=secret"]}', "env:"),
        (b'{"prompt":"x","retries":-1}', "retries:"),
        (b'{"prompt":1}', "prompt"),
    ],
)
def test_a_mistake_names_its_line_and_field(line: bytes, words: str) -> None:
    tasks, mistakes = read_tasks([b"", line], {})
    assert tasks == []
    assert [mistake.line for mistake in mistakes] == [2]
    assert words in str(mistakes[0])


def test_an_id_twice_names_both_lines() -> None:
    _, mistakes = read_tasks([b'{"id":"a","prompt":"x"}', b'{"id":"a","prompt":"y"}'], {})
    assert str(mistakes[0]) == "line 2: id: a is the id of line 1 too"


@pytest.mark.promise("W13")
def test_a_huge_line_is_refused_without_reading_it() -> None:
    _, mistakes = read_tasks([b'{"prompt":"' + b"x" * MAX_LINE_BYTES + b'"}'], {})
    assert "longer than" in str(mistakes[0])
